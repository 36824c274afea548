public import Kafka
import Synchronization

/// Reads `waybill.dead-letters`: all of it for the index, or single dead letters.
///
/// Bounded: the index by its limit; some partitions are read at a time, each with one batch.
public struct DeadLetterTopic: Sendable {
    /// The gap in offsets up to which dead letters are read in one go.
    private static let reach: Int64 = 500

    public let reader: KafkaReader
    public let topic: String
    /// The topic of changes, to which dead letters are replayed.
    public let changes: String?

    public init(reader: KafkaReader, topic: String, changes: String? = nil) {
        self.reader = reader
        self.topic = topic
        self.changes = changes
    }

    /// Reads all dead letters that exist now, or those of one partition.
    ///
    /// - Parameter closed: true to take those that were closed as well.
    /// - Throws: `KafkaError`; `.unknownTopic` when there is no such topic or partition.
    public func survey(_ filter: DeadLetterFilter, closed: Bool = false) async throws -> DeadLetterIndex {
        var bounds = try await self.bounds()
        if let position = filter.position {
            bounds = bounds.filter { $0.partition == position.partition }
            guard let found = bounds.first, (found.first..<found.end).contains(position.offset) else {
                throw KafkaError(.outOfRange, "reading \(self.topic)/\(position): there is no such dead letter")
            }
        }
        var whole = try await self.readOn(DeadLetterIndex(filter, changes: self.changes), to: bounds)
        guard let position = filter.position else {
            if !closed { whole.leaveOutPurged() }
            return whole
        }
        guard let letter = try await self.letters(at: [position], { $0 })[position] else {
            throw KafkaError(.outOfRange, "reading \(self.topic)/\(position): it is not a dead letter")
        }
        whole.keepOnly(letter.identity)
        return whole
    }

    /// The present bounds of the topic's partitions.
    public func bounds() async throws(KafkaError) -> [OffsetRange] { try await self.reader.bounds(of: self.topic) }

    /// Returns the index with what came since it was read last.
    ///
    /// - Parameter bounds: the present bounds of the topic.
    public func readOn(_ index: DeadLetterIndex, to bounds: [OffsetRange]) async throws -> DeadLetterIndex {
        var index = index
        let ranges = index.readOn(to: bounds)
        let ledger = Mutex(index)
        try await self.reader.read(ranges, of: self.topic) { records in
            let readings = records.map(DeadLetterRecord.read)
            ledger.withLock { ledger in for reading in readings { ledger.add(reading) } }
        }
        return ledger.withLock { $0 }
    }

    /// Reads dead letters, `count` at a time, in sequence, without those that were deleted since they were counted.
    ///
    /// - Parameter make: returns what to keep of a dead letter.
    public func pages<Value: Sendable>(
        of entries: [DeadLetterIndex.Entry], _ count: Int,
        _ make: @escaping @Sendable (DeadLetterRecord) -> Value,
        _ body: ([(entry: DeadLetterIndex.Entry, value: Value)]) async throws -> Void
    ) async throws {
        for first in stride(from: 0, to: entries.count, by: count) {
            let page = entries[first..<min(first + count, entries.count)]
            let values = try await self.letters(at: page.map(\.position), make)
            try await body(page.compactMap { entry in values[entry.position].map { (entry, $0) } })
        }
    }

    /// Reads dead letters; those that no longer exist are missing from the result.
    ///
    /// - Parameter make: returns what to keep of a dead letter, so that a long list need not hold all values.
    public func letters<Value: Sendable>(
        at positions: [DeadLetterPosition], _ make: @escaping @Sendable (DeadLetterRecord) -> Value
    ) async throws -> [DeadLetterPosition: Value] {
        let wanted = Set(positions)
        let found = Mutex<[DeadLetterPosition: Value]>([:])
        try await self.reader.read(Self.runs(positions).flatMap(\.self), of: self.topic, records: 500) { records in
            for case .letter(let letter) in records.map(DeadLetterRecord.read)
            where wanted.contains(letter.position) {
                let value = make(letter)
                found.withLock { $0[letter.position] = value }
            }
        }
        return found.withLock { $0 }
    }

    /// Returns the ranges to read of each partition so that they contain all positions.
    public static func runs(_ positions: [DeadLetterPosition]) -> [[OffsetRange]] {
        var runs: [[OffsetRange]] = []
        for position in positions.sorted() {
            // Cannot overflow: `DeadLetterPosition` ensures that offsets are below Int64.max.
            let end = position.offset + 1
            if let last = runs.last?.last, last.partition == position.partition {
                let isNear = position.offset - last.end <= Self.reach
                let run = OffsetRange(
                    partition: position.partition, first: isNear ? last.first : position.offset, end: end)
                if isNear { runs[runs.count - 1].removeLast() }
                runs[runs.count - 1].append(run)
            } else {
                runs.append([OffsetRange(partition: position.partition, first: position.offset, end: end)])
            }
        }
        return runs
    }
}
