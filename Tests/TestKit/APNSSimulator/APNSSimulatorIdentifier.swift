/// An `apns-id`: a UUID of 16 bytes.
public struct APNSSimulatorIdentifier: Hashable, Sendable, CustomStringConvertible {
    let high: UInt64
    let low: UInt64

    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Returns a random UUID of version 4.
    ///
    /// Source: RFC 9562 §5.4
    static func random(using generator: inout some RandomNumberGenerator) -> Self {
        Self(
            high: generator.next() & 0xFFFF_FFFF_FFFF_0FFF | 0x4000,
            low: generator.next() & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000)
    }

    /// - Parameter text: canonical: 32 lower-case hexadecimal digits in five groups, 8-4-4-4-12.
    /// - Returns: nil if it is anything else.
    ///
    /// Source: Wallet Orders §4.3
    init?(canonical text: String) {
        guard text.utf8.count == 36 else { return nil }
        var (high, low): (UInt64, UInt64) = (0, 0)
        var digits = 0
        for (index, byte) in text.utf8.enumerated() {
            if index == 8 || index == 13 || index == 18 || index == 23 {
                guard byte == UInt8(ascii: "-") else { return nil }
                continue
            }
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = byte - UInt8(ascii: "a") + 10
            default: return nil
            }
            if digits < 16 { high = high << 4 | UInt64(digit) } else { low = low << 4 | UInt64(digit) }
            digits += 1
        }
        self.init(high: high, low: low)
    }

    public var description: String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(36)
        for index in 0..<32 {
            if index == 8 || index == 12 || index == 16 || index == 20 { bytes.append(UInt8(ascii: "-")) }
            let word = index < 16 ? self.high : self.low
            let digit = UInt8(truncatingIfNeeded: word >> UInt64(60 - index % 16 * 4) & 0xF)
            bytes.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
