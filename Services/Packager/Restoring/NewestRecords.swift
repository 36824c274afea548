import Kafka
import Store
import Synchronization

/// The newest records of a range that is read forwards: the oldest ones are given up when there are too many.
struct NewestRecords {
    /// Most bytes; a single record may have more.
    static let limit = 2 << 20

    private(set) var records: [KafkaRecord] = []
    /// All records from this offset on are there.
    private(set) var from: Int64
    private(set) var bytes = 0

    init(from: Int64) { self.from = from }

    /// Takes records in that follow those that are there.
    mutating func append(_ more: [KafkaRecord]) {
        self.records += more
        self.bytes += more.reduce(0) { $0 + $1.size }
        var dropped = 0
        while self.bytes > Self.limit, dropped < self.records.count - 1 {
            self.bytes -= self.records[dropped].size
            self.from = self.records[dropped].offset + 1
            dropped += 1
        }
        self.records.removeFirst(dropped)
    }
}

/// The number of offsets to read at once of each partition, learnt from those that were read.
///
/// Compaction leaves gaps, and orders differ in size: so ranges grow and shrink to a few hundred records each.
/// Threads: any. Bounded: one number for each partition.
final class RangeSizes: Sendable {
    /// Offsets of all partitions together before anything else is read: the newest of all are there within seconds.
    static let newest: Int64 = 1 << 14
    /// Records that a range should have.
    static let records = 1000
    private static let bounds: ClosedRange<Int64> = 8...(1 << 20)
    /// A range is at most so many times the size of the one before it.
    private static let growth = 8.0

    private let first: Int64
    private let sizes = Mutex<[String: Int64]>([:])

    /// - Parameter partitions: that are read.
    init(partitions: Int) { self.first = Self.first(partitions: partitions) }

    /// The size of the first range of each of so many partitions.
    static func first(partitions: Int) -> Int64 {
        min(max(Self.newest / Int64(max(1, partitions)), 32), Int64(Self.records))
    }

    func next(of job: RestoreJobQueue.Job) -> Int64 {
        // A partition that another packager began is not known here.
        self.sizes.withLock { $0[job.name] } ?? self.first
    }

    /// Learns from a range.
    func note(_ name: String, _ range: NewestRecords, to end: Int64) {
        let size = Self.size(
            offsets: end - range.from, records: range.records.count, bytes: range.bytes)
        self.sizes.withLock { $0[name] = size }
    }

    /// The size of the range that follows one of so many offsets, with so many records and bytes in it.
    static func size(offsets: Int64, records: Int, bytes: Int) -> Int64 {
        let factor = min(
            Double(Self.records) / Double(max(1, records)), Double(NewestRecords.limit) / Double(max(1, bytes)),
            Self.growth)
        let size = Int64(min(Double(max(1, offsets)) * factor, Double(Self.bounds.upperBound)))
        return min(max(size, Self.bounds.lowerBound), Self.bounds.upperBound)
    }
}
