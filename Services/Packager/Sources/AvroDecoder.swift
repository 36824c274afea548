import FoundationEssentials
import Model

/// Reads a value of Avro's binary encoding as JSON.
///
/// A logical type has its form as text, bytes are base64; a number that is not finite is refused. Bounded: depth by
/// `AvroSchema.depthLimit`, and values by the bytes: an item of a list has at least one.
/// Source: Apache Avro 1.12 specification, "Binary Encoding", "Logical Types"
struct AvroDecoder {
    /// The most values, which the fields of empty records count towards.
    private static let valueLimit = JSON.entryLimit

    private let schema: AvroSchema
    private let bytes: [UInt8]
    private var position: Int
    private var values = 0

    /// Decodes all bytes from a position on.
    ///
    /// - Throws: `AvroError` with the byte's number.
    static func decode(_ bytes: [UInt8], from position: Int = 0, _ schema: AvroSchema) throws(AvroError) -> JSON {
        var decoder = AvroDecoder(schema: schema, bytes: bytes, position: position)
        let value = try decoder.value(schema.root, depth: 0)
        guard decoder.position == bytes.count else {
            throw AvroError("\(bytes.count - decoder.position) bytes follow the value: the schema is another one")
        }
        return value
    }

    private init(schema: AvroSchema, bytes: [UInt8], position: Int) {
        self.schema = schema
        self.bytes = bytes
        self.position = position
    }

    private func error(_ problem: String) -> AvroError { AvroError("\(problem) (at byte \(self.position))") }

    private mutating func value(_ type: Int, depth: Int) throws(AvroError) -> JSON {
        self.values += 1
        guard depth <= AvroSchema.depthLimit else { throw self.error("nested too deeply") }
        guard self.values <= Self.valueLimit else { throw self.error("too many values") }
        let node = self.schema.nodes[type]
        switch node.kind {
        case .null: return .null
        case .boolean:
            switch try self.byte() {
            case 0: return .bool(false)
            case 1: return .bool(true)
            default: throw self.error("a boolean is 0 or 1")
            }
        case .int:
            let number = try self.long()
            guard Int32(exactly: number) != nil else { throw self.error("an int has 32 bits") }
            return node.meaning?.json(of: number) ?? .integer(number)
        case .long:
            let number = try self.long()
            return node.meaning?.json(of: number) ?? .integer(number)
        case .float: return try self.double(Double(Float(bitPattern: UInt32(try self.littleEndian(4)))), isFloat: true)
        case .double: return try self.double(Double(bitPattern: try self.littleEndian(8)), isFloat: false)
        case .bytes: return try self.binary(Array(try self.take(try self.length())), node.meaning)
        case .fixed(let size): return try self.binary(Array(try self.take(size)), node.meaning)
        case .string:
            let text = try self.text()
            return .string(node.meaning == .isoDate && text.hasSuffix("Z") ? String(text.dropLast()) : text)
        case .symbols(let symbols):
            let index = try self.long()
            guard symbols.indices.contains(Int(index)) else { throw self.error("there is no symbol \(index)") }
            return .string(symbols[Int(index)])
        case .union(let types):
            let index = try self.long()
            guard types.indices.contains(Int(index)) else { throw self.error("a union has no type \(index)") }
            return try self.value(types[Int(index)], depth: depth)
        case .array(let items):
            var elements: [JSON] = []
            while let count = try self.block(items, keyed: false) {
                for _ in 0..<count { elements.append(try self.value(items, depth: depth + 1)) }
            }
            return .array(elements)
        case .map(let values):
            var members: [JSONObject.Member] = []
            while let count = try self.block(values, keyed: true) {
                for _ in 0..<count {
                    members.append(.init(name: try self.text(), value: try self.value(values, depth: depth + 1)))
                }
            }
            return .object(try self.object(members))
        case .record(let fields):
            var members: [JSONObject.Member] = []
            members.reserveCapacity(fields.count)
            for field in fields {
                members.append(.init(name: field.name, value: try self.value(field.type, depth: depth + 1)))
            }
            let object = try self.object(members)
            guard let meaning = node.meaning else { return .object(object) }
            guard let json = meaning.json(of: object) else { throw self.error("a record is not of its meaning") }
            return json
        }
    }

