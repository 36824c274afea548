/// One notification on its way through the client.
struct PendingPush {
    let notification: PushNotification
    let batch: PushBatch
    let index: Int
    /// `apns-id`, made once so that a retry carries the same.
    let identifier: [UInt8]

    func complete(_ outcome: PushOutcome) { self.batch.complete(self.index, outcome) }
}

/// A fresh `apns-id`: a random UUID in lower case.
///
/// Source: Wallet Orders §4.3; RFC 9562 §5.4
func makeNotificationIdentifier(using generator: inout some RandomNumberGenerator) -> [UInt8] {
    let high: UInt64 = (generator.next() & 0xFFFF_FFFF_FFFF_0FFF) | 0x4000
    let low: UInt64 = (generator.next() & 0x3FFF_FFFF_FFFF_FFFF) | 0x8000_0000_0000_0000
    var text: [UInt8] = []
    text.reserveCapacity(36)
    for digit in 0..<32 {
        if digit == 8 || digit == 12 || digit == 16 || digit == 20 { text.append(UInt8(ascii: "-")) }
        let half = digit < 16 ? high : low
        let value = UInt8(half >> UInt64(60 - 4 * (digit & 15)) & 0xF)
        text.append(value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10)
    }
    return text
}
