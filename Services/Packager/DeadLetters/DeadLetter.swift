import Kafka
import Model

/// A record that cannot be applied, as it goes to `waybill.dead-letters`: as it came, and why.
enum DeadLetter {
    static func message(of record: KafkaRecord, fault: ChangeFault, topics: Topics) -> KafkaMessage {
        KafkaMessage(
            topic: topics.deadLetters, key: record.key, value: record.value,
            headers: record.headers + Self.reasons(record, fault, fault.reason))
    }

    /// For a record that is too large to be repeated with three headers more: its key, and why. The rest stands where
    /// the letter's origin says, as long as the topic keeps it.
    static func messageWithoutValue(of record: KafkaRecord, fault: ChangeFault, topics: Topics) -> KafkaMessage {
        let reason = "\(fault.reason); value and headers are left out as they are too large for \(topics.deadLetters)"
        return KafkaMessage(
            topic: topics.deadLetters, key: record.key, value: nil,
            headers: Self.reasons(record, fault, reason)
                + [KafkaHeader(name: DeadLetterHeader.omitted, text: "too large")])
    }

    /// `topic/partition/offset`
    static func origin(of record: KafkaRecord) -> String { "\(record.topic)/\(record.partition)/\(record.offset)" }

    private static func reasons(_ record: KafkaRecord, _ fault: ChangeFault, _ reason: String) -> [KafkaHeader] {
        [
            KafkaHeader(name: DeadLetterHeader.error, text: fault.code.rawValue),
            KafkaHeader(name: DeadLetterHeader.reason, text: reason),
            KafkaHeader(name: DeadLetterHeader.origin, text: Self.origin(of: record)),
        ]
    }
}
