import TestKit
import TestTraits
import Testing

@testable import Kafka

/// The partitions of keys, and the timestamps of messages.
@Suite(.server, .timeLimit(.minutes(1))) struct KafkaPartitionerTests {
    @Test func thePartitionerAgreesWithTheProducer() async throws {
        let broker = try KafkaBroker(topics: [.init("topic", partitions: 7)])
        let producer = try KafkaProducer(configuration(broker))
        let keys = (0..<200).map { number in
            (0..<number % 23 + 1).map { UInt8(truncatingIfNeeded: number &* 31 &+ $0 &* 77) }
        }
        let outcomes = await producer.produce(keys.map { KafkaMessage(topic: "topic", key: $0, value: [1]) })
        var met: Set<Int32> = []
        for (key, outcome) in zip(keys, outcomes) {
            let partition = try outcome.get().partition
            #expect(partition == KafkaPartitioner.partition(of: key, count: 7))
            met.insert(partition)
        }
        #expect(met.count == 7)
        await producer.close()
        broker.close()
    }

    @Test func aMessageMayCarryItsOwnTimestamp() async throws {
        let broker = try KafkaBroker(topics: [.init("topic", partitions: 1)])
        let producer = try KafkaProducer(configuration(broker))
        let messages = [1, 1_700_000_000_000, nil].map {
            KafkaMessage(topic: "topic", key: [1], value: [1], timestampMilliseconds: $0)
        }
        for outcome in await producer.produce(messages) { _ = try outcome.get() }
        await producer.close()
        let consumer = try KafkaConsumer(configuration(broker), group: "group", topics: ["topic"])
        let moments = try await read(consumer, 3).map(\.timestampMilliseconds)
        #expect(moments[..<2] == [1, 1_700_000_000_000])
        #expect(moments[2] > 1_700_000_000_000)
        await consumer.close()
        broker.close()
    }
}
