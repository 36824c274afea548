/// The reason why bytes are not JSON, and the position of the error.
public struct JSONError: Error, Hashable, Sendable, CustomStringConvertible {
    public enum Code: Hashable, Sendable { case syntax, invalidUTF8, duplicateName, tooDeep, tooManyEntries }
    public let code: Code
    public let message: String
    /// The position at which it was noticed, in bytes from the start.
    public let offset: Int

    public var description: String { "\(self.message) (at byte \(self.offset))" }
}

extension JSON {
    /// The depth to which arrays and objects may nest. An order document needs six levels.
    public static let depthLimit = 32

    /// The most entries of a text from outside, which are its values, those inside others as well.
    ///
    /// An entry may take a hundred bytes of memory for two of text: with this limit, a text of 1 MiB takes at most 24
    /// times as much. An order has one entry for each 10 to 30 bytes.
    public static let entryLimit = 1 << 17

    /// Parses one JSON text.
    ///
    /// Stricter than most parsers where leniency hides mistakes: a name that occurs twice in an object is refused, and
    /// so are lone surrogates and anything after the value.
    /// - Parameters:
    ///   - bytes: UTF-8 without byte order mark.
    ///   - entries: the most entries; for what Waybill itself wrote there is no limit.
    ///   - depth: the depth to which arrays and objects may nest.
    /// - Throws: `JSONError` with the byte offset.
    public init(
        parsing bytes: [UInt8], entries: Int = JSON.entryLimit, depth: Int = JSON.depthLimit
    ) throws(JSONError) {
        var parser = JSONParser(entries: entries)
        parser.depthLimit = depth
        self = try parser.document(bytes.span)
    }

    /// Parses one JSON text of another system.
    ///
    /// - Parameter foreign: says what is taken; counts what was mended, unless an error is thrown.
    /// - Throws: `JSONError` with the byte offset.
    public init(parsing bytes: [UInt8], mending foreign: inout ForeignJSON) throws(JSONError) {
        var parser = JSONParser(entries: JSON.entryLimit)
        parser.foreign = foreign
        self = try parser.document(bytes.span)
        foreign = parser.foreign ?? foreign
    }

    /// Parses an object that Waybill itself wrote, and finds the text of one of its members.
    ///
    /// - Parameter place: the position of the text; unchanged if there is no such member.
    init(parsing bytes: [UInt8], textOf name: String, at place: inout Range<Int>) throws(JSONError) {
        var parser = JSONParser(entries: .max)
        parser.wanted = name
        self = try parser.document(bytes.span)
        place = parser.found ?? place
    }
}

/// The position in a text. The text itself is passed from call to call, since a span cannot be stored.
private struct JSONParser {
    var position = 0
    /// The most entries.
    let entries: Int
    /// The entries so far.
    var count = 0
    /// The member of the outermost object whose text is to be found.
    var wanted: String?
    /// Nil for a text that must be free of faults.
    var foreign: ForeignJSON?
    var depthLimit = JSON.depthLimit
    var found: Range<Int>?

    mutating func document(_ bytes: Span<UInt8>) throws(JSONError) -> JSON {
        let value = try self.value(bytes, depth: 0)
        self.skipSpace(bytes)
        guard self.position == bytes.count else { throw self.error("unexpected text after the JSON value") }
        return value
    }

    private func error(_ message: String, _ code: JSONError.Code = .syntax, at offset: Int? = nil) -> JSONError {
        JSONError(code: code, message: message, offset: offset ?? self.position)
    }

    @inline(__always)
    private func current(_ bytes: Span<UInt8>) -> UInt8? {
        self.position < bytes.count ? bytes[self.position] : nil
    }

    private mutating func skipSpace(_ bytes: Span<UInt8>) {
        while let byte = self.current(bytes), byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 {
            self.position += 1
        }
    }

