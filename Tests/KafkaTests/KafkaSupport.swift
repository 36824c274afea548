import Synchronization
import TestKit
import Testing

@testable import Kafka

func configuration(
    _ broker: KafkaBroker, _ properties: [String: String] = [:], onEvent: (@Sendable (KafkaEvent) -> Void)? = nil
) -> KafkaConfiguration {
    KafkaConfiguration(
        bootstrap: broker.bootstrap, properties: broker.properties.merging(properties) { $1 }, onEvent: onEvent)
}

/// The events of a handle, for tests to wait for.
final class EventLog: Sendable {
    private let events = Mutex<[KafkaEvent]>([])

    var record: @Sendable (KafkaEvent) -> Void { { event in self.events.withLock { $0.append(event) } } }
    var all: [KafkaEvent] { self.events.withLock { $0 } }
    func contains(_ kind: KafkaEvent.Kind, _ text: String = "") -> Bool {
        self.all.contains { $0.kind == kind && (text.isEmpty || $0.message.contains(text)) }
    }
}

/// Reads until `count` records have arrived.
func read(_ consumer: KafkaConsumer, _ count: Int, batch: Int = 1000) async throws -> [KafkaRecord] {
    var records: [KafkaRecord] = []
    try await eventually("\(count) records") {
        records += try await consumer.nextBatch(records: batch, bytes: 1 << 20, wait: .milliseconds(200))
        return records.count >= count
    }
    return records
}

/// Produces `count` messages with keys and values that name them, spread by key unless a partition is given.
func fill(
    _ broker: KafkaBroker, _ topic: String, _ count: Int, partition: Int32? = nil, value: Int = 0, from first: Int = 0
) async throws {
    let producer = try KafkaProducer(configuration(broker))
    let padding = [UInt8](repeating: 46, count: value)
    let messages = (first..<first + count).map {
        KafkaMessage(
            topic: topic, partition: partition, key: Array("key-\($0)".utf8),
            value: Array("value-\($0)".utf8) + padding)
    }
    for outcome in await producer.produce(messages) { _ = try outcome.get() }
    await producer.close()
}

/// Produces batches of 20 messages of 1 kB each to partition 0; a fetch returns one batch.
func fill(_ broker: KafkaBroker, _ topic: String, batches: Int) async throws {
    for batch in 0..<batches { try await fill(broker, topic, 20, partition: 0, value: 1000, from: batch * 20) }
}

/// Settings with which each batch of `fill(_:_:batches:)` fills librdkafka's queue, so that it stops fetching for up
/// to a second.
let smallQueue = ["queued.min.messages": "10", "max.partition.fetch.bytes": "20000"]

extension KafkaRecord {
    var keyText: String { String(decoding: self.key ?? [], as: UTF8.self) }
}
