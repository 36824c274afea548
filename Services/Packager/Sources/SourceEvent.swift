import FoundationEssentials
import Kafka
import Model

/// A record as its source's program gets it.
struct SourceEvent {
    /// The first argument of `map`; null for a tombstone.
    var event: JSON
    /// True for a tombstone, or a row that was deleted.
    var isDeletion = false
    /// True for a row that was there before the changes, as of Debezium's snapshot.
    var isSnapshot = false

    /// Decodes a record's value.
    ///
    /// - Throws: `map-undecodable` with what is expected.
    ///
    /// - Parameter schemas: those of the source's registry, by their identifiers, or why there is none.
    init(
        _ record: KafkaRecord, format: Source.Format, schemas: [UInt32: Result<AvroSchema, ChangeFault>],
        decoded: JSON? = nil
    ) throws(ChangeFault) {
        guard let value = record.value else {
            self.init(event: .null, isDeletion: true)
            return
        }
        if format.hasSchemas {
            let event: JSON
            if let decoded { event = decoded } else { event = try Self.avro(value, schemas) }
            self = format == .avro ? SourceEvent(event: event) : try DebeziumEvent.event(event)
            return
        }
        if let framing = Self.foreignFraming(value) {
            throw ChangeFault(
                code: .mapUndecodable, reason: "the value is \(framing), the source's format is \(format.rawValue)")
        }
        switch format {
        case .json: self.init(event: try Self.json(value))
        case .cloudevents: self.init(event: try Self.cloudEvent(record, value))
        case .debezium, .avro, .avroDebezium: self = try DebeziumEvent.event(try Self.json(value))
        }
    }

    init(event: JSON, isDeletion: Bool = false, isSnapshot: Bool = false) {
        self.event = event
        self.isDeletion = isDeletion
        self.isSnapshot = isSnapshot
    }

    private static func avro(
        _ value: [UInt8], _ schemas: [UInt32: Result<AvroSchema, ChangeFault>]
    ) throws(ChangeFault) -> JSON {
        guard let identifier = SchemaRegistry.identifier(of: value) else {
            let framing = Self.foreignFraming(value) ?? "not framed with a schema's id"
            throw ChangeFault(code: .mapUndecodable, reason: "the value is \(framing), and not Avro by a registry")
        }
        guard let schema = schemas[identifier] else {
            throw ChangeFault(code: .mapUndecodable, reason: "schema \(identifier) was not asked for")
        }
        do { return try AvroDecoder.decode(value, from: 5, try schema.get()) } catch let error as AvroError {
            throw ChangeFault(
                code: .mapUndecodable, reason: "the value does not have schema \(identifier): \(error)")
        } catch let fault as ChangeFault {
            throw fault
        } catch {
            throw ChangeFault(code: .mapUndecodable, reason: "the value cannot be read")
        }
    }

    private static func json(_ bytes: [UInt8]) throws(ChangeFault) -> JSON {
        do { return try JSON(parsing: bytes) } catch {
            throw ChangeFault(code: .mapUndecodable, reason: "the value is not JSON: \(error)")
        }
    }

    /// Returns the name of a framing that is not JSON; nil if the bytes may be JSON.
    ///
    /// Sources: Confluent, "Wire format"; Apache Avro, "Object container files", "Single-object encoding"; RFC 1952;
    /// RFC 8878
    static func foreignFraming(_ bytes: [UInt8]) -> String? {
        let framings: [(start: [UInt8], name: String)] = [
            (Array("Obj".utf8) + [1], "an Avro object container file"),
            ([0xC3, 0x01], "Avro in single-object encoding"),
            ([0x1F, 0x8B], "compressed with gzip"), ([0x28, 0xB5, 0x2F, 0xFD], "compressed with Zstandard"),
            ([0], "framed with a schema's id (Avro, Protobuf or JSON Schema by a registry)"),
            ([0xEF, 0xBB, 0xBF], "text with a byte order mark"),
        ]
        return framings.first { bytes.starts(with: $0.start) }?.name
    }

