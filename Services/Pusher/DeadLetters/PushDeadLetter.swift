import APNS
import Kafka
import Model
import Operations

/// The dead letter of a notification that was dropped: the device that was not notified, the order, and the attempts.
///
/// A notification for several orders of a device has one for each, so that each is listed, closed and forgotten with
/// its order.
/// It does not contain the record that caused it: an old version published again would be a rollback. The device learns
/// of the change with the next notification, or when it polls. It names the device, as `waybill.registrations` does,
/// and never the push token.
/// Source: Design §3; `push-dead-letter.schema.json`
struct PushDeadLetter: Hashable, Sendable {
    /// The most dead letters of one notification.
    static let mostOfNotification = 100

    /// A registration that led to the notification.
    let registration: RegistrationKey
    let code: PushDeadLetterCode
    /// Status and reason, or another error, as given by the verdict.
    let cause: String
    /// The oldest record of the order that waited for it.
    let origin: KafkaPosition
    /// The number of records of the order that waited for it.
    let records: Int
    /// The most characters of a cause: a transport's error may be long, and the schema limits the reason.
    private static let mostCause = 300
    let history: PushHistory
    /// The trace of the newest change that has one.
    let trace: TraceContext?
    /// The number of further orders that the notification was for, which have no dead letter.
    let unnamed: Int

    init(
        _ code: PushDeadLetterCode, _ cause: String, registration: RegistrationKey, origin: KafkaPosition,
        records: Int = 1, history: PushHistory = PushHistory(), trace: TraceContext? = nil, unnamed: Int = 0
    ) {
        self.code = code
        self.cause = String(cause.prefix(Self.mostCause))
        self.registration = registration
        self.origin = origin
        self.records = records
        self.history = history
        self.trace = trace
        self.unnamed = unnamed
    }

    /// The event and its remedy, as text for operators.
    var reason: String {
        let what =
            switch self.code {
            case .undeliverable:
                "dropped after \(self.history.count) attempts, the last one: \(self.cause)"
            case .refused: "APNs refuses the notification: \(self.cause)"
            case .tokenUnknown: "APNs does not take the push token; the registration stays: \(self.cause)"
            case .workerEnded: "pushers ended with its record: \(self.cause)"
            }
        let others =
            self.unnamed > 0
            ? "\(self.unnamed) further orders of the device waited for it too, and have no dead letter" : nil
        return [what, others, self.advice].compactMap { $0 }.joined(separator: "; ")
    }

    /// Advice for the status and reason in the cause.
    private var advice: String? {
        let words = self.cause.split(separator: " ")
        for (status, word) in zip(words, words.dropFirst()) {
            guard let reason = PushReason(named: String(word)) else { continue }
            // The advice for a reason would contradict an answer that contradicts itself.
            guard Int(status).map(reason.statuses.contains) != false else {
                return "APNs gives this reason with \(reason.status): see what answers in APNs' place"
            }
            return reason.advice
        }
        return nil
    }

    /// Returns the record for `waybill.dead-letters`. Its timestamp is the time when the notification was dropped.
    func message(_ topics: Topics) -> KafkaMessage {
        KafkaMessage(
            topic: topics.deadLetters, key: Array(self.registration.order.description.utf8), value: self.value,
            headers: [
                KafkaHeader(.error, text: self.code.rawValue), KafkaHeader(.reason, text: self.reason),
                KafkaHeader(
                    .origin, text: "\(self.origin.topic)/\(self.origin.partition)/\(self.origin.offset)"),
                KafkaHeader(name: "content-type", text: "application/json"),
            ] + self.trace.headers)
    }

    /// JSON in UTF-8.
    private var value: [UInt8] {
        let json: JSON = [
            "device": .string(self.registration.device.rawValue),
            "orderType": .string(self.registration.order.orderType.rawValue),
            "records": .integer(Int64(self.records)),
            "attempts": .integer(Int64(self.history.count)),
            "history": .array((self.history.first + self.history.last).map(\.json)),
            "omitted": .integer(Int64(self.history.omitted)),
        ]
        return json.serialized
    }
}
