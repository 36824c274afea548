import FoundationEssentials
import Model

/// A change of a row, by Debezium in JSON: with a schema beside it, or without; or in Avro, whose values are converted.
///
/// Source: Debezium 3, "Data change events", "Data types", "Transaction metadata", "Schema change topic"; Kafka
/// Connect, `JsonConverter`
enum DebeziumEvent {
    /// - Parameters:
    ///   - unavailable: stands for a column that the database did not send.
    ///   - foreign: of the text that the event was in; goes on with the texts inside of it.
    static func event(
        _ json: JSON, unavailable: UnavailableValue = .standard, foreign: ForeignJSON = ForeignJSON()
    ) throws(ChangeFault) -> SourceEvent {
        var foreign = foreign
        var event = try Self.event(json, unavailable, &foreign)
        event.foreign = foreign
        return event
    }

    private static func event(
        _ json: JSON, _ unavailable: UnavailableValue, _ foreign: inout ForeignJSON
    ) throws(ChangeFault) -> SourceEvent {
        guard let object = json.object else {
            throw ChangeFault(code: .mapUndecodable, reason: "the value must be an object, it is \(json.kind)")
        }
        let schema = object["payload"] == nil ? nil : Schema(object["schema"])
        var envelope = object["payload"] ?? json
        if envelope == .null { return SourceEvent(event: .null, isDeletion: true) }
        if let kind = envelope.object.flatMap(Self.kind(without:)) {
            return SourceEvent(event: envelope, passedOver: kind)
        }
        guard let operation = envelope.object?["op"]?.string else {
            throw ChangeFault(
                code: .mapUndecodable,
                reason: "the value is no change of Debezium: $.op is missing. A topic that is unwrapped is json")
        }
        guard ["c", "u", "d", "r"].contains(operation) else {
            throw ChangeFault(
                code: .mapUndecodable, reason: "$.op is \"\(operation.prefix(20))\", a change of a row is c, u, d or r")
        }
        var converter = Converter(unavailable: unavailable)
        envelope = try converter.converted(envelope, schema)
        if envelope.object?["source"]?.object?["connector"] == "mongodb" {
            envelope = try Self.documents(envelope, &foreign)
        }
        return SourceEvent(event: envelope, isDeletion: operation == "d", isSnapshot: operation == "r")
    }

    /// Returns the kind of a record that is about no row; nil for others.
    private static func kind(without row: JSONObject) -> IgnoredRecord? {
        switch row["op"]?.string {
        case "m"?: return .message
        case "t"?: return .truncation
        case nil: break
        default: return nil
        }
        if ["BEGIN", "END"].contains(row["status"]?.string), row["id"]?.string != nil, row["event_count"] != nil {
            return .transaction
        }
        if row["source"]?.object != nil, row["ddl"] != nil || row["tableChanges"] != nil { return .schemaChange }
        if row["aggregate_type"]?.string != nil, row["type"]?.string != nil, row["additional_data"] != nil {
            return .notification
        }
        let isTime = row["ts_ms"]?.integer != nil && row.members.allSatisfy { $0.name.hasPrefix("ts_") }
        return isTime ? .heartbeat : nil
    }

    /// MongoDB's documents are texts of Extended JSON, which programs cannot read.
    ///
    /// Source: Debezium 3, MongoDB connector, "Change events"
    private static func documents(
        _ envelope: JSON, _ foreign: inout ForeignJSON
    ) throws(ChangeFault) -> JSON {
        guard var object = envelope.object else { return envelope }
        for name in ["before", "after"] {
            guard let text = object[name]?.string else { continue }
            object[name] = try SourceEvent.json(Array(text.utf8), &foreign, "$.\(name)")
        }
        return .object(object)
    }

    /// The schema of a value. All rows of an array have one, which finds its fields once.
    private final class Schema {
        let members: JSONObject
        let meaning: LogicalType?
        /// Those of an object's members.
        private(set) lazy var fields: [String: Schema] = {
            let fields = self.members["fields"]?.array ?? []
            var byName = [String: Schema](minimumCapacity: fields.count)
            for field in fields {
                guard let object = field.object, let name = (object["field"] ?? object["name"])?.string else {
                    continue
                }
                byName[name] = Schema(field)
            }
            return byName
        }()
        /// That of an array's elements.
        private(set) lazy var items = Schema(self.members["items"])

        init?(_ json: JSON?) {
            guard let members = json?.object else { return nil }
            self.members = members
            let scale = (members["parameters"]?.object?["scale"]?.string).flatMap { Int($0) }
            self.meaning = LogicalType(connect: members["name"]?.string, scale: scale)
        }
    }

    /// Converts values by their schema: decimals to their digits, dates to their form in RFC 3339, and leaves out what
    /// the database did not send.
    private struct Converter {
        let unavailable: UnavailableValue
        /// The names that lead to the value.
        private var path = ["$"]

        init(unavailable: UnavailableValue) { self.unavailable = unavailable }

        mutating func converted(_ value: JSON, _ schema: Schema?) throws(ChangeFault) -> JSON {
            switch value {
            case .object(let object):
                if let meaning = schema?.meaning {
                    guard let json = meaning.json(of: object) else { throw self.fault(meaning) }
                    return json
                }
                let fields = schema?.fields ?? [:]
                var members: [JSONObject.Member] = []
                for member in object.members where !self.unavailable.isForm(of: member.value) {
                    self.path.append(member.name)
                    members.append(
                        .init(name: member.name, value: try self.converted(member.value, fields[member.name])))
                    self.path.removeLast()
                }
                var duplicate: String?
                return .object(JSONObject(unsorted: members, duplicate: &duplicate))
            case .array(let elements):
                let items = schema?.items
                var converted: [JSON] = []
                for element in elements { converted.append(try self.converted(element, items)) }
                return .array(converted)
            case .null, .bool: return value
            case .number, .string:
                guard let meaning = schema?.meaning else { return value }
                return try self.scalar(value, meaning)
            }
        }

        private func fault(_ meaning: LogicalType) -> ChangeFault {
            let what = meaning == .structured ? "time" : "decimal"
            return ChangeFault(
                code: .mapUndecodable, reason: "\(self.path.joined(separator: ".")) is not a \(what) of its schema")
        }

        private func scalar(_ value: JSON, _ meaning: LogicalType) throws(ChangeFault) -> JSON {
            switch (meaning, value) {
            case (.decimal, .string(let text)):
                guard let data = Data(base64Encoded: text), let json = meaning.json(of: Array(data)) else {
                    throw self.fault(meaning)
                }
                return json
            // With `decimal.format` of `JsonConverter` as `NUMERIC`.
            case (.decimal, .number(let number)):
                guard let digits = LogicalType.plain(number) else { throw self.fault(meaning) }
                return .string(digits)
            case (.isoDate, .string(let text)): return .string(text.hasSuffix("Z") ? String(text.dropLast()) : text)
            default: return value.integer.map { meaning.json(of: $0) } ?? value
            }
        }
    }
}
