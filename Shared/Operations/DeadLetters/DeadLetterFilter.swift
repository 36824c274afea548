import Kafka

/// Selects dead letters. A member that is nil matches all.
public struct DeadLetterFilter: Hashable, Sendable {
    public var code: String?
    /// Whole keys of orders, `<orderTypeIdentifier>/<orderIdentifier>`.
    public var orders: Set<String>?
    /// An order type identifier.
    public var type: String?
    /// Bounds on the dead letter's timestamp, in milliseconds since 1970: the first inclusive, the second exclusive.
    public var since: Int64?
    public var until: Int64?
    /// One dead letter, with its duplicates.
    public var position: DeadLetterPosition?
    /// Only dead letters of changes at these places of the topic of changes.
    public var places: Set<DeadLetterPosition>?
    /// Only notifications, or only changes.
    public var isPush: Bool?

    public init(
        code: String? = nil, orders: Set<String>? = nil, type: String? = nil, position: DeadLetterPosition? = nil,
        places: Set<DeadLetterPosition>? = nil, isPush: Bool? = nil
    ) {
        self.code = code
        self.orders = orders
        self.type = type
        self.position = position
        self.places = places
        self.isPush = isPush
    }

    public func matches(_ letter: DeadLetterRecord) -> Bool {
        if let code = self.code, letter.code != code { return false }
        if let orders = self.orders, !orders.contains(letter.order) { return false }
        if let type = self.type, !letter.order.hasPrefix("\(type)/") { return false }
        if let since = self.since, letter.record.timestampMilliseconds < since { return false }
        if let until = self.until, letter.record.timestampMilliseconds >= until { return false }
        if let isPush = self.isPush, letter.isPush != isPush { return false }
        if let places = self.places, letter.source.map(places.contains) != true { return false }
        return true
    }
}

/// A position in a topic, `partition/offset`: that of a dead letter, or that of its change.
public struct DeadLetterPosition: Hashable, Comparable, Sendable, CustomStringConvertible {
    public let partition: Int32
    public let offset: Int64

    public init(partition: Int32, offset: Int64) {
        self.partition = partition
        self.offset = offset
    }

    /// - Returns: nil when the text is not two numbers with a slash between.
    public init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let partition = Int32(parts[0]), let offset = Int64(parts[1]), partition >= 0,
            offset >= 0, offset < .max
        else { return nil }
        self.init(partition: partition, offset: offset)
    }

    public var description: String { "\(self.partition)/\(self.offset)" }

    public static func < (left: Self, right: Self) -> Bool {
        (left.partition, left.offset) < (right.partition, right.offset)
    }
}
