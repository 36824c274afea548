import Model
import Operations
import Store

/// Step 1: reads the entries of a batch's orders, with a bound on the memory in use.
struct OrderReader: Sendable {
    let store: OrderStore
    /// As for `ChangeProcessor`.
    let view: ViewEpochCache?
    let metrics: PackagerMetrics

    /// The moment of a read.
    struct Moment: Sendable {
        /// A time before anything was read.
        let begun = PackagingStart.now
        /// The same, in nanoseconds since 1970.
        let startNanoseconds = TraceSpan.now
        /// The epochs under which it was read; nil skips the check.
        let epochs: MaterializedView.Epochs?
    }

    /// The first read of orders: each by the place of its work.
    struct Sights: Sendable {
        fileprivate let moment: Moment
        fileprivate let orders: [Int: OrderStore.Sight]
    }

    /// Orders that were read together.
    struct Page: Sendable {
        let moment: Moment
        /// The orders with what waits for them, and their states; nil for one that never was.
        fileprivate(set) var orders: [(BatchOrder, OrderStore.StoredOrder?)] = []
        /// The changes of damaged orders, which become dead letters.
        fileprivate(set) var damaged: [RefusedRecord] = []
        /// Bytes of the documents.
        fileprivate(set) var bytes = 0
        /// The orders of which only the facts beside the document are known, by place, with all of their changes.
        fileprivate var unread: [Int: (order: BatchOrder, error: StoreError)] = [:]

        /// Adds an order as it was read; one that cannot be read now is postponed.
        fileprivate mutating func add(
            _ order: BatchOrder, _ result: Result<OrderStore.Entry, StoreError>, _ outcomes: inout BatchOutcomes
        ) {
            switch result {
            case .success(let entry):
                self.orders.append((order.following(entry), entry.order))
                self.bytes += entry.bytes
            case .failure(let error):
                // A removal or a replacement needs nothing of what cannot be read, unless it may be in it: the traces
                // by which a repetition is known may be unreadable, too.
                if let remains = error.remains, let whole = order.fromLastWhole,
                    error.knowsChanges || whole.isNewer(than: remains.state)
                {
                    self.unread[order.place] = (order, error)
                    self.orders.append((whole, remains))
                } else {
                    self.fail(order, error, &outcomes)
                }
            }
        }

        /// Returns the drafts without those of unreadable orders whose removal or replacement is not applied: such a
        /// draft has nothing of the order's document.
        mutating func sound(_ drafts: [OrderDraft], _ outcomes: inout BatchOutcomes) -> [OrderDraft] {
            drafts.filter { draft in
                guard let (order, error) = self.unread[draft.place], draft.result.outcomes.first != .applied else {
                    return true
                }
                self.fail(order, error, &outcomes)
                return false
            }
        }

        private mutating func fail(_ order: BatchOrder, _ error: StoreError, _ outcomes: inout BatchOutcomes) {
            guard !error.origin.isRetriable else { return outcomes.postpone(order.place, error.message) }
            let fault = ChangeFault(
                code: .corruptState,
                reason: "\(error.message); repair or remove the order in Redis, then publish the change again")
            self.damaged += order.changes.map { RefusedRecord(place: order.place, record: $0.record, fault: fault) }
        }
    }

    /// Reads orders for the first time: those that are small and in Redis.
    ///
    /// - Parameters:
    ///   - orders: with the places of their work.
    ///   - mark: is set before this returns.
    func look(
        at orders: [(place: Int, key: OrderKey)], marking mark: WorkMark? = nil
    ) async throws(StoreError) -> Sights {
        let moment = Moment(epochs: try await self.view?.known())
        let started = ContinuousClock.now
        let sights = try await self.store.look(at: orders.map(\.key), marking: mark)
        self.metrics.ended(.read, since: started)
        return Sights(
            moment: moment, orders: Dictionary(uniqueKeysWithValues: zip(orders.lazy.map(\.place), sights)))
    }

    /// Divides orders by what was seen of them: a page of those that were read, and the pages in which the others are
    /// to be read, last those that Kafka has.
    func first(
        _ orders: [BatchOrder], _ seen: Sights, _ outcomes: inout BatchOutcomes
    ) -> (page: Page, others: [[BatchOrder]]) {
        var page = Page(moment: seen.moment)
        var large: [(item: BatchOrder, bytes: Int)] = []
        var cold: [(item: BatchOrder, bytes: Int)] = []
        for order in orders {
            switch seen.orders[order.place] {
            case .read(let result)?:
                if let record = seen.orders[order.place]?.coldRecord {
                    cold.append((order, record.bytes))
                } else {
                    page.add(order, result, &outcomes)
                }
            case .large(let bytes)?: large.append((order, bytes))
            case nil: outcomes.postpone(order.place, "reading an order: it was not asked for")
            }
        }
        return (page, OrderStore.pages(large) + OrderStore.pages(cold))
    }

    /// Reads a page of large orders, or of cold ones.
    func page(_ orders: [BatchOrder], _ outcomes: inout BatchOutcomes) async throws(StoreError) -> Page {
        var page = Page(moment: Moment(epochs: try await self.view?.known()))
        for (order, result) in zip(orders, try await self.store.eachEntry(orders.map(\.key))) {
            page.add(order, result, &outcomes)
        }
        return page
    }
}