    private mutating func value(_ bytes: Span<UInt8>, depth: Int) throws(JSONError) -> JSON {
        guard depth <= self.depthLimit else {
            throw self.error("nested deeper than \(self.depthLimit) levels", .tooDeep)
        }
        self.count &+= 1
        guard self.count <= self.entries else {
            throw self.error("more than \(self.entries) values in one JSON text", .tooManyEntries)
        }
        self.skipSpace(bytes)
        guard let byte = self.current(bytes) else { throw self.error("the JSON text ends where a value is expected") }
        switch byte {
        case UInt8(ascii: "\""): return .string(try self.string(bytes))
        case UInt8(ascii: "{"): return .object(try self.object(bytes, depth: depth))
        case UInt8(ascii: "["): return .array(try self.array(bytes, depth: depth))
        case UInt8(ascii: "t"): return try self.word(bytes, "true", .bool(true))
        case UInt8(ascii: "f"): return try self.word(bytes, "false", .bool(false))
        case UInt8(ascii: "n"): return try self.word(bytes, "null", .null)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number(try self.number(bytes))
        default: throw self.error("a JSON value cannot start with \(Self.show(byte))")
        }
    }

    private static func show(_ byte: UInt8) -> String {
        (0x21...0x7E).contains(byte)
            ? "'\(Character(UnicodeScalar(byte)))'" : "byte 0x\(String(byte, radix: 16, uppercase: true))"
    }

    private mutating func word(_ bytes: Span<UInt8>, _ word: String, _ value: JSON) throws(JSONError) -> JSON {
        let expected = word.utf8.span
        for index in expected.indices {
            guard self.position + index < bytes.count, bytes[self.position + index] == expected[index] else {
                throw self.error("not a JSON value, \(word) was expected")
            }
        }
        self.position += expected.count
        return value
    }

    private mutating func object(_ bytes: Span<UInt8>, depth: Int) throws(JSONError) -> JSONObject {
        let start = self.position
        self.position += 1
        var members: [JSONObject.Member] = []
        self.skipSpace(bytes)
        if self.current(bytes) == UInt8(ascii: "}") {
            self.position += 1
            return JSONObject()
        }
        while true {
            self.skipSpace(bytes)
            guard self.current(bytes) == UInt8(ascii: "\"") else {
                throw self.error("a member name in quotes is expected")
            }
            let name = try self.string(bytes)
            self.skipSpace(bytes)
            guard self.current(bytes) == UInt8(ascii: ":") else {
                throw self.error("':' is expected after \"\(clipped(name))\"")
            }
            self.position += 1
            let begin = self.position
            let member = JSONObject.Member(name: name, value: try self.value(bytes, depth: depth + 1))
            if depth == 0, name == self.wanted { self.found = begin..<self.position }
            self.skipSpace(bytes)
            switch self.current(bytes) {
            case UInt8(ascii: ","):
                self.position += 1
                // Not for an only member: that would be ten times the memory.
                if members.isEmpty { members.reserveCapacity(8) }
                members.append(member)
            case UInt8(ascii: "}"):
                self.position += 1
                members.append(member)
                var duplicate: String?
                var object = JSONObject(unsorted: consume members, duplicate: &duplicate)
                if duplicate != nil, self.foreign != nil { duplicate = self.foreign?.mend(&object) }
                if let duplicate {
                    let place = try self.second(duplicate, bytes, from: start, depth: depth)
                    throw self.error(
                        "member \"\(clipped(duplicate))\" occurs twice in one object", .duplicateName, at: place)
                }
                return object
            default: throw self.error("',' or '}' is expected in an object")
            }
        }
    }

    /// Returns the position of a name's second occurrence in an object that was read before.
    private mutating func second(
        _ wanted: String, _ bytes: Span<UInt8>, from start: Int, depth: Int
    ) throws(JSONError) -> Int {
        self.position = start
        self.count = 0
        var count = 0
        while self.current(bytes) != UInt8(ascii: "}") {
            // After the brace or the comma.
            self.position += 1
            self.skipSpace(bytes)
            let place = self.position
            if try self.string(bytes).utf8.elementsEqual(wanted.utf8) { count += 1 }
            if count == 2 { return place }
            self.skipSpace(bytes)
            self.position += 1
            _ = try self.value(bytes, depth: depth + 1)
            self.skipSpace(bytes)
        }
        return start
    }

