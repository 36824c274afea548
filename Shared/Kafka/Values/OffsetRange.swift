/// The offsets of a partition at one moment.
public struct OffsetRange: Hashable, Sendable {
    public let partition: Int32
    /// The first offset that still exists; `end` if the partition is empty.
    public let first: Int64
    /// The next offset to be written. Compaction leaves gaps, so there may be fewer records than `end - first`.
    public let end: Int64

    public init(partition: Int32, first: Int64, end: Int64) {
        self.partition = partition
        self.first = first
        self.end = end
    }
}
