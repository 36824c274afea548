import FoundationEssentials
import Model

/// Reads a value of Avro's binary encoding as JSON text.
///
/// A logical type has its form as text, bytes are base64; a number that is not finite is refused. Bounded: depth by
/// `AvroSchema.depthLimit`, values by the bytes (an item of a list has at least one), and the text by `textLimit`: each
/// record has the names of its schema.
/// Source: Apache Avro 1.12 specification, "Binary Encoding", "Logical Types"
struct AvroDecoder {
    /// The most values, which the fields of empty records count towards.
    private static let valueLimit = JSON.entryLimit
    /// The most bytes of the text.
    private static let textLimit = 16 << 20

    private let schema: AvroSchema
    private let bytes: [UInt8]
    private var position: Int
    private var values = 0
    private var text: [UInt8] = []

    /// Reads a text that `text` made.
    ///
    /// - Throws: `AvroError`
    static func json(of text: [UInt8]) throws(AvroError) -> JSON {
        do { return try JSON(parsing: text, entries: .max, depth: AvroSchema.depthLimit + 1) } catch {
            throw AvroError(error.code == .duplicateName ? "a map has a name twice" : "the value has no text: \(error)")
        }
    }

    /// Returns all bytes from a position on as JSON text. A map that has a name twice has it twice in the text.
    ///
    /// - Throws: `AvroError` with the byte's number.
    static func text(
        of bytes: [UInt8], from position: Int = 0, _ schema: AvroSchema
    ) throws(AvroError) -> [UInt8] {
        var decoder = AvroDecoder(schema: schema, bytes: bytes, position: position)
        decoder.text.reserveCapacity(3 * bytes.count)
        try decoder.value(schema.root, depth: 0)
        guard decoder.position == bytes.count else {
            throw AvroError("\(bytes.count - decoder.position) bytes follow the value: the schema is another one")
        }
        return decoder.text
    }

    private init(schema: AvroSchema, bytes: [UInt8], position: Int) {
        self.schema = schema
        self.bytes = bytes
        self.position = position
    }

    private func error(_ problem: String) -> AvroError { AvroError("\(problem) (at byte \(self.position))") }

    private mutating func value(_ type: Int, depth: Int) throws(AvroError) {
        self.values += 1
        guard depth <= AvroSchema.depthLimit else { throw self.error("nested too deeply") }
        guard self.values <= Self.valueLimit else { throw self.error("too many values") }
        guard self.text.count <= Self.textLimit else { throw self.error("the value is too large as JSON") }
        let meaning = self.schema.nodes[type].meaning
        switch self.schema.nodes[type].kind {
        case .null: self.text.append(contentsOf: "null".utf8)
        case .boolean:
            switch try self.byte() {
            case 0: self.text.append(contentsOf: "false".utf8)
            case 1: self.text.append(contentsOf: "true".utf8)
            default: throw self.error("a boolean is 0 or 1")
            }
        case .int:
            let number = try self.long()
            guard Int32(exactly: number) != nil else { throw self.error("an int has 32 bits") }
            self.write(meaning?.json(of: number) ?? .integer(number))
        case .long:
            let number = try self.long()
            self.write(meaning?.json(of: number) ?? .integer(number))
        case .float: try self.double(Double(Float(bitPattern: UInt32(try self.littleEndian(4)))), isFloat: true)
        case .double: try self.double(Double(bitPattern: try self.littleEndian(8)), isFloat: false)
        case .bytes: self.write(try self.binary(Array(try self.take(try self.length())), meaning))
        case .fixed(let size): self.write(try self.binary(Array(try self.take(size)), meaning))
        case .string:
            let text = try self.string()
            self.write(quoted: meaning == .isoDate && text.last == UInt8(ascii: "Z") ? text.dropLast() : text)
        case .symbols(let symbols):
            let index = try self.long()
            guard symbols.indices.contains(Int(index)) else { throw self.error("there is no symbol \(index)") }
            self.write(quoted: Array(symbols[Int(index)].utf8)[...])
        case .union(let types):
            let index = try self.long()
            guard types.indices.contains(Int(index)) else { throw self.error("a union has no type \(index)") }
            try self.value(types[Int(index)], depth: depth)
        case .array(let items):
            self.text.append(UInt8(ascii: "["))
            var isFirst = true
            while let count = try self.block(items, keyed: false) {
                for _ in 0..<count {
                    if !isFirst { self.text.append(UInt8(ascii: ",")) }
                    isFirst = false
                    try self.value(items, depth: depth + 1)
                }
            }
            self.text.append(UInt8(ascii: "]"))
        case .map(let values):
            self.text.append(UInt8(ascii: "{"))
            var isFirst = true
            while let count = try self.block(values, keyed: true) {
                for _ in 0..<count {
                    if !isFirst { self.text.append(UInt8(ascii: ",")) }
                    isFirst = false
                    self.write(quoted: try self.string())
                    self.text.append(UInt8(ascii: ":"))
                    try self.value(values, depth: depth + 1)
                }
            }
            self.text.append(UInt8(ascii: "}"))
        case .record(let fields):
            let start = self.text.count
            self.text.append(UInt8(ascii: "{"))
            for (index, field) in fields.enumerated() {
                if index > 0 { self.text.append(UInt8(ascii: ",")) }
                self.text.append(contentsOf: field.quoted)
                try self.value(field.type, depth: depth + 1)
            }
            self.text.append(UInt8(ascii: "}"))
            guard let meaning else { return }
            let object = (try? JSON(parsing: Array(self.text[start...]), entries: .max))?.object
            guard let json = object.flatMap({ meaning.json(of: $0) }) else {
                throw self.error("a record is not of its meaning")
            }
            self.text.removeSubrange(start...)
            self.write(json)
        }
    }

    private mutating func write(_ json: JSON) { self.text.append(contentsOf: json.serialized) }

    /// - Parameter bytes: UTF-8.
    private mutating func write(quoted bytes: ArraySlice<UInt8>) {
        guard !bytes.contains(where: { $0 < 0x20 || $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\\") }) else {
            return self.write(.string(String(decoding: bytes, as: UTF8.self)))
        }
        self.text.append(UInt8(ascii: "\""))
        self.text.append(contentsOf: bytes)
        self.text.append(UInt8(ascii: "\""))
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

    private mutating func double(_ number: Double, isFloat: Bool) throws(AvroError) {
        guard number.isFinite else { throw self.error("a number is not finite") }
        self.text.append(contentsOf: (isFloat ? "\(Float(number))" : "\(number)").utf8)
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

    private mutating func string() throws(AvroError) -> ArraySlice<UInt8> {
        let bytes = try self.take(try self.length())
        guard (try? UTF8Span(validating: bytes.span)) != nil else { throw self.error("a text is not UTF-8") }
        return bytes
    }
}
