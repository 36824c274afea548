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
    static let utcTime: UInt8 = 0x17
    static let generalizedTime: UInt8 = 0x18
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
