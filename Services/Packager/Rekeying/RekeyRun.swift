import FoundationEssentials
import Kafka
import Logging
import Model
import Operations
import Store

/// Moves keys to their new partitions after partitions were added to a compacted topic.
///
/// Each key's last record is published again, so it lands in the key's partition. Then a tombstone ends the record in
/// the old one, which Kafka would keep forever and a restore would bring back after a removal. An order's new record
/// carries the silent header, so that no device is notified. The run may be repeated at any point.
///
/// Bounded: `chunk` keys in memory, and those of `endingLimit` chunks that are not ended yet.
struct RekeyRun: Sendable {
    /// Keys that are moved together.
    static let chunk = 2000
    /// The most chunks that are published but not ended yet.
    static let endingLimit = 16
    /// The most attempts at an operation that fails upstream.
    static let attemptLimit = 10

    let reader: KafkaReader
    let producer: KafkaProducer
    let logger: Logger
    /// Keys a second.
    var rate = 2000
    /// True to count only.
    var isDryRun = false
    /// Called with each chunk, for people.
    let report: @Sendable (_ line: String, _ isLast: Bool) -> Void

    /// Publishes the keys of a partition to the right partitions. Returns the tally, and the action that ends the keys
    /// in the old partition if that has to wait; meanwhile other keys are moved.
    typealias Move =
        @Sendable (_ values: [[UInt8]: [UInt8]], _ partition: Int32) async throws -> (RekeyTally, Ending?)
    typealias Ending = @Sendable () async throws -> Void

    /// - Returns: the tally, and the number of partitions of the topic.
    func run(_ topic: String, _ move: Move) async throws -> (tally: RekeyTally, partitions: Int) {
        let bounds = try await self.reader.bounds(of: topic)
        let tally = try await withThrowingTaskGroup { endings in
            let tally = try await self.run(topic, bounds, endings: &endings, move)
            try await endings.waitForAll()
            return tally
        }
        self.report(tally.line, true)
        return (tally, bounds.count)
    }

    private func run(
        _ topic: String, _ bounds: [OffsetRange], endings: inout ThrowingTaskGroup<Void, any Error>, _ move: Move
    ) async throws -> RekeyTally {
        var tally = RekeyTally()
        var pace = RateLimiter(perSecond: self.rate)
        let clock = ContinuousClock()
        let start = clock.now
        var open = 0
        for part in bounds where part.end > part.first {
            var misplaced = Misplaced()
            func flush() async throws {
                guard !misplaced.isEmpty else { return }
                try Task.checkCancellation()
                let values = misplaced.values
                misplaced = Misplaced()
                if self.isDryRun {
                    tally.moved += values.count
                } else {
                    let (more, ending) = try await self.insist { try await move(values, part.partition) }
                    tally = tally + more
                    if let ending {
                        if open == Self.endingLimit { try await endings.next() } else { open += 1 }
                        endings.addTask { try await self.insist(ending) }
                    }
                    try await Task.sleep(for: pace.wait(after: values.count, now: clock.now - start))
                }
                self.report("partition \(part.partition): \(tally.line)", false)
            }
            try await self.reader.read(
                topic, partition: part.partition, from: part.first, to: part.end, records: 1000, bytes: 4 << 20
            ) { records in
                tally.read += records.count
                misplaced.add(records, count: bounds.count)
                if misplaced.count >= Self.chunk { try await flush() }
            }
            try await flush()
        }
        return tally
    }

    /// Moves the last records of keys unchanged: a reader that sees one twice does its work twice, which is harmless.
    func move(
        _ values: [[UInt8]: [UInt8]], from partition: Int32, of topic: String
    ) async throws -> RekeyTally {
        try await self.produce(values.map { KafkaMessage(topic: topic, key: $0.key, value: $0.value) })
        // Last: without the published records, these tombstones would remove the keys.
        try await self.produce(
            values.keys.map { KafkaMessage(topic: topic, partition: partition, key: $0, value: nil) })
        var tally = RekeyTally()
        tally.moved = values.count
        return tally
    }

    /// Publishes messages, and throws unless all are acknowledged.
    ///
    /// - Throws: `RetriableFailure`
    func produce(_ messages: [KafkaMessage]) async throws {
        for case .failure(let error) in await self.producer.produce(messages) {
            throw RetriableFailure(
                description: "moving keys: \(error.message)", origin: FailureOrigin(.kafka, .everything))
        }
    }

    private func insist<Value>(_ body: () async throws -> Value) async throws -> Value {
        var attempt = 0
        while true {
            do {
                return try await body()
            } catch  where error is StoreError || error is RetriableFailure {
                attempt += 1
                guard attempt < Self.attemptLimit else { throw error }
                let delay = backoff(attempt: attempt, random: { Double.random(in: $0) })
                self.logger.warning(
                    "operation failed, retrying", metadata: ["error": "\(error)", "delay": "\(delay)"])
                try await Task.sleep(for: delay)
            }
        }
    }
}

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
    /// Keys that are still there since their orders cannot be read now.
    var unread = 0

    static func + (one: RekeyTally, other: RekeyTally) -> RekeyTally {
        RekeyTally(
            read: one.read + other.read, moved: one.moved + other.moved, ended: one.ended + other.ended,
            left: one.left + other.left, unread: one.unread + other.unread)
    }

    var line: String {
        "\(self.read) records read; \(self.moved) keys moved, \(self.ended) ended, \(self.left) left where they are"
            + (self.unread > 0 ? ", \(self.unread) cannot be read now (run it again)" : "")
    }
}
