import TestKit
import TestTraits
import Testing

@testable import Kafka

/// The pitfalls of librdkafka 2.0.2 when a consumer ends, and cooperative assignment.
@Suite(.server, .timeLimit(.minutes(2)))
struct ConsumerEndTests {
    /// Fetched messages that were never read may keep a handle from being destroyed (CHANGELOG 2.6.1, #4724).
    @Test func aConsumerEndsWithAFullQueue() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 4)])
        let orders = broker.topics[0].name
        try await fill(broker, orders, 6000, value: 1000)
        let log = EventLog()
        let consumer = try KafkaConsumer(
            configuration(broker, onEvent: log.record), group: broker.group, topics: [orders],
            readAhead: (records: 10, bytes: 1 << 20))
        _ = try await read(consumer, 1, batch: 1)
        try await eventually("read ahead") { consumer.buffered.records >= 9 }
        let start = ContinuousClock.now
        await consumer.close()
        #expect(ContinuousClock.now - start < .seconds(10))
        #expect(!log.contains(.error, "the consumer timed out"))
    }

    /// A lost partition may block closing (CHANGELOG 2.1.0, #4187).
    @Test func aConsumerThatLostItsPartitionsEnds() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 4)])
        try await fill(broker, "orders", 1000, value: 100)
        let log = EventLog()
        let consumer = try KafkaConsumer(
            configuration(broker, ["reconnect.backoff.max.ms": "200"], onEvent: log.record), group: "g",
            topics: ["orders"])
        _ = try await read(consumer, 10, batch: 10)
        try broker.setDown()
        try await eventually("lost") { log.contains(.lost) }
        let start = ContinuousClock.now
        await consumer.close()
        #expect(ContinuousClock.now - start < ConsumerThread.closeWait + ConsumerThread.destroyWait + .seconds(5))
        broker.close()
    }

    /// With cooperative assignment, librdkafka before 2.3.0 may crash here (#4381); with our assignment it does not.
    @Test func aConsumerEndsBeforeItsFirstAssignment() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 4)])
        for _ in 0..<5 {
            let consumer = try KafkaConsumer(
                configuration(broker), group: broker.group, topics: [broker.topics[0].name])
            await consumer.close()
        }
    }

    @Test func cooperativeMembersShareThePartitionsAndLoseNothing() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 4)])
        let logs = [EventLog(), EventLog()]
        func member(_ number: Int) throws -> KafkaConsumer {
            try KafkaConsumer(
                configuration(
                    broker, ["partition.assignment.strategy": "cooperative-sticky"], onEvent: logs[number].record),
                group: "g", topics: ["orders"])
        }
        try await fill(broker, "orders", 100)
        let first = try member(0)
        let early = try await read(first, 100)
        first.finished(early)
        try await first.commit()
        let second = try member(1)
        // Both consumers are polled continuously, as workers do, so that they take part in the rebalance.
        try await eventually("shared") {
            for consumer in [first, second] {
                _ = try await consumer.nextBatch(records: 10, bytes: 1 << 20, wait: .milliseconds(20))
            }
            return first.assignment.count == 2 && second.assignment.count == 2
        }
        // Partitions that stay are never revoked, which is the purpose of this assignment.
        #expect(logs[0].all.filter { $0.kind == .revoked }.flatMap { $0.message.split(separator: " ") }.count == 2)
        try await fill(broker, "orders", 100, from: 100)
        var seen: Set<String> = []
        try await eventually("the rest") {
            for consumer in [first, second] {
                let records = try await consumer.nextBatch(records: 100, bytes: 1 << 20, wait: .milliseconds(20))
                seen.formUnion(records.map(\.keyText))
                consumer.finished(records)
            }
            return seen.count >= 100
        }
        // Both commit before either leaves: during a rebalance a commit may be refused, and its records redelivered.
        for consumer in [first, second] { try await consumer.commit() }
        await second.close()
        await first.close()
        let admin = try KafkaAdmin(configuration(broker))
        #expect(try await admin.committed(group: "g", topic: "orders").values.reduce(0, +) == 200)
        await admin.close()
        broker.close()
    }
}
