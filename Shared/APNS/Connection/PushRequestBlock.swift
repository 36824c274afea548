import HTTP2
import Model

/// The header fields of all requests of one connection; each notification replaces the fields that differ.
///
/// Source: Wallet Orders §4.3, with its HPACK advice: path and token never indexed; `apns-id`, `apns-expiration` and
/// `apns-collapse-id` the first time only
struct PushRequestBlock {
    private var plain: Fields
    private var collapsing: Fields
    /// Reused for each `apns-id`.
    private var identifierText: [UInt8] = []

    /// - Parameter hasToken: true if requests carry `authorization`.
    init(authority: String, hasToken: Bool) {
        self.plain = Fields(authority: authority, hasToken: hasToken, collapses: false)
        self.collapsing = Fields(authority: authority, hasToken: hasToken, collapses: true)
        self.identifierText.reserveCapacity(36)
    }

    /// Calls `body` with the header block of one request.
    ///
    /// - Parameter authorization: the header's value; ignored if requests carry none.
    mutating func with<Result, Failure: Error>(
        _ push: PendingPush, authorization: [UInt8],
        _ body: (borrowing HTTP2HeaderBlock) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        push.identifier.write(into: &self.identifierText)
        if push.notification.collapseIdentifier == nil {
            self.plain.fill(push.notification, identifier: self.identifierText, authorization: authorization)
            return try body(self.plain.block)
        }
        self.collapsing.fill(push.notification, identifier: self.identifierText, authorization: authorization)
        return try body(self.collapsing.block)
    }

    /// Stops the indexing of values that rarely recur: after the first request HPACK's table has their names, and the
    /// values are not worth space in it.
    mutating func submitted(_ push: PendingPush) {
        if push.notification.collapseIdentifier == nil { self.plain.submitted() } else { self.collapsing.submitted() }
    }
}

/// The fields in the order of the wire, and the places of those that vary.
private struct Fields {
    private(set) var block = HTTP2HeaderBlock()
    private let path: Int
    private let authorization: Int?
    private let topic: Int
    private let pushType: Int
    private let priority: Int
    private let expiration: Int
    private let identifier: Int
    private let collapse: Int?
    private var isFirst = true
    /// The values of the last request.
    private var lastPriority: UInt8 = 0
    private var lastExpiration: Int64 = 0
    private var lastTopic: OrderTypeIdentifier?
    private var lastPushType: PushNotification.Kind?
    private var lastAuthorization: [UInt8] = []

    init(authority: String, hasToken: Bool, collapses: Bool) {
        _ = self.block.append(":method", "POST")
        _ = self.block.append(":scheme", "https")
        _ = self.block.append(":authority", authority)
        self.path = self.block.append(":path", "", isIndexed: false)
        self.authorization = hasToken ? self.block.append("authorization", "", isIndexed: false) : nil
        self.topic = self.block.append("apns-topic", "")
        self.pushType = self.block.append("apns-push-type", "")
        self.priority = self.block.append("apns-priority", "0")
        self.expiration = self.block.append("apns-expiration", "0")
        self.identifier = self.block.append("apns-id", "")
        self.collapse = collapses ? self.block.append("apns-collapse-id", "") : nil
    }

    /// Replaces the few fields that differ from the last request.
    mutating func fill(_ notification: PushNotification, identifier: [UInt8], authorization value: [UInt8]) {
        if notification.priority != self.lastPriority {
            self.lastPriority = notification.priority
            self.block.replace(self.priority, String(notification.priority))
        }
        if notification.expirationEpochSeconds != self.lastExpiration {
            self.lastExpiration = notification.expirationEpochSeconds
            self.block.replace(self.expiration, String(notification.expirationEpochSeconds))
        }
        if notification.topic != self.lastTopic {
            self.lastTopic = notification.topic
            self.block.replace(self.topic, notification.topic.rawValue)
        }
        if notification.pushType != self.lastPushType {
            self.lastPushType = notification.pushType
            self.block.replace(self.pushType, notification.pushType.rawValue)
        }
        if let authorization = self.authorization, value != self.lastAuthorization {
            self.lastAuthorization = value
            self.block.replace(authorization, value)
        }
        self.block.replace(self.path, "/3/device/", notification.deviceToken.rawValue)
        self.block.replace(self.identifier, identifier)
        if let collapse = self.collapse, let text = notification.collapseIdentifier {
            self.block.replace(collapse, text)
        }
    }

    mutating func submitted() {
        guard self.isFirst else { return }
        self.isFirst = false
        self.block.setIndexed(self.expiration, false)
        self.block.setIndexed(self.identifier, false)
        if let collapse = self.collapse { self.block.setIndexed(collapse, false) }
    }
}

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
        if text.count != Self.form.count { text = Self.form }
        var digit: UInt64 = 0
        unsafe text.withUnsafeMutableBufferPointer { text in
            for place in text.indices where unsafe text[place] != UInt8(ascii: "-") {
                let half = digit < 16 ? self.high : self.low
                let value = UInt8(truncatingIfNeeded: half >> (60 &- 4 &* (digit & 15))) & 0xF
                unsafe text[place] = value < 10 ? UInt8(ascii: "0") &+ value : UInt8(ascii: "a") &- 10 &+ value
                digit &+= 1
            }
        }
    }

    /// A UUID without a value: the hyphens stay where they are.
    private static let form = Array("00000000-0000-0000-0000-000000000000".utf8)
}

/// A generator of random numbers for `apns-id` and jitter, seeded by the system's generator, which costs a system call
/// for each number.
///
/// Good enough not to repeat a UUID; not suitable for secrets.
/// Source: D. Blackman, S. Vigna, "Scrambled linear pseudorandom number generators": xoshiro256**
struct IdentifierGenerator: RandomNumberGenerator {
    private var state: (UInt64, UInt64, UInt64, UInt64)

    init() {
        var system = SystemRandomNumberGenerator()
        self.init(seed: (system.next(), system.next(), system.next(), system.next()))
    }

    /// - Parameter seed: not all zero.
    init(seed: (UInt64, UInt64, UInt64, UInt64)) {
        // A state of zeros would produce only zeros.
        self.state = seed == (0, 0, 0, 0) ? (1, 0, 0, 0) : seed
    }

    mutating func next() -> UInt64 {
        let result = Self.rotated(self.state.1 &* 5, by: 7) &* 9
        let shifted = self.state.1 << 17
        self.state.2 ^= self.state.0
        self.state.3 ^= self.state.1
        self.state.1 ^= self.state.2
        self.state.0 ^= self.state.3
        self.state.2 ^= shifted
        self.state.3 = Self.rotated(self.state.3, by: 45)
        return result
    }

    private static func rotated(_ value: UInt64, by count: UInt64) -> UInt64 {
        (value << count) | (value >> (64 - count))
    }
}
