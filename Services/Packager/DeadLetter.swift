import Kafka
import Model

/// A record that cannot be applied, as it goes to `waybill.dead-letters`: as it came, and why.
enum DeadLetter {
    static func message(of record: KafkaRecord, fault: ChangeFault, topics: Topics) -> KafkaMessage {
        let origin = "\(record.topic)/\(record.partition)/\(record.offset)"
        let reasons = [
            KafkaHeader(name: DeadLetterHeader.error, value: Array(fault.code.rawValue.utf8)),
            KafkaHeader(name: DeadLetterHeader.reason, value: Array(fault.reason.utf8)),
            KafkaHeader(name: DeadLetterHeader.origin, value: Array(origin.utf8)),
        ]
        return KafkaMessage(
            topic: topics.deadLetters, key: record.key, value: record.value, headers: record.headers + reasons)
    }
}
