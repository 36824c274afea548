import ArgumentParser
import Kafka
import Logging
import Model
import NIOPosix
import Operations
import Redis
import Store
import Synchronization

/// `waybill-packager restore`: restores orders that Kafka has and Redis lacks.
struct RestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Restores orders of a brand that are missing from Redis or older there than in Kafka.",
        discussion: """
            The packagers restore a Redis that lost everything by themselves. This is for orders that are missing \
            although the view is complete: somebody deleted them. Reads all of the orders topic, and writes only what \
            is missing or older, and the place of the last record of an order where Redis has another one that is \
            not there; nothing is published and no device is pushed. It can run beside the service, and be stopped and \
            run again at any time. Reads the same configuration as the service.

            Exit codes: 0: done; 3: stopped early (run it again); 1 or 64: it could not start.
            """)

    @Option(help: "Order type identifier of the brand.", transform: { try OrderTypeIdentifier($0) })
    var brand: OrderTypeIdentifier

    @Option(help: "Restore only this order.", transform: { try OrderIdentifier($0) })
    var order: OrderIdentifier?

    func run() async throws {
        let (settings, environment) = try ServiceEnvironment.ofCommand("waybill-packager")
        let line = ProgressLine(head: "\(self.brand): ", to: .error)
        let end = try await Self.restore(self.brand, self.order, try settings.cooling(), environment) {
            line.show("\($0.percent)% of \($0.total) offsets", isLast: false)
        }
        guard let end else {
            environment.logger.error(
                "stopped: the packagers started a restore, or Redis was emptied; run the command again")
            throw ExitCode(3)
        }
        line.show(end.line, isLast: true)
    }

    /// - Returns: what was written and left alone; nil if another restore runs at the same time.
    static func restore(
        _ type: OrderTypeIdentifier, _ order: OrderIdentifier?, _ cooling: Cooling, _ environment: ServiceEnvironment,
        report: @escaping @Sendable (RestoreProgress) -> Void
    ) async throws -> OrderStore.RestoreCounts? {
        let redis = RedisClient(environment.common.redis, eventLoopGroup: environment.group)
        let cold = ColdOrders(environment)
        let close = {
            await cold.close()
            await redis.close()
        }
        return try await withCleanup(close) {
            let reader = try KafkaReader(environment.kafka)
            return try await withCleanup(reader.close) {
                try await Self.restore(type, order, cooling, redis, cold.store(redis), reader, environment, report)
            }
        }
    }

    private static func restore(
        _ type: OrderTypeIdentifier, _ order: OrderIdentifier?, _ cooling: Cooling, _ redis: RedisClient,
        _ store: OrderStore, _ reader: KafkaReader, _ environment: ServiceEnvironment,
        _ report: @escaping @Sendable (RestoreProgress) -> Void
    ) async throws -> OrderStore.RestoreCounts? {
        let topic = environment.common.topics.orders
        let metrics = RestoreMetrics(factory: environment.metrics)
        let compared = ComparedOrders()
        var orders = OrderRestorer(store: store, cooling: cooling, metrics: metrics, logger: environment.logger)
        orders.onCompared = { compared.add($0) }
        let view = MaterializedView(redis: redis)
        let queue = RestoreJobQueue(view, of: type)
        let plan = "command\(ViewRecovery.randomName())"
        let bounds = try await reader.bounds(of: topic)
        try await queue.note(RestorePlan.jobs([topic: bounds], in: reader.cluster, tails: []), of: plan)
        var run = RestoreRun(
            plan: plan, queue: queue, reader: reader, ordersTopic: topic, orders: orders,
            registrations: RegistrationRestorer(
                registrations: Registrations(redis: redis), metrics: metrics, logger: environment.logger),
            metrics: metrics, logger: environment.logger, sizes: RangeSizes(partitions: bounds.count), report: report)
        let only = order.map { Array("\(OrderKey(orderType: type, order: $0))".utf8) }
        let prefix = Array("\(type)/".utf8)
        run.chooses = { record in only.map { $0 == record.key } ?? (record.key?.starts(with: prefix) ?? false) }
        guard try await run.run() != nil else { return nil }
        try await queue.forget(plan)
        return compared.counts
    }

    /// The orders that were compared on several threads.
    private final class ComparedOrders: Sendable {
        private let sum = Mutex(OrderStore.RestoreCounts())
        var counts: OrderStore.RestoreCounts { self.sum.withLock { $0 } }
        func add(_ counts: OrderStore.RestoreCounts) { self.sum.withLock { $0 = $0 + counts } }
    }
}

extension OrderStore.RestoreCounts {
    /// The result for a person. An order with several records is compared with each.
    var line: String {
        let compared = self.written + self.placed + self.same + self.newer + self.removed + self.unread
        let unread = self.unread > 0 ? ", \(self.unread) not compared since Kafka did not answer (run it again)" : ""
        return "\(self.written) orders restored, the places of \(self.placed) mended; \(compared) records compared: "
            + "Redis has \(self.same) of them, something newer than \(self.newer), and removals after \(self.removed)"
            + unread
    }
}
