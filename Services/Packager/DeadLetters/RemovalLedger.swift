import Kafka
import Model
import Synchronization

/// Which orders of some letters were removed after the changes that the letters hold.
///
/// A change that is put back stands behind everything in its topic, so it would bring such an order back. The topic of
/// changes tells it for certain as long as it still has what followed the change. Of older changes the topic of orders
/// tells what it can: a tombstone for a while, a value for an order that stands.
/// Bounded: by the letters.
struct RemovalLedger: Sendable {
    enum Verdict: Hashable, Sendable {
        /// Not removed since.
        case stands
        case removed
        /// The topic of changes does not reach back to the change, and the topic of orders does not know the order: it
        /// was never there, or it was removed long ago.
        case unknown
    }

    /// The facts that are known of an order.
    private struct Order {
        /// The last removal on the topic of changes, by partition.
        var removals: [Int32: Int64] = [:]
        var isThere = false
        /// The moment of its tombstone on the topic of orders.
        var goneMilliseconds: Int64?
    }

    /// Of the topic of changes when the letters were chosen, by partition.
    private let bounds: [Int32: OffsetRange]
    /// The end of the part that was read of each partition; a partition that was not read has none.
    private var ends: [Int32: Int64] = [:]
    /// The position of each letter's change, by the letter's own position.
    private let sources: [DeadLetterPosition: DeadLetterPosition]
    private var orders: [UInt64: Order] = [:]

    /// - Parameters:
    ///   - bounds: of the topic of changes.
    ///   - entries: the letters in question.
    ///   - letters: all that are known, also those that were put back before.
    init(_ bounds: [OffsetRange], _ entries: [DeadLetterIndex.Entry], of letters: [DeadLetterIndex.Entry] = []) {
        let places = letters.compactMap { letter in letter.source.map { (letter.position, $0) } }
        self.sources = Dictionary(places) { first, _ in first }
        self.bounds = Dictionary(bounds.map { ($0.partition, $0) }) { first, _ in first }
        for entry in entries {
            self.orders[entry.order] = Order()
            guard let source = entry.source, let bounds = self.bounds[source.partition] else { continue }
            self.ends[source.partition] = bounds.end
        }
    }

    /// The parts of the topic of changes that are to be read.
    func ranges(_ entries: [DeadLetterIndex.Entry]) -> [OffsetRange] {
        var starts: [Int32: Int64] = [:]
        for source in entries.compactMap(\.source) {
            guard let bounds = self.bounds[source.partition], source.offset < bounds.end else { continue }
            let start = max(bounds.first, source.offset)
            starts[source.partition] = min(starts[source.partition] ?? start, start)
        }
        return starts.sorted { $0.key < $1.key }.compactMap { partition, start in
            self.bounds[partition].map { OffsetRange(partition: partition, first: start, end: $0.end) }
        }
    }

    /// The part that has come to the topic of changes since it was read; it counts as read then.
    ///
    /// - Parameter bounds: of that topic now.
    mutating func readOn(to bounds: [OffsetRange]) -> [OffsetRange] {
        bounds.compactMap { now in
            guard let end = self.ends[now.partition], now.end > end else { return nil }
            self.ends[now.partition] = now.end
            return OffsetRange(partition: now.partition, first: max(end, now.first), end: now.end)
        }
    }

    /// True if the topic of changes has all that followed the change of a letter.
    func isCertain(_ entry: DeadLetterIndex.Entry) -> Bool {
        guard let source = entry.source, let bounds = self.bounds[source.partition] else { return false }
        return (bounds.first..<bounds.end).contains(source.offset)
    }

