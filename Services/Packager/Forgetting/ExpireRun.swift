import Brands
import FoundationEssentials
import Kafka
import Logging
import Model
import Operations
import Store

/// Goes through all stored orders of a brand, and publishes a removal for each that its `retention` no longer keeps.
///
/// May run in any number of processes beside the packagers, and be stopped at any point: of two removals of one version
/// the second is skipped as a repetition. A removal is of the version that was judged: an order that changed in the
/// meantime stays.
///
/// Removals are not awaited, so what they leave is ended by the run of the next day.
struct ExpireRun: Sendable {
    /// Orders that are read together.
    private static let chunk = 50
    /// Removed orders of which the remains are looked for in one pass over the topics.
    private static let removedOrders = 100_000

    /// The counts of a run.
    struct Tally: Hashable, Sendable {
        /// Orders that were read.
        var read = 0
        /// Orders whose removal was published, or would have been.
        var removed = 0
        /// Orders whose data in Redis is damaged, or whose record is lost.
        var damaged = 0
        /// Cold orders of which Kafka does not give the record now.
        var unread = 0
        /// Remains of removed orders that were ended, or would have been.
        var remains = 0

        func line(isDryRun: Bool) -> String {
            "\(self.read) orders read, \(self.removed) \(isDryRun ? "would be removed" : "removed"), "
                + "\(self.damaged) damaged" + (self.unread > 0 ? ", \(self.unread) cannot be read now" : "")
                + (self.remains > 0 ? ", \(self.remains) remains of removed orders" : "")
        }
    }

    let topics: Topics
    let scan: OrderScan
    let store: OrderStore
    /// Nil to leave what is left of removed orders.
    var remains: OrderRemains?
    /// Nil if nothing is removed.
    let producer: KafkaProducer?
    let logger: Logger
    /// Removals a second.
    var rate = 50
    /// Milliseconds since 1970.
    var now: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970 * 1000) }
    /// Called with each step, for people.
    let report: @Sendable (_ line: String, _ isLast: Bool) -> Void

    /// - Throws: `StoreError`, `KafkaError`; what was published before stays published.
    func run(_ type: OrderTypeIdentifier, _ retention: OrderRetention) async throws -> Tally {
        var removed: Set<OrderKey> = []
        return try await self.run(type, retention, &removed, isLast: true)
    }

    /// Goes through one of several brands. A pass over the topics for the remains takes the same time for many orders
    /// as for one, so those of all brands are looked for together.
    ///
    /// - Parameters:
    ///   - removed: the removed orders of the brands before, and then of this one too, of which the remains are not
    ///     ended yet.
    ///   - isLast: true to end them.
    func run(
        _ type: OrderTypeIdentifier, _ retention: OrderRetention, _ removed: inout Set<OrderKey>, isLast: Bool
    ) async throws -> Tally {
        var tally = Tally()
        var pace = RateLimiter(perSecond: self.rate)
        let clock = ContinuousClock()
        let start = clock.now
        var cursor: String?
        repeat {
            let page = try await self.scan.page(of: type, from: cursor)
            for keys in page.orders.chunks(of: Self.chunk) {
                let removals = try await self.removals(of: keys, retention, &tally, &removed)
                for outcome in await self.producer?.produce(removals) ?? [] { _ = try outcome.get() }
                tally.removed += removals.count
                self.report(tally.line(isDryRun: self.producer == nil), false)
                guard self.producer != nil else { continue }
                try await Task.sleep(for: pace.wait(after: removals.count, now: clock.now - start))
            }
            cursor = page.next
            if removed.count >= Self.removedOrders || (isLast && cursor == nil) {
                let ended = try await self.remains?.end(of: removed) ?? [:]
                tally.remains += ended.values.reduce(0) { $0 + $1.sum }
                removed = []
            }
        } while cursor != nil
        self.report(tally.line(isDryRun: self.producer == nil), true)
        return tally
    }

    /// - Parameter removed: gets the orders that are removed already.
    private func removals(
        of keys: [OrderKey], _ retention: OrderRetention, _ tally: inout Tally, _ removed: inout Set<OrderKey>
    ) async throws -> [KafkaMessage] {
        let seconds = self.now() / 1000
        var removals: [KafkaMessage] = []
        var old: [OrderKey] = []
        // Most are too young, and most of those are cold: they are not read back.
        for (key, stored) in zip(keys, try await self.store.storedVersions(keys)) {
            let isOld = stored.map {
                retention.isOver(modifiedEpochSeconds: $0.modifiedEpochSeconds, nowEpochSeconds: seconds)
            }
            if stored?.isRemoved == true { removed.insert(key) }
            if isOld ?? true { old.append(key) } else if stored?.isRemoved == false { tally.read += 1 }
        }
        guard !old.isEmpty else { return [] }
        for (key, result) in zip(old, try await self.store.orders(old)) {
            switch result {
            case .success(let stored):
                guard let state = stored?.state, !state.isRemoved else { continue }
                tally.read += 1
                guard retention.isOver(state, nowEpochSeconds: seconds) else { continue }
                removals.append(
                    OrderRemoval.message(
                        of: key, id: "retention-\(state.version)", version: state.version, at: seconds, self.topics))
            case .failure(let error):
                guard error.isOfOneOrder else { throw error }
                tally.read += 1
                let isUnread = error.code == .unread
                if isUnread { tally.unread += 1 } else { tally.damaged += 1 }
                self.logger.warning(
                    isUnread ? "order unreadable now" : "order damaged",
                    metadata: ["order": "\(key)", "reason": "\(error.message)"])
            }
        }
        return removals
    }
}
