import TestKit
import TestTraits
import Testing

@testable import Kafka

/// The cluster from which records come, and topics by pattern.
@Suite(.server, .timeLimit(.minutes(1))) struct KafkaClusterTests {
    @Test func recordsCarryTheIdentifierOfTheirCluster() async throws {
        var clusters: [Set<String>] = []
        // Both exist at the same time, since the mock brokers derive their identifiers from their memory addresses.
        let brokers = try (0..<2).map { _ in try KafkaBroker(topics: [.init("changes", partitions: 2)]) }
        for broker in brokers {
            try await fill(broker, "changes", 20)
            let consumer = try KafkaConsumer(configuration(broker), group: "group", topics: ["changes"])
            var found = Set(try await read(consumer, 20).map(\.cluster))
            await consumer.close()
            let reader = try KafkaReader(configuration(broker))
            for bounds in try await reader.bounds(of: "changes") {
                try await reader.read(
                    "changes", partition: bounds.partition, from: bounds.first, to: bounds.end, records: 5,
                    bytes: 1 << 20
                ) { found.formUnion($0.map(\.cluster)) }
            }
            await reader.close()
            clusters.append(found)
        }
        for broker in brokers { broker.close() }
        #expect(clusters.allSatisfy { $0.count == 1 && $0.first?.isEmpty == false })
        #expect(clusters[0] != clusters[1])
    }

    @Test func namesAndPatternsAreReadTogether() async throws {
        let topics = ["changes", "east.changes", "west.changes", "changes.other"]
        let broker = try KafkaBroker(topics: topics.map { .init($0, partitions: 2) })
        for topic in topics { try await fill(broker, topic, 10) }
        let consumer = try KafkaConsumer(
            configuration(broker), group: "group", topics: ["changes", "^[a-z]+\\.changes$"])
        let records = try await read(consumer, 30)
        #expect(Set(records.map(\.topic)) == ["changes", "east.changes", "west.changes"])
        #expect(records.count == 30)
        await consumer.close()
        broker.close()
    }
}
