import Kafka
import Model

/// Ten kinds of changes that cannot be applied. Each must become a dead letter whose reason names what to fix.
enum BrokenChange: Int, CaseIterable, Sendable {
    case badJSON, unknownType, subjectMismatch, wrongAmount, unknownMember, missingMerchant, nullValue, hugeValue,
        invalidUTF8, wrongIdentifierType

    /// The code that the dead letter must have.
    var code: String {
        switch self {
        case .badJSON: "invalid-json"
        case .unknownType: "unknown-type"
        case .subjectMismatch: "subject-mismatch"
        case .wrongAmount, .unknownMember, .missingMerchant: "invalid-order"
        case .nullValue: "missing-value"
        case .hugeValue: "value-too-large"
        case .invalidUTF8: "invalid-utf8"
        case .wrongIdentifierType: "invalid-change"
        }
    }

    /// The text that the reason must contain, so that a person knows where to look.
    var mention: String {
        switch self {
        case .badJSON: "byte"
        case .unknownType: "waybill.order.teleported"
        case .subjectMismatch: "key"
        case .wrongAmount: "$.payment.total.amount"
        case .unknownMember: "$.colour"
        case .missingMerchant: "$.merchant"
        case .nullValue: "value"
        case .hugeValue: "bytes"
        case .invalidUTF8: "UTF-8"
        case .wrongIdentifierType: "fulfillmentIdentifier"
        }
    }

    /// Returns the broken record.
    ///
    /// - Parameters:
    ///   - story: the order that the record is about, which must remain unchanged.
    ///   - number: the number of the broken record, for its id.
    func message(_ story: OrderStory, number: Int, orderType: OrderTypeIdentifier, topic: String) -> KafkaMessage {
        let subject = "\(orderType)/\(story.order.identifier)"
        var event = CloudEvent(
            id: "broken-\(number)", source: "/olist/broken", type: CloudEvent.ChangeType.replaced.rawValue,
            subject: subject, data: .object(story.expected))
        switch self {
        case .badJSON:
            return Self.message(topic, subject, Array("{\"specversion\":\"1.0\",\"id\":".utf8))
        case .unknownType:
            event.type = "waybill.order.teleported"
        case .subjectMismatch:
            event.subject = "\(orderType)/somebody-else"
        case .wrongAmount:
            event.data = Self.changed(story.expected) { order in
                var payment = order["payment"]?.object ?? JSONObject()
                payment["total"] = ["amount": "12,50", "currency": "BRL"]
                order["payment"] = .object(payment)
            }
        case .unknownMember:
            event.data = Self.changed(story.expected) { $0["colour"] = "green" }
        case .missingMerchant:
            event.data = Self.changed(story.expected) { $0["merchant"] = nil }
        case .nullValue:
            return Self.message(topic, subject, nil)
        case .hugeValue:
            event.data = ["statusDescription": .string(String(repeating: "x", count: 2 << 20))]
        case .invalidUTF8:
            let text = String(decoding: event.structuredValue, as: UTF8.self)
            let bytes = text.utf8.map { $0 == UInt8(ascii: "M") ? 0xFF : $0 }
            return Self.message(topic, subject, bytes)
        case .wrongIdentifierType:
            event.type = CloudEvent.ChangeType.fulfillmentUpdated.rawValue
            event.data = ["fulfillmentIdentifier": 1, "status": "delivered"]
        }
        return Self.message(topic, subject, event.structuredValue)
    }

    private static func changed(_ document: JSONObject, _ change: (inout JSONObject) -> Void) -> JSON {
        var document = document
        change(&document)
        return .object(document)
    }

    private static func message(_ topic: String, _ key: String, _ value: [UInt8]?) -> KafkaMessage {
        KafkaMessage(
            topic: topic, key: Array(key.utf8), value: value,
            headers: [KafkaHeader(name: "content-type", value: Array("application/cloudevents+json".utf8))])
    }
}
