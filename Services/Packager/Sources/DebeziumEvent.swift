import FoundationEssentials
import Model

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
        let schema = object["payload"] == nil ? nil : Schema(object["schema"])
        var envelope = object["payload"] ?? json
        if envelope == .null { return SourceEvent(event: .null, isDeletion: true) }
        guard envelope.object?["op"]?.string != nil else {
            throw ChangeFault(
                code: .mapUndecodable,
                reason: "the value is no change of Debezium: $.op is missing. A topic that is unwrapped is json")
        }
        var path = ["$"]
        envelope = try Self.converted(envelope, schema, &path)
        let operation = envelope.object?["op"]?.string
        return SourceEvent(event: envelope, isDeletion: operation == "d", isSnapshot: operation == "r")
    }

    /// The schema of a value. All rows of an array have one, which finds its fields once.
    private final class Schema {
        let members: JSONObject
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
        }
    }

    /// Converts values by their schema: decimals to their digits, dates to their form in RFC 3339, and leaves out what
    /// the database did not send.
    ///
    /// - Parameter path: the names that lead to the value; the same afterwards.
    private static func converted(
        _ value: JSON, _ schema: Schema?, _ path: inout [String]
    ) throws(ChangeFault) -> JSON {
        switch value {
        case .object(let object):
            if schema?.members["name"] == "io.debezium.data.VariableScaleDecimal" {
                return try Self.variableDecimal(object, path)
            }
            let fields = schema?.fields ?? [:]
            var members: [JSONObject.Member] = []
            for member in object.members where member.value != .string(Self.unavailable) {
                path.append(member.name)
                members.append(
                    .init(name: member.name, value: try Self.converted(member.value, fields[member.name], &path)))
                path.removeLast()
            }
            var duplicate: String?
            return .object(JSONObject(unsorted: members, duplicate: &duplicate))
        case .array(let elements):
            let items = schema?.items
            var converted: [JSON] = []
            for element in elements { converted.append(try Self.converted(element, items, &path)) }
            return .array(converted)
        case .null, .bool: return value
        case .number, .string: return try Self.scalar(value, schema?.members, path)
        }
    }

    private static func noDecimal(_ path: [String]) -> ChangeFault {
        ChangeFault(
            code: .mapUndecodable, reason: "\(path.joined(separator: ".")) is not a decimal of its schema")
    }

    private static func scalar(_ value: JSON, _ schema: JSONObject?, _ path: [String]) throws(ChangeFault) -> JSON {
        func moment(_ unit: Int64) throws(ChangeFault) -> JSON {
            guard let number = value.integer else { return value }
            return .string(RFC3339.format(epochSeconds: number / unit - (number % unit < 0 ? 1 : 0)))
        }
        switch schema?["name"]?.string {
        case "org.apache.kafka.connect.data.Decimal"?:
            guard let scale = (schema?["parameters"]?.object?["scale"]?.string).flatMap({ Int($0) }),
                let text = value.string, let digits = Self.decimal(base64: text, scale: scale)
            else { throw Self.noDecimal(path) }
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

    private static func variableDecimal(_ object: JSONObject, _ path: [String]) throws(ChangeFault) -> JSON {
        guard let scale = object["scale"]?.integer, let text = object["value"]?.string,
            let digits = Self.decimal(base64: text, scale: Int(scale))
        else { throw Self.noDecimal(path) }
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
