/// The position of a change in a topic of changes.
public struct ChangePosition: Hashable, Sendable {
    public var partition: Int32
    public var offset: Int64
    /// The record's timestamp. Distinguishes a redelivery from a recreated topic whose offsets start at 0 again.
    public var timestampMilliseconds: Int64
    /// The topic and its cluster; offsets of one say nothing about those of another.
    public var origin: ChangeOrigin

    public init(
        partition: Int32, offset: Int64, timestampMilliseconds: Int64, origin: ChangeOrigin = .unknown
    ) {
        self.partition = partition
        self.offset = offset
        self.timestampMilliseconds = timestampMilliseconds
        self.origin = origin
    }
}

/// The identity of a topic of changes on one Kafka cluster, in 64 bits: the FNV-1a hash of the cluster's identifier, a
/// slash and the topic's name.
public struct ChangeOrigin: Hashable, Sendable {
    /// The origin of positions that were recorded without one.
    public static let unknown = ChangeOrigin(hash: 0)

    private let hash: UInt64

    private init(hash: UInt64) { self.hash = hash }

    /// - Parameter cluster: the cluster's identifier; empty if the cluster does not report one.
    public init(cluster: String, topic: String) {
        var hash = FNV1a()
        hash.combine(cluster.utf8)
        hash.combine(UInt8(ascii: "/"))
        hash.combine(topic.utf8)
        self.init(hash: hash.value)
    }

    /// 16 hexadecimal digits.
    var text: String {
        let digits = String(self.hash, radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }

    /// - Returns: unknown if the text is not that of an origin.
    init(text: String?) {
        self.init(hash: text.flatMap { $0.utf8.count == 16 ? UInt64($0, radix: 16) : nil } ?? 0)
    }
}

/// The 64-bit hash FNV-1a, byte by byte: the same in every process, and no defense against crafted collisions.
///
/// Source: FNV-1a with its published offset basis and prime
public struct FNV1a: Sendable {
    public private(set) var value: UInt64 = 0xCBF2_9CE4_8422_2325

    public init() {}

    public mutating func combine(_ byte: UInt8) { self.value = (self.value ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }

    // Not for any sequence: other modules would call that unspecialized, at twenty times the cost.
    public mutating func combine(_ bytes: [UInt8]) { for byte in bytes { self.combine(byte) } }

    public mutating func combine(_ text: String.UTF8View) { for byte in text { self.combine(byte) } }
}
