import TestKit
import TestTraits
import Testing

@testable import Kafka

/// A refusal is reported with the right that an administrator has to grant.
@Suite(.server, .timeLimit(.minutes(1))) struct KafkaDenialTests {
    /// Kafka's error codes. Source: Kafka protocol guide, error codes
    private static let (topicRefused, groupRefused, clusterRefused): (Int32, Int32, Int32) = (29, 30, 31)

    private func denials(_ log: EventLog) -> Set<KafkaDenial> {
        Set(log.all.filter { $0.kind == .denied }.compactMap(\.denial))
    }

    /// API key 10 is FindCoordinator, 11 is JoinGroup.
    @Test(arguments: [Int16(10), 11])
    func aGroupDenialNamesTheRightToGrant(apiKey: Int16) async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 1)])
        try broker.fail(apiKey: apiKey, with: Array(repeating: Self.groupRefused, count: 200))
        let log = EventLog()
        let consumer = try KafkaConsumer(configuration(broker, onEvent: log.record), group: "g", topics: ["orders"])
        try await eventually("told") { log.contains(.denied, "grant Read on group g") }
        #expect(self.denials(log) == [.group("g")])
        #expect(!log.all.contains { $0.kind == .error || $0.kind == .log && $0.severity == .error }, "\(log.all)")
        await consumer.close()
    }

    /// API key 10 is FindCoordinator, 9 is OffsetFetch: a cluster refuses the first one already.
    @Test(arguments: [Int16(10), 9])
    func aQueryAboutARefusedGroupNamesTheReason(apiKey: Int16) async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 1)])
        try broker.fail(apiKey: apiKey, with: Array(repeating: Self.groupRefused, count: 200))
        let admin = try KafkaAdmin(configuration(broker), timeout: .seconds(3))
        await #expect(throws: KafkaError(.authorization, "")) {
            try await admin.committed(group: "g", topic: "orders")
        }
        await admin.close()
    }

    @Test func aHiddenTopicIsReportedAsAReadDenial() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 1)])
        try broker.setError(topic: "orders", code: Self.topicRefused)
        let log = EventLog()
        let consumer = try KafkaConsumer(configuration(broker, onEvent: log.record), group: "g", topics: ["orders"])
        try await eventually("told") { log.contains(.denied, "grant Read on topic orders") }
        #expect(self.denials(log) == [.read(topic: "orders")])
        await consumer.close()
    }

    @Test func aReadDenialEndsWhenTheTopicBecomesReadable() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 1)])
        try await fill(broker, "orders", 1)
        try broker.fail(apiKey: 1, with: Array(repeating: Self.topicRefused, count: 3))
        let log = EventLog()
        let consumer = try KafkaConsumer(configuration(broker, onEvent: log.record), group: "g", topics: ["orders"])
        #expect(try await read(consumer, 1).count == 1)
        #expect(log.contains(.denied, "grant Read on topic orders"), "\(log.all)")
        #expect(log.all.filter { $0.kind == .granted }.map(\.denial) == [.read(topic: "orders")])
        await consumer.close()
    }

    @Test func aRefusedWriteIsReportedAsAWriteDenial() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 1)])
        let log = EventLog()
        let producer = try KafkaProducer(configuration(broker, onEvent: log.record), topics: ["orders"])
        _ = try await producer.produce(KafkaMessage(topic: "orders", key: nil, value: [1]))
        try broker.fail(apiKey: 0, with: [Self.topicRefused])
        let error = await #expect(throws: KafkaError.self) {
            try await producer.produce(KafkaMessage(topic: "orders", key: nil, value: [1]))
        }
        #expect(error?.code == .authorization, "\(error.map { "\($0)" } ?? "")")
        #expect(log.contains(.denied, "grant Write on topic orders"), "\(log.all)")
        #expect(self.denials(log) == [.write(topic: "orders")])
        await producer.close()
    }

    /// The report must not point an administrator to cluster rights when a right on a topic is missing.
    @Test func aRefusedProducerIDNamesTheTopicRightsToGrant() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 1)])
        try broker.fail(apiKey: 22, with: Array(repeating: Self.clusterRefused, count: 200))
        let log = EventLog()
        let producer = try KafkaProducer(configuration(broker, onEvent: log.record), topics: ["orders", "letters"])
        try await eventually("told") { log.contains(.denied, "grant Write on topic orders and letters") }
        #expect(self.denials(log) == [.idempotence(topics: ["orders", "letters"])])
        #expect(!log.all.contains { $0.kind == .error || $0.kind == .log && $0.severity == .error }, "\(log.all)")
        await producer.close()
    }

    @Test func theTopicsSettingIsNamedWhenAMessageIsTooLarge() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 1)])
        try broker.fail(apiKey: 0, with: [10])
        let producer = try KafkaProducer(configuration(broker), topics: ["orders"])
        let error = await #expect(throws: KafkaError(.messageTooLarge, "")) {
            try await producer.produce(KafkaMessage(topic: "orders", key: nil, value: [1]))
        }
        #expect(error?.message.contains("max.message.bytes") == true, "\(error?.message ?? "")")
        await producer.close()
    }
}

/// The responses of a cluster to queries about its topics.
@Suite(.server, .timeLimit(.minutes(1))) struct TopicQueryTests {
    @Test func partitionsAndSettingsAreRead() async throws {
        var orders = ScriptedKafka.Topic(settings: ["cleanup.policy": "compact", "min.insync.replicas": "2"])
        orders.partitions = [(3, 3), (3, 1)]
        var secret = ScriptedKafka.Topic()
        secret.error = 29
        let server = try await ScriptedKafka.start(["orders": orders, "secret": secret])
        let admin = try KafkaAdmin(KafkaConfiguration(bootstrap: server.bootstrap), timeout: .seconds(10))
        #expect(
            try await admin.partitionStates("orders") == [
                KafkaPartitionState(replicas: 3, inSync: 3), KafkaPartitionState(replicas: 3, inSync: 1),
            ])
        orders.leaderlessFrom = 1
        try server.tell(["orders": orders, "secret": secret])
        #expect(
            try await admin.partitionStates("orders") == [
                KafkaPartitionState(replicas: 3, inSync: 3),
                KafkaPartitionState(replicas: 3, inSync: 0, hasLeader: false),
            ])
        await #expect(throws: KafkaError(.authorization, "")) { try await admin.partitionStates("secret") }
        await #expect(throws: KafkaError(.unknownTopic, "")) { try await admin.partitionStates("nowhere") }
        let settings = try await admin.settings(of: ["orders", "secret"])
        #expect(try settings["orders"]?.get() == ["cleanup.policy": "compact", "min.insync.replicas": "2"])
        #expect(throws: KafkaError(.authorization, "")) { try settings["secret"]?.get() }
        await admin.close()
        await server.stop()
    }

    @Test func topicSettingsAreUnsupportedByTheMockBroker() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 2)])
        let admin = try KafkaAdmin(configuration(broker))
        #expect(try await admin.partitionStates("orders").map(\.inSync) == [1, 1])
        await #expect(throws: KafkaError(.unsupported, "")) { try await admin.settings(of: ["orders"]) }
        await admin.close()
    }
}
