import Kafka
import Model

@testable import Packager

/// Makes records of `waybill.order-changes`, with the offsets that a broker would give.
struct ChangeLog {
    static let topic = "waybill.order-changes"
    /// Noon of 2026-01-01, UTC.
    static let noon: Int64 = 1_767_268_800

    var cluster = ""
    var topic = Self.topic
    var partition: Int32 = 0
    var offset: Int64 = 0
    var timestamp: Int64 = Self.noon * 1000

    static func key(_ name: String) throws -> OrderKey { try OrderKey("\(BrandFixture.orderType)/\(name)") }

    /// Returns a valid document with a logo and a picture.
    static func document(_ number: String = "1", extra: [(String, JSON)] = []) -> JSON {
        var object: JSONObject = [
            "createdAt": "2025-02-01T12:00:00Z", "status": "open", "orderNumber": .string(number),
            "merchant": [
                "merchantIdentifier": "merchant.com.example", "displayName": "Shop",
                "url": "https://shop.example.com/", "logo": "logo.png",
            ],
            "orderManagementURL": "https://shop.example.com/orders/1",
            "lineItems": [["title": "Lamp", "quantity": 1, "image": "lamp.png"]],
        ]
        for (name, value) in extra { object[name] = value }
        return .object(object)
    }

    static func fulfillment(_ identifier: String) -> JSON {
        [
            "fulfillmentIdentifier": .string(identifier), "fulfillmentType": "shipping", "status": "open",
            "notes": .string(identifier),
        ]
    }

    /// Makes a record with any value.
    mutating func record(key: String?, value: [UInt8]?, headers: [KafkaHeader] = []) -> KafkaRecord {
        defer { self.offset += 1 }
        return KafkaRecord(
            cluster: self.cluster, topic: self.topic, partition: self.partition, offset: self.offset,
            timestampMilliseconds: self.timestamp, key: key.map { Array($0.utf8) }, value: value, headers: headers)
    }

    /// Makes a CloudEvent in structured mode.
    ///
    /// - Parameter time: seconds since 1970; nil for an event that does not tell it.
    mutating func change(
        _ type: String, _ order: String, _ data: JSON?, id: String? = nil, subject: String? = nil,
        orderType: String = BrandFixture.orderType, source: String = "/oms", isSilent: Bool = false,
        sequence: Int? = nil, time: Int64? = nil
    ) -> KafkaRecord {
        let key = "\(orderType)/\(order)"
        let id = id ?? "\(self.partition)-\(self.offset)"
        return self.record(
            key: key,
            value: Self.event(
                type, subject: subject ?? key, id: id, data, source: source, isSilent: isSilent, sequence: sequence,
                time: time),
            headers: [Self.contentType])
    }

    static let contentType = KafkaHeader(name: "content-type", text: "application/cloudevents+json")

    static func event(
        _ type: String, subject: String, id: String, _ data: JSON?, source: String = "/oms", isSilent: Bool = false,
        sequence: Int? = nil, time: Int64? = nil
    ) -> [UInt8] {
        var event: JSONObject = [
            "specversion": "1.0", "id": .string(id), "source": .string(source), "type": .string("waybill.\(type)"),
            "subject": .string(subject),
        ]
        if let data { event["data"] = data }
        if isSilent { event["silent"] = true }
        if let sequence { event["sequence"] = .string("\(sequence)") }
        if let time { event["time"] = .string(RFC3339.format(epochSeconds: time)) }
        return JSON.object(event).serialized
    }
}