    private func object(_ members: [JSONObject.Member]) throws(AvroError) -> JSONObject {
        var duplicate: String?
        let object = JSONObject(unsorted: members, duplicate: &duplicate)
        if duplicate != nil { throw self.error("a map has a name twice") }
        return object
    }

    /// - Returns: the number of items of the next block; nil at the end.
    private mutating func block(_ items: Int, keyed: Bool) throws(AvroError) -> Int? {
        var count = try self.long()
        if count == 0 { return nil }
        if count < 0 {
            guard count > .min, try self.long() >= 0 else { throw self.error("a block has a negative size") }
            count = -count
        }
        guard keyed || self.schema.nodes[items].hasBytes else { throw self.error("items without bytes are refused") }
        guard count <= self.bytes.count - self.position else {
            throw self.error("a block of \(count) items is longer than the value")
        }
        return Int(count)
    }

    private func binary(_ bytes: [UInt8], _ meaning: LogicalType?) throws(AvroError) -> JSON {
        switch meaning {
        case nil: return .string(Data(bytes).base64EncodedString())
        case .bigDecimal?:
            // Two values in the encoding of Avro: the bytes of a decimal, and its scale.
            var inner = AvroDecoder(schema: self.schema, bytes: bytes, position: 0)
            let unscaled = Array(try inner.take(try inner.length()))
            let scale = try inner.long()
            guard inner.position == bytes.count, let digits = LogicalType.digits(of: unscaled, scale: Int(scale)) else {
                throw self.decimalError
            }
            return .string(digits)
        case let meaning?:
            guard let json = meaning.json(of: bytes) else { throw self.decimalError }
            return json
        }
    }

    private var decimalError: AvroError { self.error("a decimal has no bytes, more than 64, or more than 128 places") }

    private func double(_ number: Double, isFloat: Bool) throws(AvroError) -> JSON {
        guard number.isFinite else { throw self.error("a number is not finite") }
        let text = isFloat ? "\(Float(number))" : "\(number)"
        guard let json = try? JSON(parsing: Array(text.utf8)) else { throw self.error("a number has no text") }
        return json
    }

    // MARK: bytes

    private mutating func byte() throws(AvroError) -> UInt8 {
        guard self.position < self.bytes.count else { throw self.error("the value ends early") }
        defer { self.position += 1 }
        return self.bytes[self.position]
    }

    private mutating func take(_ count: Int) throws(AvroError) -> ArraySlice<UInt8> {
        guard count <= self.bytes.count - self.position else { throw self.error("the value ends early") }
        defer { self.position += count }
        return self.bytes[self.position..<self.position + count]
    }

    private mutating func littleEndian(_ count: Int) throws(AvroError) -> UInt64 {
        var number: UInt64 = 0
        for (index, byte) in try self.take(count).enumerated() { number |= UInt64(byte) << UInt64(8 * index) }
        return number
    }

    /// Reads a number of variable length in zigzag encoding.
    private mutating func long() throws(AvroError) -> Int64 {
        var number: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 70, by: 7) {
            let byte = try self.byte()
            guard shift < 63 || byte <= 1 else { throw self.error("a number has more than 64 bits") }
            number |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return Int64(bitPattern: number >> 1) ^ -Int64(bitPattern: number & 1) }
        }
        throw self.error("a number has more than 64 bits")
    }

    private mutating func length() throws(AvroError) -> Int {
        let length = try self.long()
        guard length >= 0, length <= Int64(self.bytes.count) else { throw self.error("a length is out of range") }
        return Int(length)
    }

    private mutating func text() throws(AvroError) -> String {
        let bytes = try self.take(try self.length())
        guard let text = String(validating: bytes, as: UTF8.self) else { throw self.error("a text is not UTF-8") }
        return text
    }
}
