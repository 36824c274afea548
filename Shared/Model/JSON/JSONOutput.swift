/// JSON text that is being written.
///
/// Owner of its memory. The only unsafe code of the model: everything that Waybill stores and signs passes through
/// here, and appending to an array byte by byte takes four times as long. Every write reserves its space first.
@safe
struct JSONOutput: ~Copyable {
    private var start: UnsafeMutablePointer<UInt8>
    private var capacity: Int
    private var count = 0

    init(capacity: Int) {
        self.capacity = max(capacity, 64)
        unsafe self.start = .allocate(capacity: self.capacity)
    }

    deinit { unsafe self.start.deallocate() }

    /// The bytes that were written.
    var bytes: [UInt8] { unsafe [UInt8](UnsafeBufferPointer(start: self.start, count: self.count)) }

    /// Appends one byte of punctuation.
    @inline(__always)
    mutating func append(_ byte: UInt8) {
        self.reserve(1)
        unsafe self.start[self.count] = byte
        self.count += 1
    }

    /// Appends text that is already JSON: a word, a number.
    mutating func append(text: String) { self.append(json: text.utf8.span) }

    /// Appends bytes that are already JSON.
    mutating func append(json bytes: Span<UInt8>) {
        self.reserve(bytes.count)
        unsafe bytes.withUnsafeBufferPointer { unsafe self.copy($0) }
    }

    /// Appends a string in quotes.
    ///
    /// Source: RFC 8259 §7: quotation mark, reverse solidus and the control characters must be escaped.
    mutating func append(quoted text: String) {
        let text = text.utf8.span
        // An escape has at most six bytes.
        self.reserve(6 * text.count + 2)
        self.append(UInt8(ascii: "\""))
        if Self.needsEscapes(text) {
            for index in text.indices { self.append(escaped: text[index]) }
        } else {
            unsafe text.withUnsafeBufferPointer { unsafe self.copy($0) }
        }
        self.append(UInt8(ascii: "\""))
    }

    private mutating func append(escaped byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""): self.append(text: "\\\"")
        case UInt8(ascii: "\\"): self.append(text: "\\\\")
        case 0x0A: self.append(text: "\\n")
        case 0x0D: self.append(text: "\\r")
        case 0x09: self.append(text: "\\t")
        case 0..<0x20:
            let digits = String(byte, radix: 16)
            self.append(text: "\\u00\(digits.count == 1 ? "0" : "")\(digits)")
        default: self.append(byte)
        }
    }

    private static func needsEscapes(_ text: Span<UInt8>) -> Bool {
        let bytes = unsafe text.bytes
        var index = 0
        while index + 8 <= text.count {
            let word = EightBytes(unsafe bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self))
            if word.below(0x20) | word.equal(UInt8(ascii: "\"")) | word.equal(UInt8(ascii: "\\")) != 0 { return true }
            index += 8
        }
        while index < text.count {
            let byte = text[index]
            if byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { return true }
            index += 1
        }
        return false
    }

    /// Appends bytes for which the caller has reserved space.
    @inline(__always)
    private mutating func copy(_ bytes: UnsafeBufferPointer<UInt8>) {
        if let source = bytes.baseAddress { unsafe (self.start + self.count).update(from: source, count: bytes.count) }
        self.count += bytes.count
    }

    @inline(__always)
    private mutating func reserve(_ more: Int) {
        if self.capacity - self.count < more { self.grow(more) }
    }

    private mutating func grow(_ more: Int) {
        let capacity = max(self.capacity * 2, self.count + more)
        let start = UnsafeMutablePointer<UInt8>.allocate(capacity: capacity)
        unsafe start.update(from: self.start, count: self.count)
        unsafe self.start.deallocate()
        unsafe self.start = start
        self.capacity = capacity
    }
}

extension JSON {
    /// The value as UTF-8, without white space, members sorted by name: equal values give equal bytes.
    public var serialized: [UInt8] {
        var output = JSONOutput(capacity: 1024)
        self.write(to: &output)
        return output.bytes
    }

    /// The value as text, for messages and logs.
    public var text: String { String(decoding: self.serialized, as: UTF8.self) }

    /// Appends the value.
    func write(to output: inout JSONOutput) {
        switch self {
        case .null: output.append(text: "null")
        case .bool(let value): output.append(text: value ? "true" : "false")
        case .number(let value): output.append(text: value.text)
        case .string(let value): output.append(quoted: value)
        case .array(let elements):
            // A span lends its elements, whereas iterating over an array would take a reference to each of them.
            let elements = elements.span
            output.append(UInt8(ascii: "["))
            for index in elements.indices {
                if index > 0 { output.append(UInt8(ascii: ",")) }
                elements[index].write(to: &output)
            }
            output.append(UInt8(ascii: "]"))
        case .object(let object): object.write(to: &output)
        }
    }
}

extension JSONObject {
    /// As `JSON.serialized`.
    public var serialized: [UInt8] {
        var output = JSONOutput(capacity: 8192)
        self.write(to: &output)
        return output.bytes
    }

    /// Appends the object.
    func write(to output: inout JSONOutput) {
        output.append(UInt8(ascii: "{"))
        self.writeMembers(to: &output)
        output.append(UInt8(ascii: "}"))
    }

    /// Appends the members with commas between them.
    func writeMembers(to output: inout JSONOutput) {
        let members = self.members.span
        for index in members.indices {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            output.append(quoted: members[index].name)
            output.append(UInt8(ascii: ":"))
            members[index].value.write(to: &output)
        }
    }
}

extension String {
    /// Returns true if both are the same UTF-8; `==` also treats canonically equivalent characters as equal.
    func hasSameBytes(as other: String) -> Bool { self.byteOrder(to: other) == 0 }

    /// Returns a number below zero if this text sorts before another one by the bytes of UTF-8, zero for the same
    /// bytes, else one above zero.
    fileprivate func byteOrder(to other: String) -> Int {
        let left = self.utf8.span
        let right = other.utf8.span
        for index in 0..<min(left.count, right.count) where left[index] != right[index] {
            return Int(left[index]) - Int(right[index])
        }
        return left.count - right.count
    }
}

/// A text that is compared by its bytes, as a key: two systems that write `é` in different ways mean different names.
struct ByteText: Hashable, Comparable, Sendable {
    let text: String
    /// The first eight bytes as a number, with zeros after the end: most texts differ there.
    private let head: UInt64

    init(_ text: String) {
        self.text = text
        self.head = Self.head(of: text.utf8.span)
    }

    private static func head(of bytes: Span<UInt8>) -> UInt64 {
        if bytes.count >= 8 { return UInt64(bigEndian: unsafe bytes.bytes.unsafeLoadUnaligned(as: UInt64.self)) }
        var head: UInt64 = 0
        for index in bytes.indices { head |= UInt64(bytes[index]) &<< UInt64(56 - 8 * index) }
        return head
    }

    /// Returns a number below zero if this text sorts before another one, zero for the same bytes, else one above zero.
    @inline(__always)
    func order(to other: ByteText) -> Int {
        if self.head != other.head { return self.head < other.head ? -1 : 1 }
        return self.text.byteOrder(to: other.text)
    }

    static func < (left: ByteText, right: ByteText) -> Bool { left.order(to: right) < 0 }

    static func == (left: ByteText, right: ByteText) -> Bool { left.order(to: right) == 0 }

    /// The same bytes have the same hash. That of a string is the same for all ways to write its characters: of names
    /// that differ in this alone, each would be compared with all.
    func hash(into hasher: inout Hasher) {
        let bytes = self.text.utf8.span
        unsafe bytes.withUnsafeBufferPointer { unsafe hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
