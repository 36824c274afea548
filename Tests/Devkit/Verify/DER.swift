import Model

/// One value of a DER encoding. Source: ITU-T X.690 §8, §10
struct DER: Sendable {
    let tag: UInt8
    let content: ArraySlice<UInt8>
    /// Tag, length and content.
    let whole: ArraySlice<UInt8>

    /// Parses one value at the front of `bytes` and removes it.
    init(takingFrom bytes: inout ArraySlice<UInt8>) throws(ToolError) {
        let start = bytes.startIndex
        guard bytes.count >= 2 else { throw Self.fault("the data ends in a header") }
        self.tag = bytes[start]
        // Numbers above 30 take several bytes; nothing in a CMS signature uses one.
        guard self.tag & 0x1F != 0x1F else { throw Self.fault("a tag of several bytes") }
        var contentStart = start + 2
        var length = Int(bytes[start + 1])
        if length >= 0x80 {
            let count = length & 0x7F
            guard (1...4).contains(count), bytes.count >= 2 + count else {
                throw Self.fault("a length that is not DER")
            }
            length = bytes[contentStart..<contentStart + count].reduce(0) { $0 << 8 | Int($1) }
            // Only the shortest form is valid. Source: X.690 §10.1
            guard length >= 0x80, bytes[contentStart] != 0 else { throw Self.fault("a length that is not DER") }
            contentStart += count
        }
        guard length <= bytes.endIndex - contentStart else { throw Self.fault("the data ends in a value") }
        self.content = bytes[contentStart..<contentStart + length]
        self.whole = bytes[start..<contentStart + length]
        bytes = bytes[(contentStart + length)...]
    }

    /// Parses bytes that consist of exactly one value.
    init(_ bytes: ArraySlice<UInt8>) throws(ToolError) {
        var rest = bytes
        try self.init(takingFrom: &rest)
        guard rest.isEmpty else { throw Self.fault("bytes after the value") }
    }

    /// Returns the values inside a constructed value.
    func children() throws(ToolError) -> [DER] {
        guard self.tag & 0x20 != 0 else { throw Self.fault("a primitive value where a sequence or set is expected") }
        var rest = self.content
        var children: [DER] = []
        while !rest.isEmpty { children.append(try DER(takingFrom: &rest)) }
        return children
    }

    /// Dotted form of an OBJECT IDENTIFIER, nil for anything else.
    var objectIdentifier: String? {
        guard self.tag == 0x06, !self.content.isEmpty, self.content.count <= 64 else { return nil }
        var numbers: [UInt64] = []
        var value: UInt64 = 0
        for byte in self.content {
            guard value < 1 << 56 else { return nil }
            value = value << 7 | UInt64(byte & 0x7F)
            if byte & 0x80 == 0 {
                numbers.append(value)
                value = 0
            }
        }
        guard let first = numbers.first else { return nil }
        let root = min(first / 40, 2)
        return ([root, first - root * 40] + numbers.dropFirst()).map(String.init).joined(separator: ".")
    }

    /// A UTCTime or GeneralizedTime in its DER form (UTC, with seconds), as epoch seconds. Source: RFC 5280 §4.1.2.5
    var time: Int64? {
        guard self.tag == 0x17 || self.tag == 0x18, self.content.last == UInt8(ascii: "Z") else { return nil }
        let digits = Array(self.content.dropLast())
        guard digits.count == (self.tag == 0x17 ? 12 : 14) else { return nil }
        func part(_ start: Int, _ count: Int) -> String {
            String(decoding: digits[digits.count - start..<digits.count - start + count], as: UTF8.self)
        }
        // Two-digit years from 50 on are in the 1900s.
        let century = self.tag == 0x18 ? part(14, 2) : part(12, 2) < "50" ? "20" : "19"
        return RFC3339.parse(
            "\(century)\(part(12, 2))-\(part(10, 2))-\(part(8, 2))T\(part(6, 2)):\(part(4, 2)):\(part(2, 2))Z")
    }

    private static func fault(_ reason: String) -> ToolError { ToolError(.protocol, "reading DER: \(reason)") }
}