    private mutating func array(_ bytes: Span<UInt8>, depth: Int) throws(JSONError) -> [JSON] {
        self.position += 1
        var elements: [JSON] = []
        self.skipSpace(bytes)
        if self.current(bytes) == UInt8(ascii: "]") {
            self.position += 1
            return []
        }
        while true {
            elements.append(try self.value(bytes, depth: depth + 1))
            self.skipSpace(bytes)
            switch self.current(bytes) {
            case UInt8(ascii: ","): self.position += 1
            case UInt8(ascii: "]"):
                self.position += 1
                return elements
            default: throw self.error("',' or ']' is expected in an array")
            }
        }
    }

    /// Source: RFC 8259 §6
    private mutating func number(_ bytes: Span<UInt8>) throws(JSONError) -> JSONNumber {
        let start = self.position
        if self.current(bytes) == UInt8(ascii: "-") { self.position += 1 }
        if self.current(bytes) == UInt8(ascii: "0") {
            self.position += 1
            if let byte = self.current(bytes), (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) {
                throw self.error("a number must not start with 0")
            }
        } else {
            try self.digits(bytes)
        }
        if self.current(bytes) == UInt8(ascii: ".") {
            self.position += 1
            try self.digits(bytes)
        }
        if self.current(bytes) == UInt8(ascii: "e") || self.current(bytes) == UInt8(ascii: "E") {
            self.position += 1
            if self.current(bytes) == UInt8(ascii: "+") || self.current(bytes) == UInt8(ascii: "-") {
                self.position += 1
            }
            try self.digits(bytes)
        }
        return JSONNumber(checked: try self.text(bytes, start..<self.position, isASCII: true))
    }

    private mutating func digits(_ bytes: Span<UInt8>) throws(JSONError) {
        let start = self.position
        while let byte = self.current(bytes), (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) {
            self.position += 1
        }
        guard self.position > start else { throw self.error("a digit is expected in the number") }
    }

    private mutating func string(_ bytes: Span<UInt8>) throws(JSONError) -> String {
        let open = self.position
        let start = open + 1
        var end = start
        // The bits of all bytes of the string.
        var bits: UInt64 = 0
        let raw = unsafe bytes.bytes
        while end + 8 <= bytes.count {
            let word = EightBytes(unsafe raw.unsafeLoadUnaligned(fromByteOffset: end, as: UInt64.self))
            let found = word.equal(UInt8(ascii: "\"")) | word.equal(UInt8(ascii: "\\")) | word.below(0x20)
            guard found == 0 else {
                let count = found.trailingZeroBitCount / 8
                bits |= word.first(count)
                end += count
                break
            }
            bits |= word.first(8)
            end += 8
        }
        while end < bytes.count, bytes[end] != UInt8(ascii: "\""), bytes[end] != UInt8(ascii: "\\"), bytes[end] >= 0x20
        {
            bits |= UInt64(bytes[end])
            end += 1
        }
        self.position = end
        guard end < bytes.count else { throw self.error("the string that starts here is not closed", at: open) }
        guard bytes[end] != UInt8(ascii: "\\") else { return try self.escapedString(bytes, from: start) }
        guard bytes[end] >= 0x20 else { throw self.error("a control character in a string must be escaped") }
        self.position = end + 1
        return try self.text(bytes, start..<end, isASCII: bits & EightBytes.tops == 0)
    }

    private func text(_ bytes: Span<UInt8>, _ range: Range<Int>, isASCII: Bool = false) throws(JSONError) -> String {
        if isASCII { return unsafe String(copying: UTF8Span(unchecked: bytes.extracting(range), isKnownASCII: true)) }
        do {
            return String(copying: try UTF8Span(validating: bytes.extracting(range)))
        } catch {
            throw self.error("a string is not valid UTF-8", .invalidUTF8, at: range.lowerBound)
        }
    }

