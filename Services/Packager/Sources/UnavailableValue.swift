import FoundationEssentials
import Model

/// The placeholder of a column that the database did not send, in each form that Debezium's connectors give it.
///
/// Source: Debezium 3, `unavailable.value.placeholder`; PostgreSQL connector, "Toasted values"; Oracle connector, "LOB
/// types"
struct UnavailableValue: Sendable {
    static let standard = UnavailableValue(
        Array("__debezium_unavailable_value".utf8), uuid: "b68a35a7-17ad-35b3-af2a-ae46edb4545a")

    let bytes: [UInt8]
    /// The placeholder itself.
    private let text: String
    /// Of a text, of bytes in each `binary.handling.mode`, and of an hstore as JSON.
    private let texts: [String]
    /// Of an array's only element: one of `texts`, or that of `uuid[]`.
    let uuid: String?
    /// Of an array of integers, or of dates: one element for each byte.
    private let numbers: [JSON]
    private let dates: [JSON]

    /// - Parameter uuid: the one that Java's `UUID.nameUUIDFromBytes` makes of the bytes; nil if it is not known.
    init(_ bytes: [UInt8], uuid: String?) {
        self.bytes = bytes
        self.text = String(decoding: bytes, as: UTF8.self)
        let base64 = Data(bytes).base64EncodedString()
        let urlSafe = base64.replacing("+", with: "-").replacing("/", with: "_")
        let hexadecimal = bytes.map { String(String(Int($0) + 256, radix: 16).dropFirst()) }.joined()
        let hstore = JSON.object(JSONObject([(self.text, .string(self.text))])).text
        self.texts = [self.text, base64, urlSafe, hexadecimal, hstore]
        self.uuid = uuid
        let signed = bytes.map { Int64(Int8(bitPattern: $0)) }
        self.numbers = signed.map { .integer($0) }
        self.dates = signed.map { LogicalType.date.json(of: $0) }
    }

    /// Returns the UUID of version 3 that Java makes of a name.
    ///
    /// - Parameter digest: the name's MD5.
    static func uuid(of digest: [UInt8]) -> String {
        var bytes = digest
        bytes[6] = bytes[6] & 0x0F | 0x30
        bytes[8] = bytes[8] & 0x3F | 0x80
        return LogicalType.uuid(bytes)
    }

    /// Returns true if a column's value is the placeholder.
    func isForm(of value: JSON) -> Bool {
        switch value {
        case .string(let text): return self.isText(text)
        case .array(let elements):
            if elements.count == 1, let text = elements[0].string { return self.isText(text) || text == self.uuid }
            guard elements.count == self.numbers.count else { return false }
            return elements == self.numbers || elements == self.dates
        case .object(let object):
            guard object.members.count == 1, let member = object.members.first else { return false }
            return member.name == self.text && member.value == .string(self.text)
        case .null, .bool, .number: return false
        }
    }

    /// Lengths are compared first, since nearly all values have others.
    private func isText(_ text: String) -> Bool {
        self.texts.contains { $0.utf8.count == text.utf8.count && $0 == text }
    }
}
