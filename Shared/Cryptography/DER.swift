/// Writes tag, length and value of DER.
///
/// Source: X.690 §8.1, §10.1
enum DER {
    /// Tags as encoded in the first byte. Source: X.680 §8.6
    static let integer: UInt8 = 0x02
    static let objectIdentifier: UInt8 = 0x06
    static let octetString: UInt8 = 0x04
    static let sequence: UInt8 = 0x30
    static let set: UInt8 = 0x31
    /// `[0]` with elements inside, implicit or explicit.
    static let context0: UInt8 = 0xA0

    /// Returns an element: tag and length before the content.
    static func element(_ tag: UInt8, _ content: [UInt8]...) -> [UInt8] {
        let length = content.reduce(0) { $0 + $1.count }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(length + 6)
        self.appendHeader(tag, length: length, to: &bytes)
        for part in content { bytes += part }
        return bytes
    }

    /// Appends tag and length of an element whose content follows.
    static func appendHeader(_ tag: UInt8, length: Int, to bytes: inout [UInt8]) {
        bytes.append(tag)
        guard length >= 0x80 else {
            bytes.append(UInt8(truncatingIfNeeded: length))
            return
        }
        let octets = self.headerSize(length: length) - 2
        bytes.append(0x80 | UInt8(truncatingIfNeeded: octets))
        for octet in (0..<octets).reversed() {
            bytes.append(UInt8(truncatingIfNeeded: length >> (8 * octet)))
        }
    }

    /// Returns the number of bytes that tag and length take.
    static func headerSize(length: Int) -> Int {
        length < 0x80 ? 2 : 2 + (Int.bitWidth - length.leadingZeroBitCount + 7) / 8
    }
}

/// Reads tag, length and value of DER, one element at a time, from bytes of any origin.
///
/// Source: X.690 §8.1, §10.1
struct DERReader {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) { self.rest = bytes[...] }

    /// True if nothing is left.
    var isAtEnd: Bool { self.rest.isEmpty }

    /// Reads the next element; nil if the bytes are not one. Tags above 30 and lengths above 2^32 do not occur here.
    mutating func next() -> (tag: UInt8, content: ArraySlice<UInt8>)? {
        var bytes = self.rest
        guard let tag = bytes.popFirst(), tag & 0x1F != 0x1F, let first = bytes.popFirst() else { return nil }
        var length = Int(first)
        if first >= 0x80 {
            let octets = Int(first & 0x7F)
            guard (1...4).contains(octets), bytes.count >= octets else { return nil }
            length = bytes.prefix(octets).reduce(0) { $0 << 8 | Int($1) }
            bytes = bytes.dropFirst(octets)
        }
        guard bytes.count >= length else { return nil }
        self.rest = bytes.dropFirst(length)
        return (tag, bytes.prefix(length))
    }

    /// Returns the text of bytes that are one DER string of any kind, or nil.
    ///
    /// Apple puts such strings into certificate extensions without specifying their kind.
    /// Source: X.680 §8.6 (tags), §41; Wallet Orders §8.3, §10
    static func text(_ bytes: [UInt8]) -> String? {
        var reader = DERReader(bytes)
        guard let (tag, content) = reader.next(), reader.isAtEnd else { return nil }
        switch tag {
        case 0x0C: return String(validating: content, as: UTF8.self)  // UTF8String
        case 0x12, 0x13, 0x16, 0x1A:  // NumericString, PrintableString, IA5String, VisibleString
            return content.allSatisfy { $0 < 0x80 } ? String(decoding: content, as: UTF8.self) : nil
        case 0x14, 0x1B:  // T61String and GeneralString, which are Latin-1 wherever they occur
            return String(String.UnicodeScalarView(content.map { Unicode.Scalar($0) }))
        case 0x1C:  // UniversalString: UTF-32, big-endian
            return Self.units(content, width: 4).flatMap { String(validating: $0, as: UTF32.self) }
        case 0x1E:  // BMPString: UTF-16, big-endian
            return Self.units(content, width: 2)
                .flatMap { String(validating: $0.map { UInt16($0) }, as: UTF16.self) }
        default: return nil
        }
    }

    private static func units(_ bytes: ArraySlice<UInt8>, width: Int) -> [UInt32]? {
        guard bytes.count.isMultiple(of: width) else { return nil }
        return stride(from: bytes.startIndex, to: bytes.endIndex, by: width).map { start in
            bytes[start..<start + width].reduce(0) { $0 << 8 | UInt32($1) }
        }
    }
}
