import ArgumentParser
import Kafka
import Model
import Operations
import Redis

/// `waybill-packager order`: looks at single orders.
struct OrderCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "order", abstract: "Looks at single orders, and ends their links.",
        subcommands: [ShowOrderCommand.self, UnlinkOrderCommand.self])
}

/// `waybill-packager order show KEY`
struct ShowOrderCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Shows what Redis and Kafka have of an order, if that is well, and what to do.",
        discussion: """
            Compares Redis with the last record of the orders topic, and looks at the package, the token's secret, the \
            sources, the pictures, the devices, open dead letters, and changes that wait. It changes no order and \
            prints neither values of the order nor tokens. Of the compacted topic it reads the key's partition, from \
            its end; of the topics of changes what the packagers have not committed; and all dead letters. Reads the \
            same configuration as the service.

            Exit codes: 0: the order is well, perhaps with warnings; 1: it is not, or something could not be read; \
            78: the configuration is wrong.
            """)

    @Argument(help: "The order: <orderTypeIdentifier>/<orderIdentifier>.", transform: { try OrderKey($0) })
    var key: OrderKey

    @Flag(help: "Print one JSON object.")
    var json = false

    func run() async throws {
        let (all, environment) = try ServiceEnvironment.ofCommand("waybill-packager")
        let settings = try RefusedConfiguration.ending { try PackagerSettings(all, common: environment.common) }
        let line = ProgressLine(head: "\(self.key): ", to: .error)
        let now = nowMilliseconds()
        let facts = try await Self.look(at: self.key, settings, environment, nowMilliseconds: now) {
            line.show($0, isLast: $1)
        }
        let verdict = OrderVerdict(facts)
        StandardStream.output.write(
            (self.json ? OrderFormatter.json(facts, verdict).text : OrderFormatter.text(facts, verdict)) + "\n")
        if !verdict.isHealthy { throw ExitCode.failure }
    }

    /// Looks at an order with connections of its own.
    static func look(
        at key: OrderKey, _ settings: PackagerSettings, _ environment: ServiceEnvironment, nowMilliseconds: Int64,
        report: @escaping @Sendable (_ line: String, _ isLast: Bool) -> Void
    ) async throws -> OrderFacts {
        let reader = try KafkaReader(environment.kafka)
        let admin = try KafkaAdmin(environment.kafka)
        let redis = RedisClient(environment.common.redis, eventLoopGroup: environment.group)
        let topics = environment.common.topics
        let cold = ColdOrders(environment)
        let inspection = OrderInspection(
            redis: redis, store: cold.store(redis), reader: reader, admin: admin, topics: topics,
            group: topics.group(of: Packager.group),
            settings: settings, report: report)
        let facts = await inspection.look(at: key, nowMilliseconds: nowMilliseconds)
        await reader.close()
        await admin.close()
        await cold.close()
        await redis.close()
        return facts
    }
}
