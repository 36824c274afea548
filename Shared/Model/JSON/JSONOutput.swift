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
