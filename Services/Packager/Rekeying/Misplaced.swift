import Kafka

/// The last records of keys in a partition that is no longer theirs, since partitions were added to the topic.
///
/// A key without a value there needs nothing: Kafka deletes its tombstone.
struct Misplaced: Sendable {
    /// The values by key; only of keys that have a value there.
    private(set) var values: [[UInt8]: [UInt8]] = [:]

    /// - Parameters:
    ///   - records: of one partition, in order.
    ///   - count: the number of partitions of the topic.
    mutating func add(_ records: [KafkaRecord], count: Int) {
        for record in records {
            guard let key = record.key, KafkaPartitioner.partition(of: key, count: count) != record.partition else {
                continue
            }
            self.values[key] = record.value
        }
    }

    var isEmpty: Bool { self.values.isEmpty }
    var count: Int { self.values.count }
}

/// The counts of a rekeying.
struct RekeyTally: Hashable, Sendable {
    /// Records that were read.
    var read = 0
    /// Keys that were published to the right partition and ended in the old one.
    var moved = 0
    /// Keys whose content no longer exists, which were ended in the old partition.
    var ended = 0
    /// Keys that were left in the old partition, since their data cannot be read or their version cannot grow.
    var left = 0

    static func + (one: RekeyTally, other: RekeyTally) -> RekeyTally {
        RekeyTally(
            read: one.read + other.read, moved: one.moved + other.moved, ended: one.ended + other.ended,
            left: one.left + other.left)
    }

    var line: String {
        "\(self.read) records read; \(self.moved) keys moved, \(self.ended) ended, \(self.left) left where they are"
    }
}
