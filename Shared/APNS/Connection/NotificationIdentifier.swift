/// `apns-id`: a random UUID in lower case, stored as two numbers so that a long queue needs little memory.
///
/// Source: Wallet Orders §4.3; RFC 9562 §5.4
struct NotificationIdentifier {
    private let high: UInt64
    private let low: UInt64

    init(using generator: inout some RandomNumberGenerator) {
        self.high = (generator.next() & 0xFFFF_FFFF_FFFF_0FFF) | 0x4000
        self.low = (generator.next() & 0x3FFF_FFFF_FFFF_FFFF) | 0x8000_0000_0000_0000
    }

    /// Replaces the content of `text` with the UUID; the storage of `text` is reused.
    func write(into text: inout [UInt8]) {
        text.removeAll(keepingCapacity: true)
        for digit in 0..<32 {
            if digit == 8 || digit == 12 || digit == 16 || digit == 20 { text.append(UInt8(ascii: "-")) }
            let half = digit < 16 ? self.high : self.low
            let value = UInt8(half >> UInt64(60 - 4 * (digit & 15)) & 0xF)
            text.append(value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10)
        }
    }
}
