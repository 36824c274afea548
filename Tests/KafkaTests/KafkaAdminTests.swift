import TestKit
import TestTraits
import Testing

@testable import Kafka

@Suite(.server, .timeLimit(.minutes(1)))
struct KafkaAdminTests {
    @Test func offsetsAndLagAreCounted() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 3)])
        let orders = broker.topics[0].name
        let producer = try KafkaProducer(configuration(broker))
        for outcome in await producer.produce(
            (0..<5).map { KafkaMessage(topic: orders, partition: $0 < 4 ? 1 : 2, key: nil, value: [UInt8($0)]) })
        { _ = try outcome.get() }
        await producer.close()
        let admin = try KafkaAdmin(configuration(broker))
        #expect(try await admin.partitions(orders) == broker.topics[0].partitions)
        // A given broker may have created more than three partitions.
        let none = Dictionary(uniqueKeysWithValues: (0..<broker.topics[0].partitions).map { (Int32($0), Int64(0)) })
        #expect(try await admin.endOffsets(orders) == none.merging([1: 4, 2: 1]) { $1 })
        #expect(try await admin.beginningOffsets(orders) == none)
        #expect(try await admin.committed(group: broker.group, topic: orders) == [:])
        #expect(try await admin.lag(group: broker.group, topic: orders) == none.merging([1: 4, 2: 1]) { $1 })

        let consumer = try KafkaConsumer(configuration(broker), group: broker.group, topics: [orders])
        let records = try await read(consumer, 5)
        consumer.finished(Array(records.filter { $0.partition == 1 }.prefix(3)))
        try await consumer.commit()
        #expect(try await admin.committed(group: broker.group, topic: orders) == [1: 3])
        #expect(try await admin.lag(group: broker.group, topic: orders) == none.merging([1: 1, 2: 1]) { $1 })
        await consumer.close()
        await admin.close()
        await admin.close()
        await #expect(throws: KafkaError(.closed, "")) { try await admin.partitions(orders) }
    }

    @Test func aBrokerWithoutCreateTopicsIsReportedAsUnsupported() async throws {
        let broker = try KafkaBroker()
        let admin = try KafkaAdmin(configuration(broker))
        await #expect(throws: KafkaError(.unsupported, "")) {
            try await admin.createTopics([
                KafkaTopic(name: "a", partitions: 3, replication: 1, configuration: ["cleanup.policy": "compact"])
            ])
        }
        try await admin.createTopics([])
        await admin.close()
    }

    @Test func anUnreachableBrokerIsAnErrorWithinTheTimeout() async throws {
        let broker = try KafkaBroker()
        try broker.setDown()
        let admin = try KafkaAdmin(configuration(broker), timeout: .milliseconds(300))
        await #expect(throws: KafkaError.self) { try await admin.partitions("orders") }
        await #expect(throws: KafkaError.self) {
            try await admin.createTopics([KafkaTopic(name: "a", partitions: 1)])
        }
        await admin.close()
    }
}