    /// Adds a record of the topic of changes.
    mutating func add(change record: KafkaRecord) {
        let hash = DeadLetterRecord.orderHash(of: record)
        guard self.orders[hash] != nil else { return }
        let change = try? OrderChange.decode(
            key: record.key, value: record.value, headers: record.headers.map { ($0.name, $0.value) })
        guard case .removed? = change?.kind else { return }
        // A removal that was put back counts where it stood first: what followed it there may follow it here.
        let letter = record.headers.last { $0.name == DeadLetterHeader.replay }?.value
        let place = letter.map { String(decoding: $0, as: UTF8.self).split(separator: "/").suffix(2) }
            .flatMap { DeadLetterPosition($0.joined(separator: "/")) }.flatMap { self.sources[$0] }
        let (partition, offset) = place.map { ($0.partition, $0.offset) } ?? (record.partition, record.offset)
        let last = self.orders[hash]?.removals[partition] ?? -1
        self.orders[hash]?.removals[partition] = max(last, offset)
    }

    /// Adds a record of the topic of orders.
    mutating func add(order record: KafkaRecord) {
        let hash = DeadLetterRecord.orderHash(of: record)
        guard self.orders[hash] != nil else { return }
        self.orders[hash]?.isThere = record.value != nil
        if record.value == nil { self.orders[hash]?.goneMilliseconds = record.timestampMilliseconds }
    }

    func verdict(_ entry: DeadLetterIndex.Entry) -> Verdict {
        guard let order = self.orders[entry.order] else { return .unknown }
        if let source = entry.source, let removal = order.removals[source.partition], removal > source.offset {
            return .removed
        }
        if self.isCertain(entry) { return .stands }
        if let gone = order.goneMilliseconds, gone >= entry.milliseconds { return .removed }
        if order.isThere || order.goneMilliseconds != nil { return .stands }
        // A place that the topic never had is of another topic, of which nothing is known.
        if entry.isElsewhere { return .unknown }
        guard let source = entry.source, let bounds = self.bounds[source.partition], source.offset < bounds.first
        else { return .stands }
        return .unknown
    }
}

extension DeadLetterTopic {
    /// Finds out which of some letters' orders were removed since.
    ///
    /// Reads the topic of changes from the oldest of their changes on, and the topic of orders only for letters that
    /// are older than that topic.
    /// - Throws: `KafkaError`
    func removals(
        since entries: [DeadLetterIndex.Entry], of letters: DeadLetterIndex, topics: Topics
    ) async throws -> RemovalLedger {
        let ledger = Mutex(RemovalLedger(try await self.known(topics.orderChanges), entries, of: letters.entries))
        let changes = ledger.withLock { $0.ranges(entries) }
        try await self.each(changes, of: topics.orderChanges) { records in
            ledger.withLock { ledger in for record in records { ledger.add(change: record) } }
        }
        let isCertain = ledger.withLock { ledger in entries.allSatisfy { ledger.isCertain($0) } }
        if !isCertain {
            try await self.each(try await self.known(topics.orders), of: topics.orders) { records in
                ledger.withLock { ledger in for record in records { ledger.add(order: record) } }
            }
        }
        return ledger.withLock { $0 }
    }

    /// Takes in what was removed since `ledger` was made, or since it was done last.
    func readOn(_ ledger: RemovalLedger, topics: Topics) async throws -> RemovalLedger {
        let ledger = Mutex(ledger)
        let bounds = try await self.known(topics.orderChanges)
        let changes = ledger.withLock { $0.readOn(to: bounds) }
        try await self.each(changes, of: topics.orderChanges) { records in
            ledger.withLock { ledger in for record in records { ledger.add(change: record) } }
        }
        return ledger.withLock { $0 }
    }

    /// The bounds of a topic's partitions; nothing if there is no such topic.
    private func known(_ topic: String) async throws -> [OffsetRange] {
        do {
            return try await self.reader.bounds(of: topic)
        } catch {
            guard error.code == .unknownTopic else { throw error }
            return []
        }
    }

    private func each(
        _ ranges: [OffsetRange], of topic: String, _ take: @escaping @Sendable ([KafkaRecord]) -> Void
    ) async throws {
        try await Self.spread(ranges) { range in
            try await self.reader.read(
                topic, partition: range.partition, from: range.first, to: range.end, records: 1000, bytes: 1 << 20
            ) { take($0) }
        }
    }
}
