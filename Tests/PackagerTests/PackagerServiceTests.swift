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

/// The service as it is built for production, run and stopped.
@Suite(.server) struct PackagerServiceTests {
    @Test(.timeLimit(.minutes(2)))
    func changesArePackagedAndCommittedBeforeTheServiceStops() async throws {
        let topics = Topics()
        let broker = try KafkaBroker(
            topics: [topics.orderChanges, topics.orders, topics.registrations, topics.deadLetters].map {
                .init($0, partitions: 4)
            })
        let server = try await PackagerFixture.redis()
        let directory = try TemporaryDirectory("packager-service")
        let quick = KafkaBroker.quickFile()
        let settings = try Settings(environment: [
            "WAYBILL_KAFKA_BOOTSTRAP": broker.bootstrap, "WAYBILL_REDIS_URL": server.url,
            "WAYBILL_KAFKA_PROPERTIES": try directory.write("kafka.properties", quick),
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
        let kafka = KafkaConfiguration(bootstrap: broker.bootstrap)

        try await withThrowingTaskGroup { tasks in
            tasks.addTask { try await group.run() }
            let producer = try KafkaProducer(kafka)
            let messages = try (0..<200).map { number in
                let key = try ChangeLog.key("o\(number % 50)")
                let change: (String, JSON) =
                    number < 50
                    ? ("order.replaced", ChangeLog.document())
                    : ("fulfillment.updated", ChangeLog.fulfillment("f\(number / 50)"))
                return KafkaMessage(
                    topic: topics.orderChanges, key: Array("\(key)".utf8),
                    value: ChangeLog.event(change.0, subject: "\(key)", id: "\(number)", change.1),
                    headers: [ChangeLog.contentType])
            }
            for outcome in await producer.produce(messages) { _ = try outcome.get() }
            await producer.close()
            let admin = try KafkaAdmin(kafka)
            try await eventually("nothing left", within: .seconds(60)) {
                let lag = try await admin.lag(group: Packager.group, topic: topics.orderChanges)
                return lag.values.reduce(0, +) == 0
            }
            #expect(environment.readiness.reasons.isEmpty)
            await group.triggerGracefulShutdown()
            let start = ContinuousClock.now
            try await tasks.waitForAll()
            #expect(ContinuousClock.now - start < .seconds(15))
            #expect(environment.readiness.reasons == ["consumer-group: stopping"])
            let committed = try await admin.committed(group: Packager.group, topic: topics.orderChanges)
            #expect(committed.values.reduce(0, +) == 200)
            #expect(try await admin.endOffsets(topics.deadLetters).values.reduce(0, +) == 0)
            await admin.close()
        }
        let redis = RedisClient(
            try RedisConfiguration(url: server.url), eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        let states = try await OrderStore(redis: redis).orders((0..<50).map { try ChangeLog.key("o\($0)") })
        for state in states {
            #expect(try state.get()?.state.document.members["fulfillments"]?.array?.count == 3)
        }
        await redis.close()
        await server.stop()
        broker.close()
    }
}
