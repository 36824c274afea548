import Kafka
import Model
import Synchronization

/// The largest record that the topic of orders accepts, as far as known: the producer's limit, lowered by what brokers
/// refused. A version with a larger record is never written, since it could not be published.
final class RecordLimit: Sendable {
    /// The most bytes that Kafka adds to a record's value: key, headers and the batch around it.
    private static let overhead = 1024

    private let producer: Int
    private let bytes: Atomic<Int>

    /// - Parameter producer: `message.max.bytes` of the producer.
    init(producer: Int) {
        self.producer = max(0, producer - Self.overhead)
        self.bytes = Atomic(self.producer)
    }

    /// The most bytes of a record's value.
    var value: Int { self.bytes.load(ordering: .relaxed) }

    /// Lowers the limit after a record was refused for its size.
    func refused(_ size: Int) {
        let limit = self.value
        if size - Self.overhead < limit { self.bytes.store(max(0, size - Self.overhead), ordering: .relaxed) }
    }

    /// Resets the limit if a record above it was accepted: the record was made earlier, and the topic accepts more by
    /// now.
    func taken(_ size: Int) {
        if size > self.value { self.bytes.store(self.producer, ordering: .relaxed) }
    }
}

/// A record that cannot be applied.
struct RefusedRecord {
    /// The place of its work in the batch.
    let place: Int
    let record: KafkaRecord
    let fault: ChangeFault
    /// The trace of the record's event, which may be no valid change; nil if it has none.
    let trace: TraceContext?

    init(place: Int, record: KafkaRecord, fault: ChangeFault) {
        self.place = place
        self.record = record
        self.fault = fault
        self.trace = TraceContext(value: record.value, headers: record.headers.map { ($0.name, $0.value) })
    }
}
