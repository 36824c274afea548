import TestKit
import TestTraits
import Testing

@testable import Kafka

@Suite(.server, .timeLimit(.minutes(1)))
struct KafkaRoundTripTests {
    @Test func aRecordComesBackAsItWasProduced() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 4)])
        let orders = broker.topics[0].name
        let producer = try KafkaProducer(configuration(broker))
        let headers = [
            KafkaHeader(name: "ce_type", text: "waybill.order.patched"), KafkaHeader(name: "none", value: nil),
            KafkaHeader(name: "empty", value: []), KafkaHeader(name: "ce_type", text: "again"),
        ]
        let message = KafkaMessage(topic: orders, partition: 2, key: [1, 0, 255], value: [0, 9], headers: headers)
        let position = try await producer.produce(message)
        #expect(position == KafkaPosition(topic: orders, partition: 2, offset: 0))

        let consumer = try KafkaConsumer(configuration(broker), group: broker.group, topics: [orders])
        let record = try #require(try await read(consumer, 1).first)
        #expect(record.topic == orders)
        #expect(record.partition == 2)
        #expect(record.offset == 0)
        #expect(record.key == [1, 0, 255])
        #expect(record.value == [0, 9])
        #expect(record.headers == headers)
        #expect(record.timestampMilliseconds > 1_700_000_000_000)
        #expect(record.next.offset == 1)
        await consumer.close()
        await producer.close()
    }

    @Test func aTombstoneHasNoValueAndIsNotTheEmptyValue() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 1)])
        let orders = broker.topics[0].name
        let producer = try KafkaProducer(configuration(broker))
        for outcome in await producer.produce([
            KafkaMessage(topic: orders, partition: 0, key: [1], value: nil),
            KafkaMessage(topic: orders, partition: 0, key: [], value: []),
            KafkaMessage(topic: orders, partition: 0, key: nil, value: [1]),
        ]) { _ = try outcome.get() }
        let consumer = try KafkaConsumer(configuration(broker), group: broker.group, topics: [orders])
        let records = try await read(consumer, 3)
        #expect(records.map(\.value) == [nil, [], [1]])
        #expect(records.map(\.key) == [[1], [], nil])
        #expect(records.allSatisfy { $0.headers.isEmpty })
        await consumer.close()
        await producer.close()
    }

    @Test func anEmptyTopicGivesAnEmptyBatchAfterTheWait() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 1)])
        let orders = broker.topics[0].name
        let consumer = try KafkaConsumer(configuration(broker), group: broker.group, topics: [orders])
        let start = ContinuousClock.now
        #expect(try await consumer.nextBatch(records: 10, bytes: 100, wait: .milliseconds(30)).isEmpty)
        #expect(ContinuousClock.now - start >= .milliseconds(30))
        #expect(try await consumer.nextBatch(records: 10, bytes: 100, wait: .zero).isEmpty)
        await consumer.close()
    }

    @Test func anEmptyListOfMessagesHasNoResults() async throws {
        let broker = try await KafkaBroker.shared()
        let producer = try KafkaProducer(configuration(broker))
        #expect(await producer.produce([]).isEmpty)
        await producer.close()
    }

    @Test func keysLandWhereJavaProducersPutThem() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 64)])
        let orders = broker.topics[0].name
        let producer = try KafkaProducer(configuration(broker))
        let keys = (0..<50).map { "order.com.example/\($0)" }
        let outcomes = await producer.produce(
            keys.map { KafkaMessage(topic: orders, key: Array($0.utf8), value: []) })
        for (key, outcome) in zip(keys, outcomes) {
            // Source: Kafka clients, BuiltInPartitioner: toPositive(murmur2(key)) % partitions
            let expected = (murmur2(Array(key.utf8)) & 0x7fff_ffff) % UInt32(broker.topics[0].partitions)
            #expect(try outcome.get().partition == Int32(expected))
        }
        await producer.close()
    }

    @Test func aHundredThousandRecordsComeOnceAndInOrder() async throws {
        let broker = try await KafkaBroker.shared(topics: [.init("orders", partitions: 8)])
        let orders = broker.topics[0].name
        let count = 100_000
        try await fill(broker, orders, count, value: 20)
        let consumer = try KafkaConsumer(configuration(broker), group: broker.group, topics: [orders])
        let records = try await read(consumer, count, batch: 5000)
        #expect(records.count == count)
        #expect(Set(records.map(\.keyText)).count == count)
        var next: [Int32: Int64] = [:]
        for record in records {
            #expect(record.offset == next[record.partition] ?? 0)
            next[record.partition] = record.offset + 1
        }
        await consumer.close()
    }

    /// Source: Kafka clients, Utils.murmur2
    private func murmur2(_ data: [UInt8]) -> UInt32 {
        let m: UInt32 = 0x5bd1_e995
        var h: UInt32 = 0x9747_b28c ^ UInt32(data.count)
        for start in stride(from: 0, to: data.count / 4 * 4, by: 4) {
            var k = data[start..<start + 4].reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
            k = k &* m
            k ^= k >> 24
            h = (h &* m) ^ (k &* m)
        }
        let rest = data[(data.count / 4 * 4)...]
        if !rest.isEmpty { h = (h ^ rest.reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }) &* m }
        h ^= h >> 13
        h = h &* m
        return h ^ (h >> 15)
    }
}
