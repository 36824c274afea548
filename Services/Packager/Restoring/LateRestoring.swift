import CoreMetrics
import Kafka
import Logging
import Model
import Store

/// Restores the orders of a brand that could not be loaded when the view was restored, once it can be: of this brand
/// alone, while all others are served.
///
/// The view's epoch names the awaited types; the tails stay before the first order of them. So it reads from the tails,
/// under a plan named after the epochs: any event at a shard of the view changes its epoch, and then all work done so
/// far no longer counts. Packagers share the jobs, and one that is killed loses its lease. The packager that sees all
/// jobs done removes the type from the epochs.
struct LateRestoring: Sendable {
    /// Jobs in hand at a time: few, since other brands are served meanwhile.
    private static let concurrency = 2

    let view: MaterializedView
    let ordersTopic: String
    let reader: KafkaReader
    let orders: OrderRestorer
    let registrations: RegistrationRestorer
    let metrics: RestoreMetrics
    let logger: Logger

    /// Returns the name of the plan, the same for all packagers that see the same epochs.
    static func plan(_ type: OrderTypeIdentifier, _ shards: [MaterializedView.Shard]) -> String {
        let text = type.rawValue + shards.map { $0.epoch ?? "" }.joined()
        return text.filter { $0.isASCII && ($0.isLetter || $0.isNumber) }
    }

    /// Restores those of the awaited types that can be restored.
    func restore(_ types: Set<OrderTypeIdentifier>) async throws {
        for type in types.sorted(by: { $0.rawValue < $1.rawValue }) where self.orders.canRestore(type) {
            let shards = try await self.view.look()
            guard ViewStatus(shards) == .complete, shards.contains(where: { $0.awaited.contains(type) }) else {
                continue
            }
            try await self.restore(type, shards)
        }
    }

    private func restore(_ type: OrderTypeIdentifier, _ shards: [MaterializedView.Shard]) async throws {
        let plan = Self.plan(type, shards)
        let bounds = try await self.reader.bounds(of: self.ordersTopic)
        let cluster = self.reader.cluster
        let queue = RestoreJobQueue(self.view, of: type, in: cluster)
        if try await queue.jobs(of: plan) == nil {
            let jobs = RestorePlan.jobs([self.ordersTopic: bounds], in: cluster, tails: shards.map(\.tails))
            try await queue.note(jobs, of: plan)
        }
        self.logger.info("restoring orders that waited for their brand", metadata: ["brand": "\(type)"])
        var run = RestoreRun(
            plan: plan, queue: queue, reader: self.reader, ordersTopic: self.ordersTopic, orders: self.orders,
            registrations: self.registrations, metrics: self.metrics, logger: self.logger,
            sizes: RangeSizes(partitions: bounds.count)
        ) { _ in }
        run.type = type
        run.concurrency = Self.concurrency
        let jobs = try await run.run()
        self.metrics.remaining.record(0)
        guard jobs != nil else { return }
        if try await self.view.release(type, in: shards, epoch: ViewRecovery.randomName()) {
            try await queue.forget(plan)
            self.logger.info("restored the orders that waited for their brand", metadata: ["brand": "\(type)"])
        }
    }
}
