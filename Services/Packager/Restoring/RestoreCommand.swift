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
            is missing or older; nothing is published and no device is pushed. It can run beside the service, and be \
            stopped and run again at any time. Reads the same configuration as the service.

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
        line.show("\(end) orders restored", isLast: true)
    }

    /// - Returns: the number of orders that were written; nil if another restore runs at the same time.
    static func restore(
        _ type: OrderTypeIdentifier, _ order: OrderIdentifier?, _ cooling: Cooling, _ environment: ServiceEnvironment,
        report: @escaping @Sendable (RestoreProgress) -> Void
    ) async throws -> Int? {
        let redis = RedisClient(environment.common.redis, eventLoopGroup: environment.group)
        return try await withCleanup(redis.close) {
            let reader = try KafkaReader(environment.kafka)
            return try await withCleanup(reader.close) {
                try await Self.restore(type, order, cooling, redis, reader, environment, report)
            }
        }
    }

    private static func restore(
        _ type: OrderTypeIdentifier, _ order: OrderIdentifier?, _ cooling: Cooling, _ redis: RedisClient,
        _ reader: KafkaReader, _ environment: ServiceEnvironment,
        _ report: @escaping @Sendable (RestoreProgress) -> Void
    ) async throws -> Int? {
        let topic = environment.common.topics.orders
        let metrics = RestoreMetrics(factory: environment.metrics)
        let written = WrittenOrders()
        var orders = OrderRestorer(
            store: OrderStore(redis: redis), cooling: cooling, metrics: metrics, logger: environment.logger)
        orders.onWritten = { written.add($0) }
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
        return written.count
    }

    /// A counter of orders written on several threads.
    private final class WrittenOrders: Sendable {
        private let number = Mutex(0)
        var count: Int { self.number.withLock { $0 } }
        func add(_ count: Int) { self.number.withLock { $0 += count } }
    }
}