    /// Reads the rest of a string that has escapes.
    private mutating func escapedString(_ bytes: Span<UInt8>, from start: Int) throws(JSONError) -> String {
        var text = try self.text(bytes, start..<self.position)
        var plain = self.position
        while let byte = self.current(bytes) {
            switch byte {
            case UInt8(ascii: "\""):
                text += try self.text(bytes, plain..<self.position)
                self.position += 1
                return text
            case UInt8(ascii: "\\"):
                text += try self.text(bytes, plain..<self.position)
                self.position += 1
                text.unicodeScalars.append(try self.escape(bytes))
                plain = self.position
            case 0..<0x20: throw self.error("a control character in a string must be escaped")
            default: self.position += 1
            }
        }
        throw self.error("the string is not closed", at: start - 1)
    }

    /// Source: RFC 8259 §7
    private mutating func escape(_ bytes: Span<UInt8>) throws(JSONError) -> Unicode.Scalar {
        guard let byte = self.current(bytes) else { throw self.error("the JSON text ends inside an escape") }
        self.position += 1
        switch byte {
        case UInt8(ascii: "\""): return "\""
        case UInt8(ascii: "\\"): return "\\"
        case UInt8(ascii: "/"): return "/"
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"): return try self.unicodeEscape(bytes)
        default: throw self.error("\\\(Self.show(byte)) is not an escape")
        }
    }

    private mutating func unicodeEscape(_ bytes: Span<UInt8>) throws(JSONError) -> Unicode.Scalar {
        let start = self.position - 2
        let first = try self.hexUnit(bytes)
        if let scalar = Unicode.Scalar(first) { return scalar }
        let end = self.position
        if (0xD800..<0xDC00).contains(first), self.current(bytes) == UInt8(ascii: "\\") {
            self.position += 1
            if self.current(bytes) == UInt8(ascii: "u") {
                self.position += 1
                let second = try self.hexUnit(bytes)
                if (0xDC00..<0xE000).contains(second),
                    let scalar = Unicode.Scalar(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))
                {
                    return scalar
                }
            }
        }
        guard self.foreign != nil else { throw self.error("a lone surrogate is not a character", at: start) }
        self.foreign?.loneSurrogates += 1
        // An escape that follows is read by itself.
        self.position = end
        return "\u{FFFD}"
    }

    private mutating func hexUnit(_ bytes: Span<UInt8>) throws(JSONError) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = self.current(bytes), let digit = Character(UnicodeScalar(byte)).hexDigitValue else {
                throw self.error("four hexadecimal digits are expected after \\u")
            }
            value = value << 4 | UInt32(digit)
            self.position += 1
        }
        return value
    }
}

/// Eight bytes of a text, compared together.
///
/// Results have the top bit of each byte that matches, and none if no byte does. Above the lowest match further bits
/// may be set, so `trailingZeroBitCount / 8` of a result is the index of the first match.
struct EightBytes {
    private static let ones: UInt64 = 0x0101_0101_0101_0101
    /// The top bits of eight bytes.
    static let tops: UInt64 = 0x8080_8080_8080_8080
    private let word: UInt64

    /// - Parameter loaded: the bytes as they are in memory.
    @inline(__always)
    init(_ loaded: UInt64) { self.word = UInt64(littleEndian: loaded) }

    /// Returns the bytes that equal this one.
    @inline(__always)
    func equal(_ byte: UInt8) -> UInt64 {
        let difference = self.word ^ (Self.ones &* UInt64(byte))
        return (difference &- Self.ones) & ~difference & Self.tops
    }

    /// Returns the first bytes, with zeros for the others.
    @inline(__always)
    func first(_ count: Int) -> UInt64 { count == 8 ? self.word : self.word & (1 &<< UInt64(8 * count) &- 1) }

    /// Returns the bytes that are less than this one, which is at most 0x80.
    @inline(__always)
    func below(_ byte: UInt8) -> UInt64 {
        (self.word &- Self.ones &* UInt64(byte)) & ~self.word & Self.tops
    }
}
