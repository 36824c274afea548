import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Kafka

@Suite(.server, .timeLimit(.minutes(1)))
struct KafkaReaderTests {
    /// The batches that a read delivered.
    private final class Hand: Sendable {
        private let held = Mutex<[[KafkaRecord]]>([])
        var batches: [[KafkaRecord]] { self.held.withLock { $0 } }
        var records: [KafkaRecord] { self.batches.flatMap { $0 } }
        func take(_ batch: [KafkaRecord]) { self.held.withLock { $0.append(batch) } }
    }

    private func read(
        _ reader: KafkaReader, _ topic: String, _ partition: Int32 = 0, from: Int64 = 0, to: Int64,
        records: Int = 100, bytes: Int = 1 << 20
    ) async throws -> [KafkaRecord] {
        let hand = Hand()
        try await reader.read(topic, partition: partition, from: from, to: to, records: records, bytes: bytes) {
            hand.take($0)
        }
        return hand.records
    }

    @Test func boundsSayWhatEachPartitionHolds() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("letters", partitions: 3)])
        let letters = broker.topics[0].name
        try await fill(broker, letters, 7, partition: 1)
        let reader = try KafkaReader(configuration(broker))
        let bounds = try await reader.bounds(of: letters)
        #expect(bounds.count == broker.topics[0].partitions)
        #expect(bounds[0] == OffsetRange(partition: 0, first: 0, end: 0))
        #expect(bounds[1] == OffsetRange(partition: 1, first: 0, end: 7))
        #expect(!reader.cluster.isEmpty, "it has answered")
        await reader.close()
        await #expect(throws: KafkaError(.closed, "")) { try await reader.bounds(of: letters) }
    }

    @Test func aReadHandsOutExactlyItsRangeAndEnds() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("letters", partitions: 1)])
        let letters = broker.topics[0].name
        try await fill(broker, letters, 50, partition: 0)
        let reader = try KafkaReader(configuration(broker))
        let hand = Hand()
        try await reader.read(letters, partition: 0, from: 5, to: 45, records: 7, bytes: 1 << 20) { hand.take($0) }
        #expect(hand.records.map(\.offset) == Array(5..<45))
        #expect(hand.batches.allSatisfy { (1...7).contains($0.count) })
        // Further reads, including an empty range.
        #expect(try await self.read(reader, letters, from: 49, to: 50).map(\.keyText) == ["key-49"])
        #expect(try await self.read(reader, letters, from: 45, to: 45).isEmpty)
        #expect(try await self.read(reader, letters, from: -5, to: 2).map(\.offset) == [0, 1])
        await reader.close()
    }

    /// The same as `KafkaConsumerTests.aQueueThatWasFullIsFilledAgainAtOnce`, for a reader.
    @Test func aQueueThatWasFullIsFilledAgainAtOnce() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("letters", partitions: 1)])
        let letters = broker.topics[0].name
        try await fill(broker, letters, batches: 40)
        let reader = try KafkaReader(configuration(broker, smallQueue))
        let began = ContinuousClock.now
        #expect(try await self.read(reader, letters, to: 800).map(\.offset) == Array(0..<800))
        #expect(ContinuousClock.now - began < .seconds(8))
        await reader.close()
    }

    /// A read leaves records fetched ahead in the queue, so librdkafka would often start the next one a second late.
    @Test func consecutiveReadsOfAPartitionStartAtOnce() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("letters", partitions: 1)])
        let letters = broker.topics[0].name
        try await fill(broker, letters, batches: 5)
        let reader = try KafkaReader(configuration(broker, smallQueue))
        let began = ContinuousClock.now
        for first in 0..<Int64(60) {
            #expect(try await self.read(reader, letters, from: first, to: first + 2).count == 2)
        }
        #expect(ContinuousClock.now - began < .seconds(10))
        await reader.close()
    }

    @Test func aTombstoneKeepsItsKeyAndHeaders() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("letters", partitions: 1)])
        let letters = broker.topics[0].name
        let producer = try KafkaProducer(configuration(broker))
        let headers = [KafkaHeader(name: "ce_id", text: "1"), KafkaHeader(name: "none", value: nil)]
        _ = try await producer.produce(
            KafkaMessage(topic: letters, partition: 0, key: [1], value: nil, headers: headers))
        await producer.close()
        let reader = try KafkaReader(configuration(broker))
        let record = try #require(try await self.read(reader, letters, to: 1).first)
        #expect(record.value == nil)
        #expect(record.key == [1])
        #expect(record.headers == headers)
        await reader.close()
    }

    @Test func aBatchEndsByItsWeight() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("letters", partitions: 1)])
        let letters = broker.topics[0].name
        try await fill(broker, letters, 30, partition: 0, value: 10_000)
        let reader = try KafkaReader(configuration(broker))
        let hand = Hand()
        try await reader.read(letters, partition: 0, from: 0, to: 30, records: 1000, bytes: 35_000) { hand.take($0) }
        #expect(hand.records.count == 30)
        #expect(hand.batches.allSatisfy { $0.count <= 4 })
        await reader.close()
    }

    @Test func aReadStartsAfterDeletedRecords() async throws {
        let broker = try KafkaBroker(topics: [.init("letters", partitions: 1)])
        // The broker keeps 5 MiB of these 8 MB. One message per set, since each answer contains one set.
        let producer = try KafkaProducer(configuration(broker, ["batch.num.messages": "1"]))
        let value = [UInt8](repeating: 1, count: 100_000)
        for outcome in await producer.produce(
            (0..<80).map { _ in KafkaMessage(topic: "letters", partition: 0, key: nil, value: value) })
        { _ = try outcome.get() }
        await producer.close()
        let reader = try KafkaReader(configuration(broker, ["queued.max.messages.kbytes": "1000"]))
        let bounds = try #require(try await reader.bounds(of: "letters").first)
        #expect(bounds.first > 0)
        #expect(bounds.end == 80)
        let records = try await self.read(reader, "letters", to: 80)
        #expect(records.map(\.offset) == Array(bounds.first..<80))
        // The whole range was deleted, so nothing is handed out.
        #expect(try await self.read(reader, "letters", from: 0, to: bounds.first).isEmpty)
        await reader.close()
    }

    @Test func offsetsPastTheEndAreRefusedOrTimeOut() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("letters", partitions: 1)])
        let letters = broker.topics[0].name
        try await fill(broker, letters, 3, partition: 0)
        let reader = try KafkaReader(configuration(broker), patience: .milliseconds(700))
        await #expect(throws: KafkaError(.outOfRange, "")) { try await self.read(reader, letters, from: 4, to: 9) }
        let hand = Hand()
        await #expect(throws: KafkaError(.timedOut, "")) {
            try await reader.read(letters, partition: 0, from: 0, to: 9, records: 10, bytes: 1000) { hand.take($0) }
        }
        #expect(hand.records.map(\.offset) == [0, 1, 2])
        await reader.close()
    }

    @Test func anUnknownPartitionIsAnError() async throws {
        let broker = try KafkaBroker(topics: [.init("letters", partitions: 1)])
        let reader = try KafkaReader(configuration(broker), patience: .seconds(5))
        await #expect(throws: KafkaError.self) { try await self.read(reader, "letters", 9, to: 9) }
        await reader.close()
    }

    @Test func recordsThatComeDuringTheReadAreWaitedFor() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("letters", partitions: 1)])
        let letters = broker.topics[0].name
        try await fill(broker, letters, 2, partition: 0)
        let reader = try KafkaReader(configuration(broker))
        let hand = Hand()
        async let whole: Void = reader.read(letters, partition: 0, from: 0, to: 5, records: 10, bytes: 1 << 20) {
            hand.take($0)
        }
        try await eventually("the first two") { hand.records.count == 2 }
        try await fill(broker, letters, 4, partition: 0, from: 2)
        try await whole
        #expect(hand.records.map(\.offset) == Array(0..<5))
        await reader.close()
    }

    @Test func manyPartitionsAreReadAtOnceAndOneOnlyOnce() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("letters", partitions: 8)])
        let letters = broker.topics[0].name
        for partition in Int32(0)..<8 { try await fill(broker, letters, 20, partition: partition) }
        let reader = try KafkaReader(configuration(broker))
        let counts = try await withThrowingTaskGroup(of: Int.self) { group in
            for partition in Int32(0)..<8 {
                group.addTask { try await self.read(reader, letters, partition, to: 20, records: 3).count }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(counts == Array(repeating: 20, count: 8))

        try await reader.read(letters, partition: 0, from: 0, to: 1, records: 1, bytes: 1) { _ in
            await #expect(throws: KafkaError(.busy, "")) { try await self.read(reader, letters, 0, to: 1) }
            // Another partition may be read from within the callback.
            let other = try await self.read(reader, letters, 1, to: 1)
            #expect(other.count == 1)
        }
        await reader.close()
    }

    @Test func aReadContinuesAfterABrokerOutage() async throws {
        let broker = try KafkaBroker(topics: [.init("letters", partitions: 1)])
        for first in stride(from: 0, to: 40, by: 10) {
            try await fill(broker, "letters", 10, partition: 0, from: first)
        }
        // Nothing is fetched ahead, so that the rest must still be fetched when the broker stops.
        let reader = try KafkaReader(
            configuration(broker, ["queued.min.messages": "1", "reconnect.backoff.max.ms": "200"]))
        let hand = Hand()
        try await reader.read("letters", partition: 0, from: 0, to: 40, records: 10, bytes: 1 << 20) { batch in
            hand.take(batch)
            guard hand.batches.count == 1 else { return }
            try broker.setDown()
            Task {
                try await Task.sleep(for: .milliseconds(1500))
                try broker.setUp()
            }
        }
        #expect(hand.records.map(\.offset) == Array(0..<40))
        await reader.close()
    }

    @Test func aReadFromAnUnreachableBrokerTimesOut() async throws {
        let broker = try KafkaBroker(topics: [.init("letters", partitions: 1)])
        try await fill(broker, "letters", 3, partition: 0)
        let reader = try KafkaReader(configuration(broker), patience: .milliseconds(1500))
        // The broker stops during a read.
        let start = ContinuousClock.now
        await #expect(throws: KafkaError(.timedOut, "")) {
            try await reader.read("letters", partition: 0, from: 0, to: 9, records: 9, bytes: 1 << 20) { _ in
                try broker.setDown()
            }
        }
        // The broker is down from the start.
        await #expect(throws: KafkaError(.timedOut, "")) { try await self.read(reader, "letters", to: 3) }
        #expect(ContinuousClock.now - start < .seconds(15))
        await reader.close()
    }

    @Test func aReadThatIsCancelledEndsSoon() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("letters", partitions: 1)])
        let letters = broker.topics[0].name
        try await fill(broker, letters, 2, partition: 0)
        let reader = try KafkaReader(configuration(broker))
        let hand = Hand()
        let task = Task {
            try await reader.read(letters, partition: 0, from: 0, to: 9, records: 10, bytes: 1000) { hand.take($0) }
        }
        try await eventually("the first two") { hand.records.count == 2 }
        task.cancel()
        await #expect(throws: KafkaError(.cancelled, "")) { try await task.value }
        // The partition can be read again.
        #expect(try await self.read(reader, letters, to: 2).count == 2)
        await reader.close()
    }

    @Test func closingEndsReadsUnderWay() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("letters", partitions: 1)])
        let letters = broker.topics[0].name
        try await fill(broker, letters, 2, partition: 0)
        let reader = try KafkaReader(configuration(broker))
        let hand = Hand()
        let task = Task {
            try await reader.read(letters, partition: 0, from: 0, to: 9, records: 10, bytes: 1000) { hand.take($0) }
        }
        try await eventually("the first two") { hand.records.count == 2 }
        await reader.close()
        await #expect(throws: KafkaError(.closed, "")) { try await task.value }
        await #expect(throws: KafkaError(.closed, "")) { try await self.read(reader, letters, to: 2) }
        await reader.close()
    }

    @Test func anErrorOfTheBodyIsRethrown() async throws {
        struct Stop: Error {}
        let broker = try await KafkaBroker.shared(topics: [.init("letters", partitions: 1)])
        let letters = broker.topics[0].name
        try await fill(broker, letters, 2, partition: 0)
        let reader = try KafkaReader(configuration(broker))
        await #expect(throws: Stop.self) {
            try await reader.read(letters, partition: 0, from: 0, to: 2, records: 1, bytes: 1) { _ in throw Stop() }
        }
        #expect(try await self.read(reader, letters, to: 2).count == 2)
        await reader.close()
    }

    @Test func singleRecordsAreReadByTheirOffsets() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("letters", partitions: 20)])
        let letters = broker.topics[0].name
        let partitions = broker.topics[0].partitions
        for partition in 0..<partitions {
            try await fill(broker, letters, 60, partition: Int32(partition), value: 1000)
        }
        let reader = try KafkaReader(ofSingleRecords: configuration(broker), patience: .seconds(20))
        // In no order, several of a partition, one twice, and some that do not exist.
        var places = (0..<200).map { (partition: Int32($0 * 7 % partitions), offset: Int64($0 * 37 % 60)) }
        places.append(places[3])
        let began = ContinuousClock.now
        let found = await reader.records(of: letters, at: places)
        #expect(ContinuousClock.now - began < .seconds(15), "none waits for a thread that sleeps")
        for (place, result) in zip(places, found) {
            let record = try #require(try result.get())
            #expect(record.offset == place.offset)
            #expect(record.partition == place.partition)
            #expect(record.keyText == "key-\(place.offset)")
        }
        let missing = await reader.records(of: letters, at: [(0, 60), (1, 1000), (2, 59)])
        #expect(try missing.map { try $0.get()?.offset } == [nil, nil, 59])
        #expect(await reader.records(of: letters, at: []).isEmpty)
        // Other reads go on.
        #expect(try await self.read(reader, letters, from: 49, to: 50).map(\.keyText) == ["key-49"])
        await reader.close()
        let closed = await reader.records(of: letters, at: [(0, 0)])
        #expect(throws: KafkaError(.closed, "")) { try closed[0].get() }
    }
}