    /// Returns the attributes of an event as members of one object, with its `data`.
    ///
    /// Source: CloudEvents Kafka binding 1.0.2 §3.2, §3.3
    private static func cloudEvent(_ record: KafkaRecord, _ value: [UInt8]) throws(ChangeFault) -> JSON {
        let prefix = "ce_"
        let attributes = record.headers.filter { $0.name.hasPrefix(prefix) }
        guard attributes.contains(where: { $0.name == "ce_specversion" }) else {
            let event = try Self.json(value)
            guard event.object?["specversion"] != nil else {
                throw ChangeFault(
                    code: .mapUndecodable,
                    reason: "the value is no CloudEvent: neither $.specversion nor a header ce_specversion is there")
            }
            return event
        }
        var members: [(String, JSON)] = []
        for header in attributes {
            guard let text = header.value.flatMap({ String(validating: $0, as: UTF8.self) }) else {
                throw ChangeFault(code: .mapUndecodable, reason: "header \(header.name) is not UTF-8")
            }
            members.append((String(header.name.dropFirst(prefix.count)), .string(text)))
        }
        members.append(("data", value.isEmpty ? .null : try Self.json(value)))
        return .object(JSONObject(members))
    }

    /// The second argument of `map`.
    static func facts(of record: KafkaRecord) -> JSON {
        func text(_ bytes: [UInt8]?) -> JSON {
            bytes.flatMap { String(validating: $0, as: UTF8.self) }.map { .string($0) } ?? .null
        }
        var members: [(String, JSON)] = [
            ("topic", .string(record.topic)), ("partition", .integer(Int64(record.partition))),
            ("offset", .integer(record.offset)), ("key", text(record.key)),
            ("headers", .object(JSONObject(record.headers.map { ($0.name, text($0.value)) }))),
        ]
        if record.timestampMilliseconds >= 0 { members.append(("timestamp", .integer(record.timestampMilliseconds))) }
        return .object(JSONObject(members))
    }
}

/// A change of a row, by Debezium in JSON: with a schema beside it, or without.
///
/// Source: Debezium 2.7, "Data change events", "Data types"; Kafka Connect, `JsonConverter`
enum DebeziumEvent {
    /// Stands for a value that the database did not send.
    private static let unavailable = "__debezium_unavailable_value"

    static func event(_ json: JSON) throws(ChangeFault) -> SourceEvent {
        guard let object = json.object else {
            throw ChangeFault(code: .mapUndecodable, reason: "the value must be an object, it is \(json.kind)")
        }
        let schema = object["payload"] == nil ? nil : object["schema"]
        var envelope = object["payload"] ?? json
        if envelope == .null { return SourceEvent(event: .null, isDeletion: true) }
        guard envelope.object?["op"]?.string != nil else {
            throw ChangeFault(
                code: .mapUndecodable,
                reason: "the value is no change of Debezium: $.op is missing. A topic that is unwrapped is json")
        }
        envelope = try Self.converted(envelope, schema, path: "$")
        let operation = envelope.object?["op"]?.string
        return SourceEvent(event: envelope, isDeletion: operation == "d", isSnapshot: operation == "r")
    }

    /// Converts values by their schema: decimals to their digits, dates to their form in RFC 3339, and leaves out what
    /// the database did not send.
    private static func converted(_ value: JSON, _ schema: JSON?, path: String) throws(ChangeFault) -> JSON {
        switch value {
        case .object(let object):
            if let decimal = try Self.variableDecimal(object, schema, path) { return decimal }
            let fields = schema?.object?["fields"]?.array ?? []
            var byName: [String: JSON] = [:]
            for field in fields {
                if let name = (field.object?["field"] ?? field.object?["name"])?.string { byName[name] = field }
            }
            var members: [JSONObject.Member] = []
            for member in object.members where member.value != .string(Self.unavailable) {
                let inside = try Self.converted(member.value, byName[member.name], path: "\(path).\(member.name)")
                members.append(.init(name: member.name, value: inside))
            }
            var duplicate: String?
            return .object(JSONObject(unsorted: members, duplicate: &duplicate))
        case .array(let elements):
            let items = schema?.object?["items"]
            var converted: [JSON] = []
            for element in elements { converted.append(try Self.converted(element, items, path: path)) }
            return .array(converted)
        case .null, .bool: return value
        case .number, .string: return try Self.scalar(value, schema?.object, path)
        }
    }

