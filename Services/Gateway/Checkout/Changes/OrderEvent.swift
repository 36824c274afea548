import Foundation
import Kafka
import Model

/// A change of an order that came by HTTP, as it goes to Kafka: a CloudEvent in binary mode.
///
/// Source: CloudEvents Kafka binding 1.0.2 §3.2
struct OrderEvent: Sendable {
    let key: OrderKey
    let type: ChangeType
    let source: String
    let id: String
    /// The data; nil for a removal.
    let data: JSONObject?
    /// True if no device is to be pushed.
    var isSilent = false

    /// - Parameters:
    ///   - caller: whose key names the source.
    ///   - idempotencyKey: a caller's own name for the request, which makes the event's identifier: the packager takes
    ///     a repeated one for a duplicate. Nil for a random one.
    init(
        _ key: OrderKey, _ type: ChangeType, _ data: JSONObject?, caller: Caller, idempotencyKey: String? = nil,
        isSilent: Bool = false
    ) {
        self.key = key
        self.type = type
        self.data = data
        self.source = "waybill-checkout/\(caller.merchant.name)/\(caller.key.name)"
        self.id = idempotencyKey.map { "\(type.rawValue)/\($0)" } ?? UUID().uuidString.lowercased()
        self.isSilent = isSilent
    }

    /// A change that a shop's answer brought, for which no key stands.
    init(_ key: OrderKey, _ type: ChangeType, _ data: JSONObject, source: String) {
        self.key = key
        self.type = type
        self.data = data
        self.source = source
        self.id = UUID().uuidString.lowercased()
    }

    /// The change as the packager reads it.
    ///
    /// - Throws: `invalid_parameter` for what would become a dead letter whatever the order is.
    func change() throws(CheckoutFailure) -> OrderChange {
        let message = self.message(topic: "")
        do {
            return try OrderChange.decode(
                key: message.key, value: message.value, headers: message.headers.map { ($0.name, $0.value) })
        } catch {
            throw CheckoutFailure(.invalidParameter, error.reason)
        }
    }

    /// The record for the topic of changes.
    func message(topic: String) -> KafkaMessage {
        var headers = [
            KafkaHeader(name: "ce_specversion", text: "1.0"), KafkaHeader(name: "ce_type", text: self.type.rawValue),
            KafkaHeader(name: "ce_source", text: self.source), KafkaHeader(name: "ce_id", text: self.id),
            KafkaHeader(name: "ce_subject", text: self.key.description),
        ]
        if self.isSilent { headers.append(KafkaHeader(name: "ce_silent", text: "true")) }
        if self.data != nil { headers.append(KafkaHeader(name: "content-type", text: "application/json")) }
        return KafkaMessage(
            topic: topic, key: Array(self.key.description.utf8), value: self.data?.serialized ?? [], headers: headers)
    }
}
