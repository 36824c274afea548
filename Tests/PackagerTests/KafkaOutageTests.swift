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

/// The service during and after a Kafka outage that begins with work in hand.
@Suite(.server) struct KafkaOutageTests {
    private static func messages(_ range: Range<Int>) throws -> [KafkaMessage] {
        try range.map { number in
            let key = try ChangeLog.key("o\(number % 20)")
            let change: (String, JSON) =
                number < 20
                ? ("order.replaced", ChangeLog.document())
                : ("fulfillment.updated", ChangeLog.fulfillment("f\(number / 20)"))
            return KafkaMessage(
                topic: ChangeLog.topic, key: Array("\(key)".utf8),
                value: ChangeLog.event(change.0, subject: "\(key)", id: "\(number)", change.1),
                headers: [ChangeLog.contentType])
        }
    }

    /// A broker that takes records and answers later than a publication may take: each attempt is given up, and may
    /// leave a record, but none of another version. Its answers wait for the test, whatever the speed of the machine.
    @Test(.timeLimit(.minutes(2))) func aBrokerSlowerThanTheDeadlineGetsOneRecordAnAttempt() async throws {
        let properties = ["delivery.timeout.ms": "2000", "socket.connection.setup.timeout.ms": "1000"]
        try await PackagerFixture.run(producer: properties) { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            // The producer connects with it.
            let first = KeyedWork.each(of: [log.change("order.replaced", "first", ChangeLog.document())])
            try await eventually("the first is done") { await processor.process(first) == [.done] }
            let works = KeyedWork.each(of: [log.change("order.replaced", "o", ChangeLog.document())])
            try fixture.broker.setDelay(milliseconds: 3_600_000)
            var attempts = 2
            for _ in 0..<attempts {
                guard case .later(let reason) = await processor.process(works)[0] else {
                    Issue.record("it was published without an answer")
                    return
                }
                #expect(reason.contains("publishing to waybill.orders"), "\(reason)")
            }
            try fixture.broker.setDelay(milliseconds: 0)
            try await eventually("it is done") {
                attempts += 1
                return await processor.process(works) == [.done]
            }
            let count = Int(try await fixture.count(fixture.topics.orders))
            let key = "\(try ChangeLog.key("o"))"
            let records = try await fixture.read(fixture.topics.orders, count).filter { $0.keyText == key }
            #expect((1...attempts).contains(records.count), "\(records.count) records")
            let versions = try records.map { try OrderRecord.decode(try #require($0.value)).version }
            #expect(Set(versions) == [try #require(try await fixture.state("o")?.version)])
            #expect(try await fixture.stored("o")?.isPublished == true)
        }
    }

    /// Takes long because the outage must outlast deliveries that time out and the session of the group.
    @Test(.timeLimit(.minutes(2)))
    func changesBeforeAndDuringAnOutageAreAppliedAfterIt() async throws {
        let topics = Topics()
        let broker = try KafkaBroker(
            topics: [topics.orderChanges, topics.orders, topics.registrations, topics.deadLetters].map {
                .init($0, partitions: 4)
            })
        let server = try await PackagerFixture.redis()
        let directory = try TemporaryDirectory("packager-outage")
        let properties = KafkaBroker.quickFile(["delivery.timeout.ms": "2000"])
        let settings = try Settings(environment: [
            "WAYBILL_KAFKA_BOOTSTRAP": broker.bootstrap, "WAYBILL_REDIS_URL": server.url,
            "WAYBILL_KAFKA_PROPERTIES": try directory.write("kafka.properties", properties),
            "WAYBILL_BRANDS": try BrandFixture.shared.get().write(into: directory),
            "WAYBILL_TOKEN_SECRETS": try directory.write("secrets", BrandFixture.secretsFile),
            "WAYBILL_WEB_SERVICE_URL": BrandFixture.webServiceURL,
        ])
        let common = try CommonSettings(settings)
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let environment = ServiceEnvironment(
            common: common, group: MultiThreadedEventLoopGroup.singleton, metrics: MetricsRegistry(),
            readiness: Readiness(conditions: []), logger: logger)
        let group = ServiceGroup(
            services: try Packager.build(try PackagerSettings(settings, common: common), environment), logger: logger)
        let kafka = KafkaConfiguration(bootstrap: broker.bootstrap)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            let producer = try KafkaProducer(kafka)
            let admin = try KafkaAdmin(kafka)
            func settled() async throws {
                try await eventually("nothing left", within: .seconds(60)) {
                    let lag = try await admin.lag(group: Packager.group, topic: topics.orderChanges)
                    return lag.values.reduce(0, +) == 0
                }
            }
            for outcome in await producer.produce(try Self.messages(0..<20)) { _ = try outcome.get() }
            try await settled()
            // In hand when the broker goes: read, but neither announced nor committed.
            for outcome in await producer.produce(try Self.messages(20..<60)) { _ = try outcome.get() }
            try broker.setDown()
            async let late = producer.produce(try Self.messages(60..<100))
            try await Task.sleep(for: .seconds(8))
            try broker.setUp()
            for outcome in try await late { _ = try outcome.get() }
            try await settled()
            #expect(try await admin.endOffsets(topics.deadLetters).values.reduce(0, +) == 0)
            await producer.close()
            await admin.close()
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }

        // Each change applies once, versions are no more than changes, and the compacted topic ends equal to Redis.
        var announced: [String: OrderRecord] = [:]
        let reader = try KafkaReader(kafka)
        for bounds in try await reader.bounds(of: topics.orders) {
            try await reader.read(
                topics.orders, partition: bounds.partition, from: bounds.first, to: bounds.end, records: 100,
                bytes: 1 << 20
            ) { for record in $0 { announced[record.keyText] = try OrderRecord.decode(record.value ?? []) } }
        }
        await reader.close()
        let redis = RedisClient(
            try RedisConfiguration(url: server.url), eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        for result in try await OrderStore(redis: redis).orders((0..<20).map { try ChangeLog.key("o\($0)") }) {
            let state = try #require(try result.get()).state
            let fulfillments = state.document.members["fulfillments"]?.array?.compactMap {
                $0.object?["fulfillmentIdentifier"]?.string
            }
            #expect(fulfillments == ["f1", "f2", "f3", "f4"])
            #expect(state.version.ordinal <= 5)
            let last = try #require(announced["\(state.key)"])
            #expect(last.version == state.version)
            #expect(last.document == state.document)
            #expect(last.modifiedEpochSeconds == state.modifiedEpochSeconds)
        }
        await redis.close()
        await server.stop()
        broker.close()
    }
}
