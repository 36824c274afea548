import Kafka
import Logging
import Model
import Operations
import Store
import Synchronization

/// Cools the old orders that one sweep finds, and publishes those again that cannot cool: their records are lost, or
/// not known. So they cool in the next sweep, and a loss of Redis does not lose them.
///
/// Kafka is read before anything is forgotten. A partition that does not answer is left out for the rest of the sweep,
/// so a sweep waits for each at most once.
/// Bounded: `limit` orders a sweep are published again, `rate` a second. Threads: any, one call at a time.
final class OrderCooler: Sendable {
    /// Orders that are read and verified together.
    private static let chunk = 100
    /// The most orders that are published again in one sweep.
    static let limit = 100_000
    /// Orders a second that are published again.
    private static let rate = 100

    /// The counts of a sweep.
    struct Tally: Sendable {
        /// Orders whose last record is not known.
        var unplaced = 0
        /// Orders of which Kafka does not have at their place what Redis has.
        var differing = 0
        /// Orders whose partition did not answer.
        var unread = 0
        /// Orders that were published again.
        var published = 0
        /// Partitions that did not answer.
        fileprivate var silent: Set<Int32> = []
        fileprivate var isPublishing = true
    }

    private let store: OrderStore
    private let publisher: VersionPublisher
    private let logger: Logger
    /// Returns false while nothing is cooled: a packager that is not ready knows of a fault that may concern orders.
    private let isReady: @Sendable () -> Bool
    private let state = Mutex(Tally())

    /// - Parameter store: reads cold orders, and only from a complete view.
    init(_ store: OrderStore, _ publisher: VersionPublisher, _ logger: Logger, isReady: @escaping @Sendable () -> Bool)
    {
        self.store = store
        self.publisher = publisher
        self.logger = logger
        self.isReady = isReady
    }

    var tally: Tally { self.state.withLock { $0 } }

    /// - Returns: the orders that are cold now.
    /// - Throws: `StoreError`
    func cool(_ orders: [OrderKey]) async throws -> Set<OrderKey> {
        var cooled: Set<OrderKey> = []
        for keys in orders.chunks(of: Self.chunk) where self.isReady() {
            var lost: [OrderKey] = []
            let outcomes = try await self.store.cool(keys, except: self.tally.silent)
            self.state.withLock { tally in
                for (key, outcome) in zip(keys, outcomes) {
                    switch outcome {
                    case .cooled: cooled.insert(key)
                    case .changed: break
                    case .unplaced:
                        tally.unplaced += 1
                        lost.append(key)
                    case .differs:
                        tally.differing += 1
                        lost.append(key)
                    case .unread(let partition):
                        tally.unread += 1
                        tally.silent.insert(partition)
                    }
                }
            }
            try await self.publish(lost)
        }
        return cooled
    }

    /// Publishes orders again, silently if devices were told of their versions.
    private func publish(_ keys: [OrderKey]) async throws {
        guard !keys.isEmpty, self.tally.isPublishing else { return }
        let published: Int
        do {
            published = try await self.publishEach(keys)
        } catch  where error is StoreError || error is RetriableFailure {
            self.logger.warning("cannot publish orders again that cannot cool", metadata: ["error": "\(error)"])
            self.state.withLock { $0.isPublishing = false }
            return
        }
        self.state.withLock { tally in
            tally.published += published
            tally.isPublishing = tally.published < Self.limit
        }
        try await Task.sleep(for: .seconds(published) / Self.rate)
    }

    private func publishEach(_ keys: [OrderKey]) async throws -> Int {
        var writes: [OrderStore.Write] = []
        var silent: Set<OrderKey> = []
        for case .success(let order?) in try await self.store.orders(keys) where !order.state.isRemoved && !order.isCold
        {
            writes.append(.init(state: order.state, after: order, content: .unrecorded))
            if order.isPublished { silent.insert(order.state.key) }
        }
        // One that is written meanwhile is published by its writer.
        let awaiting = zip(writes, try await self.store.write(writes)).filter { $1 == .written }.map(\.0.key)
        return awaiting.count - (try await self.publisher.announce(awaiting, silent: silent)).count
    }
}
