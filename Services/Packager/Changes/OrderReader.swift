import Model
import Operations
import Store

/// Step 1: reads the entries of a batch's orders, with a bound on the memory in use.
struct OrderReader: Sendable {
    let store: OrderStore
    /// As for `ChangeProcessor`.
    let view: ViewEpochCache?
    let metrics: PackagerMetrics

    /// Orders that were read together.
    struct Page: Sendable {
        /// A time before any of them was read.
        let begun = PackagingStart.now
        /// The same, in nanoseconds since 1970.
        let startNanoseconds = TraceSpan.now
        /// The epochs under which they were read; nil skips the check.
        let epochs: MaterializedView.Epochs?
        /// The orders with what waits for them, and their states; nil for one that never was.
        fileprivate(set) var orders: [(BatchOrder, OrderStore.StoredOrder?)] = []
        /// The changes of damaged orders, which become dead letters.
        fileprivate(set) var damaged: [RefusedRecord] = []
        /// Bytes of the documents.
        fileprivate(set) var bytes = 0

        /// Adds an order as it was read; one that cannot be read now is postponed.
        fileprivate mutating func add(
            _ order: BatchOrder, _ result: Result<OrderStore.Entry, StoreError>, _ outcomes: inout BatchOutcomes
        ) {
            switch result {
            case .success(let entry):
                self.orders.append((order.following(entry), entry.order))
                self.bytes += entry.bytes
            case .failure(let error) where error.code == .corrupt:
                let fault = ChangeFault(
                    code: .corruptState,
                    reason: "\(error.message); repair or remove the order in Redis, then publish the change again")
                self.damaged += order.changes.map {
                    RefusedRecord(place: order.place, record: $0.record, fault: fault)
                }
            case .failure(let error): outcomes.postpone(order.place, error.message)
            }
        }
    }

    /// Reads all orders whose entries are small.
    ///
    /// - Returns: also the others, as the pages in which they are to be read.
    func first(
        _ orders: [BatchOrder], _ outcomes: inout BatchOutcomes
    ) async throws(StoreError) -> (page: Page, large: [[BatchOrder]]) {
        var page = Page(epochs: try await self.view?.known())
        var large: [(item: BatchOrder, bytes: Int)] = []
        let started = ContinuousClock.now
        let sights = try await self.store.look(at: orders.map(\.key))
        self.metrics.ended(.read, since: started)
        for (order, sight) in zip(orders, sights) {
            switch sight {
            case .read(let result): page.add(order, result, &outcomes)
            case .large(let bytes): large.append((order, bytes))
            }
        }
        return (page, OrderStore.pages(large))
    }

    /// Reads a page of large orders.
    func page(_ orders: [BatchOrder], _ outcomes: inout BatchOutcomes) async throws(StoreError) -> Page {
        var page = Page(epochs: try await self.view?.known())
        for (order, result) in zip(orders, try await self.store.eachEntry(orders.map(\.key))) {
            page.add(order, result, &outcomes)
        }
        return page
    }
}
