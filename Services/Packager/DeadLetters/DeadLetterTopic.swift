import Kafka
import Model
import Synchronization

/// Reads `waybill.dead-letters`: once through for the ledger, and single letters.
///
/// Bounded: the ledger by its limit, and `concurrency` partitions with a batch each are read at once.
struct DeadLetterTopic: Sendable {
    /// Partitions that are read at once.
    private static let concurrency = 8
    /// Letters that are this close are read in one go.
    private static let reach: Int64 = 500

    let reader: KafkaReader
    let topic: String
    /// The topic that changes are put back on.
    var changes: String?

    /// Goes through all letters that are there now, or those of one partition.
    ///
    /// - Throws: `KafkaError`; `.unknownTopic` when there is no such topic or partition.
    func survey(_ filter: DeadLetterFilter) async throws -> DeadLetterIndex {
        var bounds = try await self.reader.bounds(of: self.topic)
        if let position = filter.position {
            bounds = bounds.filter { $0.partition == position.partition }
            guard let found = bounds.first, (found.first..<found.end).contains(position.offset) else {
                throw KafkaError(.outOfRange, "reading \(self.topic)/\(position): there is no such dead letter")
            }
        }
        let ledger = Mutex(DeadLetterIndex(filter, changes: self.changes))
        try await Self.spread(bounds) { bounds in
            try await self.reader.read(
                self.topic, partition: bounds.partition, from: bounds.first, to: bounds.end, records: 1000,
                bytes: 1 << 20
            ) { records in
                let readings = records.map(DeadLetterRecord.read)
                ledger.withLock { ledger in for reading in readings { ledger.add(reading) } }
            }
        }
        var whole = ledger.withLock { $0 }
        guard let position = filter.position else { return whole }
        guard let letter = try await self.letters(at: [position], { $0 })[position] else {
            throw KafkaError(.outOfRange, "reading \(self.topic)/\(position): it is not a dead letter")
        }
        whole.keepOnly(letter.identity)
        return whole
    }

    /// Reads letters; those that are gone by now are missing.
    ///
    /// - Parameter make: what is kept of a letter, so that a long list need not hold all values.
    func letters<Value: Sendable>(
        at positions: [DeadLetterPosition], _ make: @escaping @Sendable (DeadLetterRecord) -> Value
    ) async throws -> [DeadLetterPosition: Value] {
        let wanted = Set(positions)
        let found = Mutex<[DeadLetterPosition: Value]>([:])
        try await Self.spread(Self.runs(positions)) { runs in
            for run in runs {
                try await self.reader.read(
                    self.topic, partition: run.partition, from: run.first, to: run.end, records: 500, bytes: 1 << 20
                ) { records in
                    for case .letter(let letter) in records.map(DeadLetterRecord.read)
                    where wanted.contains(letter.position) {
                        let value = make(letter)
                        found.withLock { $0[letter.position] = value }
                    }
                }
            }
        }
        return found.withLock { $0 }
    }

    /// The ranges to read of each partition so that they contain all positions.
    static func runs(_ positions: [DeadLetterPosition]) -> [[OffsetRange]] {
        var runs: [[OffsetRange]] = []
        for position in positions.sorted() {
            // Positions are below Int64.max, `DeadLetterPosition` sees to it.
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

    /// Does something with each item, with `concurrency` of them at once.
    static func spread<Item: Sendable>(
        _ items: [Item], _ body: @escaping @Sendable (Item) async throws -> Void
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, item) in items.enumerated() {
                if index >= Self.concurrency { _ = try await group.next() }
                group.addTask { try await body(item) }
            }
            try await group.waitForAll()
        }
    }
}
