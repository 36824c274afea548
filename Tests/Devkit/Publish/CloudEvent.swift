import Kafka
import Model

/// A change as it is published to `waybill.order-changes`.
///
/// Source: Design §3; CloudEvents 1.0 with its Kafka protocol binding
struct CloudEvent: Sendable {
    /// The types of changes that the publisher's contract lists.
    enum ChangeType: String, Sendable, CaseIterable {
        case replaced = "waybill.order.replaced"
        case merged = "waybill.order.merged"
        case patched = "waybill.order.patched"
        case fulfillmentUpdated = "waybill.fulfillment.updated"
        case returnUpdated = "waybill.return.updated"
        case announced = "waybill.order.announced"
        case removed = "waybill.order.removed"
    }

    /// The place of the attributes: inside the value or in headers.
    enum Mode: Sendable { case structured, binary }

    var id: String
    var source: String
    var type: String
    /// `<orderTypeIdentifier>/<orderIdentifier>`, which is also the record's key.
    var subject: String
    var time: String?
    var sequence: String?
    /// True if no device is notified of the change.
    var isSilent = false
    /// The paths that only the source of a merged document writes, separated by commas.
    var owns: String?
    var data: JSON?

    /// Returns the event as a Kafka message keyed by its subject.
    func message(topic: String, mode: Mode) -> KafkaMessage {
        switch mode {
        case .structured:
            return KafkaMessage(
                topic: topic, key: Array(self.subject.utf8), value: self.structuredValue,
                headers: [Self.header("content-type", "application/cloudevents+json")])
        case .binary:
            var headers = self.attributes.map { Self.header("ce_" + $0.0, $0.1) }
            headers.append(Self.header("content-type", "application/json"))
            return KafkaMessage(
                topic: topic, key: Array(self.subject.utf8), value: self.data?.serialized, headers: headers)
        }
    }

    /// The event as one JSON object.
    var structuredValue: [UInt8] {
        var object = JSONObject(self.attributes.map { ($0.0, JSON.string($0.1)) })
        if let data = self.data {
            object["datacontenttype"] = "application/json"
            object["data"] = data
        }
        return JSON.object(object).serialized
    }

    private var attributes: [(String, String)] {
        var attributes = [
            ("specversion", "1.0"), ("id", self.id), ("source", self.source), ("type", self.type),
            ("subject", self.subject),
        ]
        if let time = self.time { attributes.append(("time", time)) }
        if let sequence = self.sequence { attributes.append(("sequence", sequence)) }
        if self.isSilent { attributes.append(("silent", "true")) }
        if let owns = self.owns { attributes.append(("owns", owns)) }
        return attributes
    }

    private static func header(_ name: String, _ value: String) -> KafkaHeader {
        KafkaHeader(name: name, value: Array(value.utf8))
    }
}
