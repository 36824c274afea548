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
