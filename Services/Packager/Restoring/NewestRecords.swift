import Kafka
import Model
import Store
import Synchronization

/// The newest records of a range that is read forwards: the oldest ones are dropped when there are too many.
struct NewestRecords {
    /// The most bytes; a single record may have more.
    static let limit = 2 << 20

    private(set) var records: [KafkaRecord] = []
    /// The offset from which on all records are present.
    private(set) var from: Int64
    private(set) var bytes = 0

    init(from: Int64) { self.from = from }

    /// Returns the last record of each key, in the order of their offsets.
    static func last(of records: [KafkaRecord]) -> [KafkaRecord] {
        var seen: Set<[UInt8]> = []
        return records.reversed().filter { seen.insert($0.key ?? []).inserted }.reversed()
    }

    /// Appends records that follow the present ones.
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

/// The number of offsets to read at a time from each partition, learned from earlier ranges.
///
/// Compaction leaves gaps, and orders differ in size: so ranges grow and shrink to about `records` each.
/// Threads: any. Bounded: one number for each partition.
final class RangeSizes: Sendable {
    /// The number of offsets, of all partitions together, that are read first: the newest orders are back within
    /// seconds.
    static let newest: Int64 = 1 << 14
    /// Records that a range should have.
    static let records = 1000
    private static let bounds: ClosedRange<Int64> = 8...(1 << 20)
    /// The largest ratio of a range's size to that of the one before it.
    private static let growth = 8.0

    private let first: Int64
    private let sizes = Mutex<[String: Int64]>([:])

    /// - Parameter partitions: the number of partitions that are read.
    init(partitions: Int) { self.first = Self.first(partitions: partitions) }

    /// Returns the size of the first range of each partition, for a number of partitions.
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

    /// Returns the size of the range after one with the given numbers of offsets, records and bytes.
    static func size(offsets: Int64, records: Int, bytes: Int) -> Int64 {
        let factor = min(
            Double(Self.records) / Double(max(1, records)), Double(NewestRecords.limit) / Double(max(1, bytes)),
            Self.growth)
        let size = Int64(min(Double(max(1, offsets)) * factor, Double(Self.bounds.upperBound)))
        return min(max(size, Self.bounds.lowerBound), Self.bounds.upperBound)
    }
}