    private static func scalar(_ value: JSON, _ schema: JSONObject?, _ path: String) throws(ChangeFault) -> JSON {
        func moment(_ unit: Int64) throws(ChangeFault) -> JSON {
            guard let number = value.integer else { return value }
            let seconds = unit > 0 ? (number >= 0 ? number / unit : -((unit - 1 - number) / unit)) : number * 86_400
            return .string(RFC3339.format(epochSeconds: seconds))
        }
        switch schema?["name"]?.string {
        case "org.apache.kafka.connect.data.Decimal"?:
            guard let scale = (schema?["parameters"]?.object?["scale"]?.string).flatMap({ Int($0) }),
                let text = value.string, let digits = Self.decimal(base64: text, scale: scale)
            else { throw ChangeFault(code: .mapUndecodable, reason: "\(path) is not a decimal of its schema") }
            return .string(digits)
        case "io.debezium.time.Date"?, "org.apache.kafka.connect.data.Date"?:
            guard let days = value.integer, (-800_000...3_000_000).contains(days) else { return value }
            return .string(String(RFC3339.format(epochSeconds: days * 86_400).prefix(10)))
        case "io.debezium.time.Timestamp"?, "org.apache.kafka.connect.data.Timestamp"?: return try moment(1000)
        case "io.debezium.time.MicroTimestamp"?: return try moment(1_000_000)
        case "io.debezium.time.NanoTimestamp"?: return try moment(1_000_000_000)
        default: return value
        }
    }

    private static func variableDecimal(
        _ object: JSONObject, _ schema: JSON?, _ path: String
    ) throws(ChangeFault) -> JSON? {
        guard schema?.object?["name"] == "io.debezium.data.VariableScaleDecimal" else { return nil }
        guard let scale = object["scale"]?.integer, let text = object["value"]?.string,
            let digits = Self.decimal(base64: text, scale: Int(scale))
        else { throw ChangeFault(code: .mapUndecodable, reason: "\(path) is not a decimal of its schema") }
        return .string(digits)
    }

    /// Returns the digits of a number in two's complement, divided by ten to the power of `scale`.
    ///
    /// - Returns: nil for what is not base64, or has more than 32 bytes or decimal places.
    static func decimal(base64 text: String, scale: Int) -> String? {
        guard let data = Data(base64Encoded: text), (1...32).contains(data.count), (0...64).contains(scale) else {
            return nil
        }
        return Self.decimal(Array(data), scale: scale)
    }

    /// As above, of bytes.
    static func decimal(_ bytes: [UInt8], scale: Int) -> String {
        var bytes = bytes
        let isNegative = bytes.first.map { $0 >= 0x80 } ?? false
        if isNegative {
            var carry = true
            for index in bytes.indices.reversed() {
                bytes[index] = ~bytes[index]
                if carry {
                    let (sum, isOver) = bytes[index].addingReportingOverflow(1)
                    bytes[index] = sum
                    carry = isOver
                }
            }
        }
        var digits: [UInt8] = []
        while bytes.contains(where: { $0 != 0 }) {
            var rest = 0
            for index in bytes.indices {
                let value = rest << 8 | Int(bytes[index])
                bytes[index] = UInt8(value / 10)
                rest = value % 10
            }
            digits.insert(UInt8(ascii: "0") + UInt8(rest), at: 0)
        }
        let missing = scale + 1 - digits.count
        if missing > 0 { digits = Array(repeating: UInt8(ascii: "0"), count: missing) + digits }
        let whole = String(decoding: digits.dropLast(scale), as: UTF8.self)
        let fraction = scale > 0 ? ".\(String(decoding: digits.suffix(scale), as: UTF8.self))" : ""
        return (isNegative ? "-" : "") + whole + fraction
    }
}
