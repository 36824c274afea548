import Kafka

/// The last records of keys in a partition that is not theirs since the topic got more partitions.
///
/// A key without a value there needs nothing: Kafka forgets its tombstone.
struct Misplaced: Sendable {
    /// By key; only of keys that have a value there.
    private(set) var values: [[UInt8]: [UInt8]] = [:]

    /// - Parameters:
    ///   - records: of one partition, in order.
    ///   - count: partitions of the topic.
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

/// The tally of moving keys.
struct RekeyTally: Hashable, Sendable {
    /// Records that were read.
    var read = 0
    /// Keys that were published where they belong, and ended where they were.
    var moved = 0
    /// Keys of what is not there any more, ended where they were.
    var ended = 0
    /// Keys that stay where they are, since what stands in Redis or Kafka for them cannot be read.
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
