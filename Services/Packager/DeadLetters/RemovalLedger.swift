import Kafka
import Model
import Operations
import Synchronization

/// The orders that were removed after the changes in their dead letters.
///
/// A replayed change is appended to its topic, so it would bring such an order back. The topic of changes shows the
/// removal as long as it retains the records after the change. For older changes only the topic of orders can tell: it
/// has a tombstone for a while, or a value if the order exists.
/// Bounded: by the number of dead letters.
struct RemovalLedger: Sendable {
    enum Verdict: Hashable, Sendable {
        /// Not removed since.
        case stands
        case removed
        /// The topic of changes does not reach back to the change, and the topic of orders has no record of the order:
        /// it never existed, or it was removed long ago.
        case unknown
    }

    /// The known facts about an order.
    private struct Order {
        /// The last removal on the topic of changes, by partition.
        var removals: [Int32: Int64] = [:]
        var isThere = false
        /// The timestamp of its tombstone on the topic of orders.
        var goneMilliseconds: Int64?
    }

    /// The bounds of the topic of changes when the dead letters were chosen, by partition.
    private let bounds: [Int32: OffsetRange]
    /// The offset up to which each partition was read; a partition that was not read has none.
    private var ends: [Int32: Int64] = [:]
    /// The position of each dead letter's change, and its identity, by the dead letter's own position.
    private let sources: [DeadLetterPosition: (place: DeadLetterPosition, identity: UInt64)]
    private var orders: [UInt64: Order] = [:]

    /// - Parameters:
    ///   - bounds: the bounds of the topic of changes.
    ///   - entries: the dead letters in question.
    ///   - letters: all known dead letters, including those that were replayed before.
    init(_ bounds: [OffsetRange], _ entries: [DeadLetterIndex.Entry], of letters: [DeadLetterIndex.Entry] = []) {
        let places = letters.compactMap { letter in letter.source.map { (letter.position, ($0, letter.identity)) } }
        self.sources = Dictionary(places) { first, _ in first }
        self.bounds = Dictionary(bounds.map { ($0.partition, $0) }) { first, _ in first }
        for entry in entries {
            self.orders[entry.order] = Order()
            guard let source = entry.source, let bounds = self.bounds[source.partition] else { continue }
            self.ends[source.partition] = bounds.end
        }
    }

    /// Returns the ranges of the topic of changes to read.
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

    /// Returns the ranges that were added to the topic of changes since it was read, and counts them as read.
    ///
    /// - Parameter bounds: the present bounds of that topic.
    mutating func readOn(to bounds: [OffsetRange]) -> [OffsetRange] {
        bounds.compactMap { now in
            guard let end = self.ends[now.partition], now.end > end else { return nil }
            self.ends[now.partition] = now.end
            return OffsetRange(partition: now.partition, first: max(end, now.first), end: now.end)
        }
    }

    /// Returns true if the topic of changes retains everything after a dead letter's change.
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
        // A replayed removal counts at its original position: changes that followed it there may follow it here.
        let place = self.place(ofReplay: record)
        let (partition, offset) = place.map { ($0.partition, $0.offset) } ?? (record.partition, record.offset)
        let last = self.orders[hash]?.removals[partition] ?? -1
        self.orders[hash]?.removals[partition] = max(last, offset)
    }

    /// The original position of a replayed change. Any sender can name a dead letter, so this must be the same change.
    private func place(ofReplay record: KafkaRecord) -> DeadLetterPosition? {
        let letter = record.headers.text(.replay).map { $0.split(separator: "/").suffix(2).joined(separator: "/") }
        guard let source = letter.flatMap({ DeadLetterPosition($0) }).flatMap({ self.sources[$0] }) else { return nil }
        let identity = DeadLetterRecord.identity(
            origin: "\(record.topic)/\(source.place)", key: record.key, content: record.value)
        return identity == source.identity ? source.place : nil
    }

    /// Adds a record of the topic of orders.
    mutating func add(order record: KafkaRecord) {
        let hash = DeadLetterRecord.orderHash(of: record)
        guard self.orders[hash] != nil else { return }
        self.orders[hash]?.isThere = record.value != nil
        if record.value == nil { self.orders[hash]?.goneMilliseconds = record.timestampMilliseconds }
    }

    func verdict(_ entry: DeadLetterIndex.Entry) -> Verdict {
        // Its changes are made anew, and none of them is known to have been there before a removal.
        if entry.isOfSource { return .stands }
        guard let order = self.orders[entry.order] else { return .unknown }
        if let source = entry.source, let removal = order.removals[source.partition], removal > source.offset {
            return .removed
        }
        if self.isCertain(entry) { return .stands }
        if let gone = order.goneMilliseconds, gone >= entry.milliseconds { return .removed }
        if order.isThere || order.goneMilliseconds != nil { return .stands }
        // The change came from another topic, of whose removals nothing is known.
        if entry.isElsewhere { return .unknown }
        guard let source = entry.source, let bounds = self.bounds[source.partition], source.offset < bounds.first
        else { return .stands }
        return .unknown
    }
}

extension DeadLetterTopic {
    /// Finds out which dead letters' orders were removed since.
    ///
    /// Reads the topic of changes from the oldest of their changes on, and the topic of orders only if the topic of
    /// changes lacks one of them.
    /// - Throws: `KafkaError`
    func removals(
        since entries: [DeadLetterIndex.Entry], of letters: DeadLetterIndex, topics: Topics
    ) async throws -> RemovalLedger {
        let ledger = Mutex(
            RemovalLedger(try await self.reader.boundsIfKnown(of: topics.orderChanges), entries, of: letters.entries))
        let changes = ledger.withLock { $0.ranges(entries) }
        try await self.reader.read(changes, of: topics.orderChanges) { records in
            ledger.withLock { ledger in for record in records { ledger.add(change: record) } }
        }
        let isCertain = ledger.withLock { ledger in entries.allSatisfy { ledger.isCertain($0) } }
        if !isCertain {
            try await self.reader.read(try await self.reader.boundsIfKnown(of: topics.orders), of: topics.orders) {
                records in
                ledger.withLock { ledger in for record in records { ledger.add(order: record) } }
            }
        }
        return ledger.withLock { $0 }
    }

    /// Adds the removals since `ledger` was made or last updated.
    func readOn(_ ledger: RemovalLedger, topics: Topics) async throws -> RemovalLedger {
        let ledger = Mutex(ledger)
        let bounds = try await self.reader.boundsIfKnown(of: topics.orderChanges)
        let changes = ledger.withLock { $0.readOn(to: bounds) }
        try await self.reader.read(changes, of: topics.orderChanges) { records in
            ledger.withLock { ledger in for record in records { ledger.add(change: record) } }
        }
        return ledger.withLock { $0 }
    }
}
