/// Finds the members of objects in JSON text without making values of them.
///
/// For text that `JSONObject.serialized` wrote: without white space, names sorted and without escapes. Only the end of
/// a value is found, so the caller needs another proof that the text is the right one.
/// The text itself is passed from call to call, since a span cannot be stored.
struct JSONScanner {
    /// The positions of a member's name, without its quotes, and of its value.
    struct Member: Sendable {
        let name: Range<Int>
        let value: Range<Int>
    }

    private var position: Int
    /// The positions of fractions of seconds in strings that look like date-times, in the order of the text.
    private(set) var fractions: [Range<Int>] = []

    init(at position: Int = 0) { self.position = position }

    /// Returns the members of the object that begins here; nil if `serialized` would not write it like this.
    mutating func members(_ bytes: Span<UInt8>) -> [Member]? {
        guard self.take(UInt8(ascii: "{"), bytes) else { return nil }
        var members: [Member] = []
        members.reserveCapacity(16)
        if self.take(UInt8(ascii: "}"), bytes) { return members }
        repeat {
            guard let name = self.string(bytes), Self.isPlain(name, bytes), self.take(UInt8(ascii: ":"), bytes) else {
                return nil
            }
            if let last = members.last, !Self.precedes(bytes, last.name, name) { return nil }
            guard let value = self.value(bytes) else { return nil }
            members.append(Member(name: name, value: value))
        } while self.take(UInt8(ascii: ","), bytes)
        return self.take(UInt8(ascii: "}"), bytes) ? members : nil
    }

    private mutating func take(_ byte: UInt8, _ bytes: Span<UInt8>) -> Bool {
        guard self.position < bytes.count, bytes[self.position] == byte else { return false }
        self.position += 1
        return true
    }

    /// Returns true for a name in ASCII without escapes, whose bytes sort as the name does.
    private static func isPlain(_ name: Range<Int>, _ bytes: Span<UInt8>) -> Bool {
        for index in name where bytes[index] >= 0x80 || bytes[index] == UInt8(ascii: "\\") { return false }
        return true
    }

    private static func precedes(_ bytes: Span<UInt8>, _ left: Range<Int>, _ right: Range<Int>) -> Bool {
        for offset in 0..<min(left.count, right.count) {
            let (first, second) = (bytes[left.lowerBound + offset], bytes[right.lowerBound + offset])
            if first != second { return first < second }
        }
        return left.count < right.count
    }

    /// Returns the position of the value that begins here, nil if it has no end.
    private mutating func value(_ bytes: Span<UInt8>) -> Range<Int>? {
        let start = self.position
        var depth = 0
        while self.position < bytes.count {
            switch bytes[self.position] {
            case UInt8(ascii: "\""):
                guard let text = self.string(bytes) else { return nil }
                self.noteFraction(text, bytes)
                if depth == 0 { return start..<self.position }
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                self.position += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                if depth == 0 { return start < self.position ? start..<self.position : nil }
                depth -= 1
                self.position += 1
                if depth == 0 { return start..<self.position }
            case UInt8(ascii: ","):
                if depth == 0 { return start < self.position ? start..<self.position : nil }
                self.position += 1
            default: self.position += 1
            }
        }
        return nil
    }

    /// Returns the position of the text between the quotes of the string that begins here, nil if it has no end.
    private mutating func string(_ bytes: Span<UInt8>) -> Range<Int>? {
        guard self.take(UInt8(ascii: "\""), bytes) else { return nil }
        let raw = unsafe bytes.bytes
        let start = self.position
        var index = start
        while index < bytes.count {
            if index + 8 <= bytes.count {
                let word = EightBytes(unsafe raw.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self))
                let found = word.equal(UInt8(ascii: "\"")) | word.equal(UInt8(ascii: "\\"))
                guard found != 0 else {
                    index += 8
                    continue
                }
                index += found.trailingZeroBitCount / 8
            }
            switch bytes[index] {
            case UInt8(ascii: "\""):
                self.position = index + 1
                return start..<index
            case UInt8(ascii: "\\"): index += 2
            default: index += 1
            }
        }
        return nil
    }

    /// Source: RFC 3339 §5.6: the fraction follows `YYYY-MM-DDThh:mm:ss`.
    private mutating func noteFraction(_ text: Range<Int>, _ bytes: Span<UInt8>) {
        guard text.count > 20, text.count < 64, bytes[text.lowerBound + 19] == UInt8(ascii: "."),
            bytes[text.lowerBound + 4] == UInt8(ascii: "-"), bytes[text.lowerBound + 13] == UInt8(ascii: ":")
        else { return }
        let start = text.lowerBound + 19
        var end = start + 1
        while end < text.upperBound, bytes[end] &- UInt8(ascii: "0") < 10 { end += 1 }
        self.fractions.append(start..<end)
    }
}
