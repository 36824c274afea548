import Kafka
import Model
import Operations

/// The message for `waybill.dead-letters` of a record that cannot be applied: the record unchanged, and the reason.
///
/// Headers that only Waybill writes are left out, those that it adds are the last: see `RecordHeader`.
enum DeadLetter {
    /// - Parameter trace: that of its event, for a record whose headers have none.
    static func message(
        of record: KafkaRecord, fault: ChangeFault, trace: TraceContext? = nil, topics: Topics
    ) -> KafkaMessage {
        let headers = record.headers.withoutReserved(except: fault.code.isOfSource ? .merchant : nil)
        let hasTrace = headers.contains { $0.name == TraceHeader.traceparent }
        return KafkaMessage(
            topic: topics.deadLetters, key: record.key, value: record.value,
            headers: headers + (hasTrace ? [] : trace.headers) + Self.reasons(record, fault, fault.reason))
    }

    /// Returns the message for a record that is too large to be repeated with three more headers: its key and the
    /// reason. The rest remains at the dead letter's origin, as long as the topic retains it.
    static func messageWithoutValue(
        of record: KafkaRecord, fault: ChangeFault, trace: TraceContext? = nil, topics: Topics
    ) -> KafkaMessage {
        let reason = "\(fault.reason); value and headers are left out as they are too large for \(topics.deadLetters)"
        return KafkaMessage(
            topic: topics.deadLetters, key: record.key, value: nil,
            headers: trace.headers + Self.reasons(record, fault, reason)
                + [KafkaHeader(.omitted, text: "too large")])
    }

    /// `topic/partition/offset`
    static func origin(of record: KafkaRecord) -> String { "\(record.topic)/\(record.partition)/\(record.offset)" }

    private static func reasons(_ record: KafkaRecord, _ fault: ChangeFault, _ reason: String) -> [KafkaHeader] {
        let time = KafkaHeader(.time, text: String(record.timestampMilliseconds))
        return [
            KafkaHeader(.error, text: fault.code.rawValue), KafkaHeader(.reason, text: reason),
            KafkaHeader(.origin, text: Self.origin(of: record)),
        ] + (fault.code.isOfSource ? [time] : [])
    }
}
