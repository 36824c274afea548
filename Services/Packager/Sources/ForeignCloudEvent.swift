import FoundationEssentials
import Kafka
import Model

/// A CloudEvent of another system: its attributes as members of one object, with its `data`.
///
/// The content type decides the mode: a structured event may repeat its attributes in headers. Records of bridges and
/// libraries that are no events of this binding are refused with the cure, since a part of them would be lost.
/// Source: CloudEvents Kafka binding 1.0.2 §3; CloudEvents JSON format 1.0.2 §3.1, §4
enum ForeignCloudEvent {
    private static let prefix = "ce_"
    /// The attributes that the specification defines. Those of extensions may have any text.
    private static let attributes = ["specversion", "id", "source", "type", "subject", "time", "datacontenttype"]

    /// Returns true for attributes in headers. Such an event without data is a record without a value.
    static func isBinary(_ record: KafkaRecord) -> Bool {
        record.headers.contains { $0.name == "ce_specversion" && $0.value != nil }
    }

    /// - Parameter value: the record's; empty for none.
    static func event(
        _ record: KafkaRecord, _ value: [UInt8], _ foreign: inout ForeignJSON
    ) throws(ChangeFault) -> JSON {
        var contentType: String?
        // With capitals in some bridges from HTTP.
        for header in record.headers where header.name.utf8.count == 12 && header.name.lowercased() == "content-type" {
            contentType = try Self.text(header, isPlain: true) ?? contentType
        }
        if let contentType {
            if isMediaType(contentType, "application/cloudevents-batch") { throw Self.batch }
            if isMediaType(contentType, "application/cloudevents") {
                guard isMediaType(contentType, "application/cloudevents+json") || !contentType.contains("+") else {
                    throw Self.fault(
                        "header content-type is \"\(contentType.prefix(80))\": of structured events JSON is read, "
                            + "application/cloudevents+json")
                }
                return try Self.structured(try SourceEvent.json(value, &foreign), record, &foreign)
            }
        }
        if Self.isBinary(record) { return try Self.binary(record, value, contentType, &foreign) }
        // Another content type, or none: many producers of structured events set it so.
        let json: JSON
        do { json = try SourceEvent.json(value, &foreign) } catch { throw Self.misplaced(record) ?? error }
        return try Self.structured(json, record, &foreign)
    }

    private static func fault(_ reason: String) -> ChangeFault { ChangeFault(code: .mapUndecodable, reason: reason) }

    private static let batch = Self.fault(
        "the value is a batch of CloudEvents, which Kafka's binding does not have: publish each event as a record")

    private static func structured(
        _ json: JSON, _ record: KafkaRecord, _ foreign: inout ForeignJSON
    ) throws(ChangeFault) -> JSON {
        if let first = json.array?.first, first.object?["specversion"] != nil { throw Self.batch }
        guard var event = json.object, event["specversion"] != nil else {
            throw Self.misplaced(record)
                ?? Self.fault(
                    "the value is no CloudEvent: neither $.specversion nor a header ce_specversion is there")
        }
        guard let text = event["data_base64"]?.string else { return json }
        guard (event["data"] ?? .null) == .null else { throw Self.fault("$.data and $.data_base64 are both there") }
        guard let data = Data(base64Encoded: text) else { throw Self.fault("$.data_base64 is not base64") }
        let type = event["datacontenttype"]?.string
        if type.map(isJSONMediaType) ?? true {
            event["data"] = try SourceEvent.json(Array(data), &foreign, "the data in $.data_base64")
        } else if let text = String(validating: data, as: UTF8.self) {
            event["data"] = .string(text)
        } else {
            return json
        }
        event["data_base64"] = nil
        return .object(event)
    }

    private static func binary(
        _ record: KafkaRecord, _ value: [UInt8], _ contentType: String?, _ foreign: inout ForeignJSON
    ) throws(ChangeFault) -> JSON {
        var members: [(String, JSON)] = []
        var type = contentType
        for header in record.headers where header.name.hasPrefix(Self.prefix) {
            let name = String(header.name.dropFirst(Self.prefix.count))
            guard let text = try Self.text(header, isPlain: Self.attributes.contains(name)) else { continue }
            if name == "datacontenttype" { type = type ?? text } else { members.append((name, .string(text))) }
        }
        if let type { members.append(("datacontenttype", .string(type))) }
        if value.isEmpty {
            members.append(("data", .null))
        } else {
            guard type.map(isJSONMediaType) ?? true else {
                throw Self.fault(
                    "header content-type is \"\(type?.prefix(80) ?? "")\": a program gets JSON only, publish the data "
                        + "as application/json")
            }
            members.append(("data", try SourceEvent.json(value, &foreign)))
        }
        return .object(JSONObject(members))
    }

    /// Returns the text of a header; nil for one without a value.
    ///
    /// - Parameter isPlain: refuses a text in the quotation marks of JSON.
    private static func text(_ header: KafkaHeader, isPlain: Bool) throws(ChangeFault) -> String? {
        guard let bytes = header.value else { return nil }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw Self.fault("header \(header.name.prefix(80)) is not UTF-8")
        }
        guard isPlain, text.hasPrefix("\""), text.hasSuffix("\"") else { return text }
        throw Self.fault(
            "header \(header.name.prefix(80)) is in the quotation marks of JSON: let the producer write plain text, "
                + "with Spring by texts instead of URI and time objects, and encodeStrings of the header mapper false")
    }

    /// Returns the reason why the attributes are not found; nil if there are none.
    private static func misplaced(_ record: KafkaRecord) -> ChangeFault? {
        for header in record.headers {
            let name = header.name.prefix(80).lowercased()
            if name.hasPrefix("ce-") {
                return Self.fault(
                    "header \(header.name.prefix(80)) is that of HTTP, in Kafka it begins with ce_: let the producer "
                        + "or bridge use the Kafka binding")
            }
            if name.hasPrefix("cloudevents:") || name.hasPrefix("cloudevents_") {
                return Self.fault(
                    "header \(header.name.prefix(80)) is that of AMQP, in Kafka it begins with ce_: let the producer "
                        + "or bridge use the Kafka binding, or publish structured events")
            }
            if name.hasPrefix(Self.prefix) {
                return Self.fault("header ce_specversion is missing beside \(header.name.prefix(80))")
            }
        }
        return nil
    }
}
