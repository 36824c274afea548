import ArgumentParser
import Brands
import Kafka
import Logging
import Model
import Operations
import Redis
import Store

/// `waybill-packager expire`: removes orders that ended long ago.
struct ExpireCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "expire",
        abstract: "Removes orders that ended longer ago than their brand's retention.",
        discussion: """
            For each brand with retention in brand.json, a removal is published for each completed or cancelled order \
            whose last version is older than retention.endedDays. The packagers apply it as any other removal. What \
            is left of orders that were removed within a week, by whatever, is ended, too: registrations and \
            notifications that only Kafka has, and entries of parcels. Run it once a day, as a CronJob or with a \
            timer of systemd; it may be stopped and run again at any time, and beside itself. Reads the same \
            configuration as the service.

            Exit codes: 0: done; 2: done, except for brands that cannot be loaded and damaged orders (see the log); \
            1: not done (run it again); 64: it could not start.
            """)

    @Option(
        help: "Order type identifier of the only brand to go through; default: all that have a retention.",
        transform: { try OrderTypeIdentifier($0) })
    var brand: OrderTypeIdentifier?

    @Option(help: "Maximum number of removals per second, 1 to 100000.")
    var rate = 50

    @Flag(help: "Count what would be removed; write nothing.")
    var dryRun = false

    func validate() throws {
        guard (1...100_000).contains(self.rate) else {
            throw ValidationError("--rate \(self.rate): must be from 1 to 100000")
        }
    }

    func run() async throws {
        let (settings, environment) = try ServiceEnvironment.ofCommand("waybill-packager")
        let own = try RefusedConfiguration.ending { try PackagerSettings(settings, common: environment.common) }
        let failures = own.brands.failures.filter { self.brand == nil || $0.orderType == self.brand }
        if self.brand != nil, let failure = failures.first { throw failure.error }
        for failure in failures {
            environment.logger.error(
                "a brand cannot be loaded, its orders stay",
                metadata: ["brand": "\(failure.label)", "error": "\(failure.error)"])
        }
        let kept = try Self.kept(own.brands.brands, only: self.brand)
        if kept.isEmpty { DeadLettersCommand.say("no brand has a retention in its brand.json") }
        let (damaged, unread) = try await self.expire(kept, environment)
        if unread > 0 { throw ExitCode.failure }
        if damaged > 0 || !failures.isEmpty { throw ExitCode(2) }
    }

    /// Returns the brands to go through.
    ///
    /// - Parameter only: the brand that is asked for; nil for all.
    /// - Throws: `ValidationError` if that brand does not exist, or keeps its orders.
    static func kept(
        _ brands: Brands, only type: OrderTypeIdentifier?
    ) throws -> [(type: OrderTypeIdentifier, retention: OrderRetention)] {
        if let type {
            guard let brand = brands[type] else { throw ValidationError(unknownBrand: type, known: brands) }
            guard brand.retention != nil else {
                throw ValidationError("--brand \(type): its brand.json has no retention")
            }
        }
        return brands.orderTypes.filter { type == nil || $0 == type }.compactMap { type in
            brands[type]?.retention.map { (type, $0) }
        }
    }

    /// - Returns: the numbers of damaged orders, and of those that cannot be read now.
    private func expire(
        _ kept: [(type: OrderTypeIdentifier, retention: OrderRetention)], _ environment: ServiceEnvironment
    ) async throws -> (damaged: Int, unread: Int) {
        let common = environment.common
        let redis = RedisClient(common.redis, eventLoopGroup: environment.group)
        let producer =
            self.dryRun
            ? nil
            : try KafkaProducer(
                environment.producing(within: common.shutdownLimit / 2), topics: [common.topics.orderChanges])
        let cold = ColdOrders(environment)
        let reader = try KafkaReader(environment.kafka)
        let store = cold.store(ofCompleteView: redis)
        let remains = OrderRemains(
            topics: common.topics, reader: reader, store: store, registrations: Registrations(redis: redis),
            producer: producer)
        let close = {
            await producer?.close()
            await reader.close()
            await cold.close()
            await redis.close()
        }
        return try await withCleanup(close) {
            var (damaged, unread) = (0, 0)
            var removed: Set<OrderKey> = []
            for (index, (type, retention)) in kept.enumerated() {
                let line = ProgressLine(head: "\(type): ", to: .error)
                let run = ExpireRun(
                    topics: common.topics, scan: OrderScan(redis: redis), store: store, remains: remains,
                    producer: producer, logger: environment.logger, rate: self.rate
                ) { line.show($0, isLast: $1) }
                let tally = try await run.run(type, retention, &removed, isLast: index == kept.count - 1)
                damaged += tally.damaged
                unread += tally.unread
            }
            return (damaged, unread)
        }
    }
}
