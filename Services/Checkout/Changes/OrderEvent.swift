import Cryptography
import FoundationEssentials
import Kafka
import Model
import Operations

/// A change of an order that arrived by HTTP, as it is published to Kafka: a CloudEvent in binary mode.
///
/// Source: CloudEvents Kafka binding 1.0.2 §3.2
struct OrderEvent: Sendable {
    let key: OrderKey
    let type: ChangeType
    let source: String
    let id: String
    /// The data; nil for a removal.
    let data: JSONObject?
    /// True if no device is to be notified.
    var isSilent = false
    /// The trace that the change belongs to.
    var trace: TraceContext?

    /// - Parameters:
    ///   - caller: the caller, whose merchant and key name the source, and whose trace goes on.
    ///   - idempotencyKey: the caller's own name for the request. With the content it determines the event's
    ///     identifier, by which the packager recognizes duplicates. Nil for a random identifier.
    init(
        _ key: OrderKey, _ type: ChangeType, _ data: JSONObject?, caller: Caller, idempotencyKey: String? = nil,
        isSilent: Bool = false
    ) {
        self.key = key
        self.type = type
        self.data = data
        self.source = "waybill-checkout/\(caller.merchant.name)/\(caller.key.name)"
        self.id =
            idempotencyKey.map { name in
                let content = Array("\(type.rawValue) \(isSilent)\n".utf8) + (data?.serialized ?? [])
                return "\(name)/\(SHA256.hex(content).prefix(32))"
            } ?? UUID().uuidString.lowercased()
        self.isSilent = isSilent
        self.trace = caller.trace
    }

    /// Makes a change from a shop's answer, which has no key to name the source.
    init(_ key: OrderKey, _ type: ChangeType, _ data: JSONObject, source: String) {
        self.key = key
        self.type = type
        self.data = data
        self.source = source
        self.id = UUID().uuidString.lowercased()
    }

    /// Decodes the change as the packager does.
    ///
    /// - Throws: `invalid_parameter` for a change that would become a dead letter with any order.
    func change() throws(CheckoutFailure) -> OrderChange {
        let message = self.message(topic: "")
        do {
            return try OrderChange.decode(
                key: message.key, value: message.value, headers: message.headers.map { ($0.name, $0.value) })
        } catch {
            throw CheckoutFailure(.invalidParameter, error.reason)
        }
    }

    /// Makes the record for the topic of changes.
    func message(topic: String) -> KafkaMessage {
        var headers = [
            KafkaHeader(name: "ce_specversion", text: "1.0"), KafkaHeader(name: "ce_type", text: self.type.rawValue),
            KafkaHeader(name: "ce_source", text: self.source), KafkaHeader(name: "ce_id", text: self.id),
            KafkaHeader(name: "ce_subject", text: self.key.description),
        ]
        if self.isSilent { headers.append(KafkaHeader(name: "ce_silent", text: "true")) }
        if self.data != nil { headers.append(KafkaHeader(name: "content-type", text: "application/json")) }
        return KafkaMessage(
            topic: topic, key: Array(self.key.description.utf8), value: self.data?.serialized ?? [],
            headers: headers + self.trace.headers)
    }
}
