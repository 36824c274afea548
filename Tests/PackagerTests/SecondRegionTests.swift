import Kafka
import Logging
import Model
import NIOPosix
import Operations
import Redis
import ServiceLifecycle
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Producers and packagers move to another cluster, which has the first one's topics as a mirror makes them: under a
/// prefix, with different offsets.
@Suite(.server, .timeLimit(.minutes(3))) struct SecondRegionTests {
    private static let orders = 40
    private let topics = Topics()

    private func broker(_ more: [String] = []) throws -> KafkaBroker {
        let names = [topics.orderChanges, topics.orders, topics.registrations, topics.deadLetters] + more
        return try KafkaBroker(topics: names.map { .init($0, partitions: 4) })
    }

    /// Runs packagers on a cluster while `body` works.
    private func packaging(
        _ broker: KafkaBroker, _ redis: String, _ directory: TemporaryDirectory, sources: String,
        _ body: (MetricsRegistry) async throws -> Void
    ) async throws {
        let quick = KafkaBroker.quickFile()
        let settings = try Settings(environment: [
            "WAYBILL_KAFKA_BOOTSTRAP": broker.bootstrap, "WAYBILL_REDIS_URL": redis,
            "WAYBILL_KAFKA_PROPERTIES": try directory.write("kafka.properties", quick),
            "WAYBILL_ORDER_CHANGE_TOPICS": sources,
            "WAYBILL_BRANDS": try BrandFixture.shared.get().write(into: directory),
            "WAYBILL_TOKEN_SECRETS": try directory.write("secrets", BrandFixture.secretsFile),
            "WAYBILL_WEB_SERVICE_URL": BrandFixture.webServiceURL,
        ])
        let common = try CommonSettings(settings)
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let environment = ServiceEnvironment(
            common: common, group: MultiThreadedEventLoopGroup.singleton, metrics: MetricsRegistry(),
            readiness: Readiness(conditions: [WorkerCondition.joined]), logger: logger)
        let services = try Packager.build(try PackagerSettings(settings, common: common), environment)
        let group = ServiceGroup(services: services, logger: logger)
        try await withThrowingTaskGroup { tasks in
            tasks.addTask { try await group.run() }
            do { try await body(environment.metrics) } catch {
                await group.triggerGracefulShutdown()
                throw error
            }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }

    /// Returns each order's changes in turn, with unique identifiers.
    private func changes(_ rounds: Range<Int>) throws -> [KafkaMessage] {
        try rounds.flatMap { round in
            try (0..<Self.orders).map { number in
                let key = try ChangeLog.key("o\(number)")
                let (type, data): (String, JSON) =
                    round == 0
                    ? ("order.replaced", ChangeLog.document("0"))
                    : ("order.patched", ["orderNumber": .string("\(round)")])
                return KafkaMessage(
                    topic: self.topics.orderChanges, key: Array("\(key)".utf8),
                    value: ChangeLog.event(type, subject: "\(key)", id: "\(number)-\(round)", data),
                    headers: [ChangeLog.contentType])
            }
        }
    }

    private func produce(_ messages: [KafkaMessage], to broker: KafkaBroker) async throws {
        let producer = try KafkaProducer(KafkaConfiguration(bootstrap: broker.bootstrap))
        for outcome in await producer.produce(messages) { _ = try outcome.get() }
        await producer.close()
    }

    /// Copies a topic, each partition into the same one.
    private func mirror(_ topic: String, _ from: KafkaBroker, _ to: KafkaBroker, as name: String) async throws {
        let reader = try KafkaReader(KafkaConfiguration(bootstrap: from.bootstrap))
        for bounds in try await reader.bounds(of: topic) where bounds.end > bounds.first {
            try await reader.read(
                topic, partition: bounds.partition, from: bounds.first, to: bounds.end, records: 1000, bytes: 1 << 20
            ) { records in
                try await self.produce(
                    records.map {
                        KafkaMessage(
                            topic: name, partition: $0.partition, key: $0.key, value: $0.value, headers: $0.headers)
                    }, to: to)
            }
        }
        await reader.close()
    }

    private func count(_ broker: KafkaBroker, _ topic: String) async throws -> Int64 {
        let admin = try KafkaAdmin(KafkaConfiguration(bootstrap: broker.bootstrap))
        let count = try await admin.endOffsets(topic).values.reduce(0, +)
        await admin.close()
        return count
    }

    @Test func aFailoverToAMirroredClusterNeitherLosesNorRepeatsChanges() async throws {
        let directory = try TemporaryDirectory("second-region")
        let mirrored = "east.\(self.topics.orderChanges)"
        let (east, west) = (try self.broker(), try self.broker([mirrored]))
        let server = try await PackagerFixture.redis()
        let redis = RedisClient(
            try RedisConfiguration(url: server.url), eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        func numbers() async throws -> Set<JSON?> {
            let keys = try (0..<Self.orders).map { try ChangeLog.key("o\($0)") }
            return Set(
                try await OrderStore(redis: redis).orders(keys).map {
                    try $0.get()?.state.document.members["orderNumber"]
                })
        }
        // Most is done in the east; the last round is published there and no longer consumed.
        try await self.packaging(east, server.url, directory, sources: self.topics.orderChanges) { _ in
            try await self.produce(try self.changes(0..<20), to: east)
            try await eventually("done in the east", within: .seconds(60)) { try await numbers() == ["19"] }
        }
        try await self.produce(try self.changes(20..<21), to: east)
        try await self.mirror(self.topics.orders, east, west, as: self.topics.orders)
        try await self.mirror(self.topics.orderChanges, east, west, as: mirrored)
        let before = try await self.count(west, self.topics.orders)
        // No group has an offset there: both topics are read from their beginnings.
        let sources = "\(self.topics.orderChanges),^east\\..*order-changes$"
        try await self.packaging(west, server.url, directory, sources: sources) { metrics in
            try await eventually("what nobody took in the east", within: .seconds(60)) {
                try await numbers() == ["20"]
            }
            try await self.produce(try self.changes(21..<25), to: west)
            try await eventually("done in the west", within: .seconds(60)) { try await numbers() == ["24"] }
            let all = Int64(Self.orders * 25)
            try await eventually("all was seen") { metrics.counter("waybill_changes_consumed_total") == all }
            #expect(metrics.counter("waybill_changes_applied_total") == Int64(Self.orders * 5))
        }
        #expect(try await numbers() == ["24"])
        let published = try await self.count(west, self.topics.orders) - before
        #expect(published <= Int64(Self.orders * 5), "a version for what is new, at most, and none again")
        #expect(try await self.count(west, self.topics.deadLetters) == 0)
        #expect(try await self.count(east, self.topics.deadLetters) == 0)
        await redis.close()
        await server.stop()
        east.close()
        west.close()
    }
}
