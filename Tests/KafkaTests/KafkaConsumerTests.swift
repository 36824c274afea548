import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Kafka

@Suite(.server, .timeLimit(.minutes(2)))
struct KafkaConsumerTests {
    @Test func aSecondConsumerGoesOnAfterTheCommit() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 1)])
        let orders = broker.topics[0].name
        try await fill(broker, orders, 10, partition: 0)
        let first = try KafkaConsumer(configuration(broker), group: broker.group, topics: [orders])
        let records = try await read(first, 4, batch: 4)
        first.finished(Array(records[..<2]))
        await first.close()
        let second = try KafkaConsumer(configuration(broker), group: broker.group, topics: [orders])
        #expect(try await read(second, 8).map(\.offset) == Array(2..<10))
        await second.close()
    }

    @Test func commitsStopAtTheFirstUnfinishedRecord() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 1)])
        let orders = broker.topics[0].name
        try await fill(broker, orders, 6, partition: 0)
        let consumer = try KafkaConsumer(configuration(broker), group: broker.group, topics: [orders])
        let records = try await read(consumer, 6)
        let admin = try KafkaAdmin(configuration(broker))
        consumer.finished([records[3], records[1]])
        try await consumer.commit()
        #expect(try await admin.committed(group: broker.group, topic: orders) == [:])
        consumer.finished([records[0]])
        try await consumer.commit()
        #expect(try await admin.committed(group: broker.group, topic: orders) == [0: 2])
        #expect(consumer.inHand == 3)
        let quiet = try #require(consumer.quietTime)
        consumer.finished([KafkaRecord]())
        #expect(try #require(consumer.quietTime) >= quiet, "nothing was finished")
        // The offsets are committed although no caller requests it.
        consumer.finished([records[2], records[4], records[5]])
        try await eventually("all") { try await admin.committed(group: broker.group, topic: orders) == [0: 6] }
        #expect(consumer.quietTime == nil)
        await admin.close()
        await consumer.close()
    }

    /// Records that come while no member runs are not left out, though nothing was read before.
    @Test func aPartitionMayBeginAtItsEndWhichIsCommittedAtOnce() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 2)])
        let orders = broker.topics[0].name
        try await fill(broker, orders, 5, partition: 0)
        let admin = try KafkaAdmin(configuration(broker))
        func member() throws -> KafkaConsumer {
            try KafkaConsumer(
                configuration(broker), group: broker.group, topics: [orders], startsAtEnd: { $0 == orders })
        }
        let first = try member()
        try await eventually("the ends") {
            _ = try await first.nextBatch(records: 10, bytes: 1 << 20, wait: .milliseconds(100))
            return try await admin.committed(group: broker.group, topic: orders) == [0: 5, 1: 0]
        }
        await first.close()
        try await fill(broker, orders, 2, partition: 0, from: 5)
        try await fill(broker, orders, 1, partition: 1, from: 7)
        let second = try member()
        let records = try await read(second, 3)
        #expect(records.map(\.keyText).sorted() == ["key-5", "key-6", "key-7"])
        await second.close()
        await admin.close()
    }

    /// Each fetch fills the queue, whereupon librdkafka would stop fetching for up to a second: about 20 s in total.
    @Test func aQueueThatWasFullIsFilledAgainAtOnce() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 1)])
        let orders = broker.topics[0].name
        try await fill(broker, orders, batches: 40)
        let consumer = try KafkaConsumer(configuration(broker, smallQueue), group: broker.group, topics: [orders])
        var records = try await read(consumer, 1)
        let began = ContinuousClock.now
        records += try await read(consumer, 800 - records.count)
        #expect(ContinuousClock.now - began < .seconds(8))
        #expect(records.map(\.offset) == Array(0..<800))
        await consumer.close()
    }

    /// One interval lasts longer than the test, so only the first and the last commit occur.
    @Test func commitsAreBatchedPerIntervalAndClosingCommitsAtOnce() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 1)])
        let orders = broker.topics[0].name
        try await fill(broker, orders, 10, partition: 0)
        let chosen = Mutex<[Int64]>([])
        let consumer = try KafkaConsumer(
            configuration(broker, ["auto.commit.interval.ms": "600000"]), group: broker.group, topics: [orders],
            onCommit: { moment in
                if case .chosen(let positions) = moment { chosen.withLock { $0 += positions.map(\.offset) } }
            })
        let records = try await read(consumer, 10)
        consumer.finished([records[0]])
        try await eventually("the first commit") { chosen.withLock { !$0.isEmpty } }
        for record in records.dropFirst() {
            consumer.finished([record])
            try await Task.sleep(for: .milliseconds(20))
        }
        #expect(chosen.withLock { $0 } == [1])
        await consumer.close()
        #expect(chosen.withLock { $0 } == [1, 10])
        let admin = try KafkaAdmin(configuration(broker))
        #expect(try await admin.committed(group: broker.group, topic: orders) == [0: 10])
        await admin.close()
    }

    @Test func aRevokeWaitsForTheBatchInFlight() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 4)])
        try await fill(broker, "orders", 40)
        let log = EventLog()
        let first = try KafkaConsumer(configuration(broker, onEvent: log.record), group: "g", topics: ["orders"])
        let records = try await read(first, 40)
        #expect(first.assignment.count == 4)

        let second = try KafkaConsumer(configuration(broker), group: "g", topics: ["orders"])
        // While the batch is in flight the consumer keeps its partitions, although the group wants them: the rebalance
        // begins about 1 s after the second consumer joined and is over after 3 s.
        try await Task.sleep(for: .milliseconds(2500))
        #expect(first.assignment.count == 4)
        // A real broker accepts this commit (GroupCoordinator, PreparingRebalance); the mock refuses commits during a
        // rebalance, and they then count as left out.
        first.finished(records)
        let admin = try KafkaAdmin(configuration(broker))
        try await eventually("both own two partitions") {
            for consumer in [first, second] {
                consumer.finished(try await consumer.nextBatch(records: 10, bytes: 1000, wait: .milliseconds(50)))
            }
            return first.assignment.count == 2 && second.assignment.count == 2
        }
        #expect(log.contains(.revoked))
        #expect(Set(first.assignment).isDisjoint(with: second.assignment))

        // Nothing is lost: new records arrive, and records whose commit the broker refused are redelivered.
        try await fill(broker, "orders", 40, from: 100)
        var seen: Set<String> = []
        try await eventually("40 new records") {
            for consumer in [first, second] {
                let batch = try await consumer.nextBatch(records: 100, bytes: 1 << 20, wait: .milliseconds(50))
                seen.formUnion(batch.map(\.keyText))
                consumer.finished(batch)
            }
            return seen.isSuperset(of: (100..<140).map { "key-\($0)" })
        }
        try await eventually("all committed") {
            try await admin.committed(group: "g", topic: "orders").values.reduce(0, +) == 80
        }
        // A late result for a revoked partition changes nothing.
        first.finished(records)
        try await first.commit()
        #expect(try await admin.committed(group: "g", topic: "orders").values.reduce(0, +) == 80)
        await admin.close()
        await second.close()
        await first.close()
    }

    @Test func aStuckWorkerLosesItsPartitionsAfterTheRevokeWait() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 2)])
        try await fill(broker, "orders", 10)
        let log = EventLog()
        let stuck = try KafkaConsumer(
            configuration(broker, onEvent: log.record), group: "g", topics: ["orders"], revokeWait: .milliseconds(300))
        let records = try await read(stuck, 10)
        #expect(stuck.quietTime != nil)
        let other = try KafkaConsumer(configuration(broker), group: "g", topics: ["orders"])
        try await eventually("the other has a partition") {
            _ = try await other.nextBatch(records: 10, bytes: 1000, wait: .milliseconds(50))
            return !other.assignment.isEmpty
        }
        #expect(log.contains(.error, "was not done"))
        // The late worker's results are left out and cause no error.
        let owned = Set(stuck.assignment.map(\.partition))
        stuck.finished(records)
        try await stuck.commit()
        let admin = try KafkaAdmin(configuration(broker))
        for (partition, _) in try await admin.committed(group: "g", topic: "orders") {
            #expect(owned.contains(partition))
        }
        await admin.close()
        await other.close()
        await stuck.close()
    }

    @Test func aSlowWorkerBoundsTheBufferAndLosesNothing() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 4)])
        let orders = broker.topics[0].name
        try await fill(broker, orders, 4000, value: 200)
        let log = EventLog()
        let consumer = try KafkaConsumer(
            configuration(broker, onEvent: log.record), group: broker.group, topics: [orders],
            pauseAfter: .milliseconds(200), readAhead: (100, 20_000))
        var records = try await consumer.nextBatch(records: 100, bytes: 20_000, wait: .seconds(10))
        var most = (records: 0, bytes: 0)
        try await eventually("fetching is paused") {
            let now = consumer.buffered
            most = (max(most.records, now.records), max(most.bytes, now.bytes))
            return consumer.isPaused
        }
        // One record may exceed the byte limit.
        #expect(most.records <= 100)
        #expect(most.bytes <= 20_000 + 1000)
        try await eventually("all records") {
            let batch = try await consumer.nextBatch(records: 100, bytes: 20_000, wait: .milliseconds(500))
            #expect(batch.count <= 100)
            #expect(batch.reduce(0) { $0 + $1.size } <= 20_000)
            records += batch
            return records.count >= 4000
        }
        #expect(records.count == 4000)
        #expect(Set(records.map(\.keyText)).count == 4000)
        #expect(log.contains(.paused))
        #expect(log.contains(.resumed))
        await consumer.close()
    }

    @Test func aPausedConsumerPausesNewPartitionsToo() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 2)])
        try await fill(broker, "orders", 1000, value: 100)
        let other = try KafkaConsumer(configuration(broker), group: "g", topics: ["orders"])
        let slow = try KafkaConsumer(
            configuration(broker), group: "g", topics: ["orders"], revokeWait: .milliseconds(100),
            pauseAfter: .milliseconds(50), readAhead: (20, 1 << 20))
        _ = try await slow.nextBatch(records: 20, bytes: 1 << 20, wait: .seconds(15))
        try await eventually("paused") { slow.isPaused }
        await other.close()
        try await eventually("all partitions") { slow.assignment.count == 2 }
        // Records of the old assignment are dropped, so the buffer may fill and pause again; it never overflows.
        #expect(slow.buffered.records <= 21)
        #expect(try await read(slow, 1000, batch: 20).count >= 1000)
        await slow.close()
    }

    @Test func aBrokerThatComesBackIsUsedAgain() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 1)])
        let log = EventLog()
        let consumer = try KafkaConsumer(configuration(broker, onEvent: log.record), group: "g", topics: ["orders"])
        let producer = try KafkaProducer(configuration(broker))
        _ = try await producer.produce(KafkaMessage(topic: "orders", key: nil, value: [1]))
        _ = try await read(consumer, 1)
        try broker.setDown()
        try await eventually("the loss is told") { log.contains(.error) }
        async let late = producer.produce(KafkaMessage(topic: "orders", key: nil, value: [2]))
        #expect(try await consumer.nextBatch(records: 1, bytes: 100, wait: .milliseconds(200)).isEmpty)
        try broker.setUp()
        _ = try await late
        let values = try await read(consumer, 1).map(\.value)
        #expect(values.last == [2])
        await consumer.close()
        await producer.close()
    }

    @Test func aTopicCreatedLaterIsFound() async throws {
        // The mock broker would create the topic itself, so it is made to deny it. 3 is UNKNOWN_TOPIC_OR_PARTITION.
        let broker = try KafkaBroker(topics: [.init("late", partitions: 1)])
        try broker.setError(topic: "late", code: 3)
        let log = EventLog()
        let consumer = try KafkaConsumer(
            configuration(broker, ["topic.metadata.refresh.interval.ms": "300"], onEvent: log.record), group: "g",
            topics: ["late"])
        try await eventually("the missing topic is told") {
            _ = try await consumer.nextBatch(records: 1, bytes: 100, wait: .milliseconds(20))
            return log.contains(.error, "late")
        }
        try broker.setError(topic: "late", code: 0)
        try await fill(broker, "late", 1)
        #expect(try await read(consumer, 1).count == 1)
        await consumer.close()
    }

    @Test func aCancelledTaskStopsWaitingAtOnce() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 1)])
        let orders = broker.topics[0].name
        let consumer = try KafkaConsumer(configuration(broker), group: broker.group, topics: [orders])
        let start = ContinuousClock.now
        let waiting = Task { try await consumer.nextBatch(records: 1, bytes: 1, wait: .seconds(60)) }
        try await Task.sleep(for: .milliseconds(20))
        waiting.cancel()
        await #expect(throws: KafkaError(.cancelled, "")) { try await waiting.value }
        let early = Task {
            unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
            return try await consumer.nextBatch(records: 1, bytes: 1, wait: .seconds(60))
        }
        await #expect(throws: KafkaError(.cancelled, "")) { try await early.value }
        #expect(ContinuousClock.now - start < .seconds(10))
        // The consumer remains usable.
        #expect(try await consumer.nextBatch(records: 1, bytes: 1, wait: .zero).isEmpty)
        await consumer.close()
    }

    @Test func closingEndsAWaitAndLaterCallsAreRefused() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 1)])
        let orders = broker.topics[0].name
        let consumer = try KafkaConsumer(configuration(broker), group: broker.group, topics: [orders])
        let waiting = Task { try await consumer.nextBatch(records: 1, bytes: 1, wait: .seconds(60)) }
        try await Task.sleep(for: .milliseconds(20))
        async let again: Void = consumer.close()
        await consumer.close()
        await again
        await #expect(throws: KafkaError(.closed, "")) { try await waiting.value }
        await #expect(throws: KafkaError(.closed, "")) {
            try await consumer.nextBatch(records: 1, bytes: 1, wait: .zero)
        }
        await #expect(throws: KafkaError(.closed, "")) { try await consumer.commit() }
    }

    @Test func aSecondWaitingTaskIsRefused() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 1)])
        let orders = broker.topics[0].name
        let consumer = try KafkaConsumer(configuration(broker), group: broker.group, topics: [orders])
        // Of two waiting tasks the second is refused. That may be this task, which then retries.
        let waiting = Task {
            while true {
                do {
                    return try await consumer.nextBatch(records: 1, bytes: 1, wait: .seconds(60))
                } catch let error as KafkaError {
                    guard error.code == .busy else { throw error }
                }
            }
        }
        try await eventually("the second is refused") {
            do {
                _ = try await consumer.nextBatch(records: 1, bytes: 1, wait: .milliseconds(1))
                return false
            } catch let error as KafkaError { return error.code == .busy }
        }
        waiting.cancel()
        _ = await waiting.result
        await consumer.close()
    }
}
