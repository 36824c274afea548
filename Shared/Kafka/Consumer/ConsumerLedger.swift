/// The partitions that this consumer owns, and the progress of each.
///
/// It decides what is committed: of each partition the contiguous prefix that is done, never of a partition that left.
/// A late result for a partition that left, even if it was assigned again, has no effect.
struct ConsumerLedger {
    private var ledgers: [KafkaPartition: PartitionLedger] = [:]
    /// The number of the last assignment; records carry the one under which they were read.
    private(set) var assignment: UInt64 = 0
    /// The number of records in hand, of all owned partitions.
    private(set) var inHand = 0

    var partitions: [KafkaPartition] {
        self.ledgers.keys.sorted { ($0.topic, $0.partition) < ($1.topic, $1.partition) }
    }

    mutating func add(_ partitions: some Sequence<KafkaPartition>) {
        self.assignment += 1
        self.remove(partitions)
        for partition in partitions { self.ledgers[partition] = PartitionLedger(assignment: self.assignment) }
    }

    mutating func remove(_ partitions: some Sequence<KafkaPartition>) {
        for partition in partitions {
            self.inHand -= self.ledgers.removeValue(forKey: partition)?.inHand ?? 0
        }
    }

    /// Notes records that are handed to the worker.
    mutating func handOut(_ records: [KafkaRecord]) {
        self.each(records.map(\.receipt)) { ledger, record in ledger.handOut(record.offset) }
        for (index, record) in records.enumerated() {
            let last = index > 0 ? records[index - 1] : nil
            if last?.partition == record.partition, last?.topic == record.topic { continue }
            let partition = KafkaPartition(topic: record.topic, partition: record.partition)
            self.ledgers[partition]?.mark(record.offset, record.timestampMilliseconds)
        }
    }

    /// Notes records whose work is done.
    mutating func finish(_ records: [KafkaReceipt]) {
        self.each(records) { ledger, record in ledger.finish(record.offset) }
    }

    /// Notes records that the worker will not process any more.
    mutating func letGo(_ records: [KafkaReceipt]) {
        self.each(records) { ledger, record in ledger.letGo(record.offset) }
    }

    /// Applies the worker's deferred and resumed records.
    mutating func apply(_ deferral: KafkaDeferral) {
        // First the changes that hold positions back, then those that release them.
        self.each(deferral.again) { ledger, record in ledger.handOutAgain(record.offset) }
        for (partition, offset) in deferral.holds { self.ledgers[partition]?.hold(offset) }
        self.each(deferral.putOff) { ledger, record in ledger.putOff(record.offset) }
    }

    /// Returns the progress of each topic.
    ///
    /// - Parameter end: the offset after the last record of a partition; nil if it is not known yet.
    func progress(_ end: (KafkaPartition) -> Int64?) -> [String: KafkaProgress] {
        var topics: [String: KafkaProgress] = [:]
        for (partition, ledger) in self.ledgers {
            topics[partition.topic, default: KafkaProgress()].add(ledger.progress(end: end(partition)))
        }
        return topics
    }

    /// Returns the progress in each topic.
    ///
    /// - Parameter ends: the offset after the last record of each partition, as far as it is known.
    func progress(_ ends: [KafkaPartition: Int64]) -> [String: KafkaProgress] {
        self.ledgers.reduce(into: [:]) { topics, entry in
            topics[entry.key.topic, default: KafkaProgress()].add(entry.value.progress(end: ends[entry.key]))
        }
    }

    /// Returns true if a partition has been owned without interruption since it was read under an assignment.
    func isOwned(_ partition: KafkaPartition, since assignment: UInt64) -> Bool {
        self.ledgers[partition].map { $0.assignment <= assignment } ?? false
    }

    /// Returns the number of records of some partitions that are in hand.
    func inHand(of partitions: Set<KafkaPartition>) -> Int {
        partitions.reduce(0) { $0 + (self.ledgers[$1]?.inHand ?? 0) }
    }

    /// The positions to be committed, at most one per partition, sorted.
    var committable: [KafkaPosition] {
        self.ledgers.compactMap { partition, ledger in
            ledger.position.map {
                KafkaPosition(topic: partition.topic, partition: partition.partition, offset: $0)
            }
        }.sorted { ($0.topic, $0.partition) < ($1.topic, $1.partition) }
    }

    /// Notes positions that the broker acknowledged.
    ///
    /// - Parameter assignment: the last one at the time when the positions were chosen.
    mutating func acknowledge(_ positions: [KafkaPosition], chosenIn assignment: UInt64) {
        for position in positions {
            let partition = KafkaPartition(topic: position.topic, partition: position.partition)
            guard let ledger = self.ledgers[partition], ledger.assignment <= assignment else { continue }
            self.ledgers[partition]?.acknowledge(position.offset)
        }
    }

    /// Calls `body` for each record whose partition is owned under the record's assignment, with one lookup for each
    /// run of records of one partition.
    private mutating func each(_ records: [KafkaReceipt], _ body: (inout PartitionLedger, KafkaReceipt) -> Void) {
        var index = 0
        while index < records.count {
            let (topic, number) = (records[index].topic, records[index].partition)
            let partition = KafkaPartition(topic: topic, partition: number)
            let start = index
            while index < records.count, records[index].partition == number, records[index].topic == topic {
                index += 1
            }
            // Removed, so that it is changed in place and not copied.
            guard var ledger = self.ledgers.removeValue(forKey: partition) else { continue }
            self.inHand -= ledger.inHand
            for record in records[start..<index] where record.assignment >= ledger.assignment { body(&ledger, record) }
            self.inHand += ledger.inHand
            self.ledgers[partition] = ledger
        }
    }
}

/// The records handed out of one partition since it was assigned, and the position up to which all of them are done.
///
/// Remembers only records that are not done yet, so it stays as small as the number in hand, however far the work gets
/// ahead of one record that must wait.
struct PartitionLedger {
    /// The assignment that brought the partition: records handed out under an earlier one do not count any more.
    let assignment: UInt64
    /// Offsets that were handed out, ascending. Those before `head` and those that are done are removed occasionally.
    private var offsets: [Int64] = []
    private var isDone: [Bool] = []
    private var head = 0
    /// The lowest offset that was let go: another member gets it again, so nothing after it may be committed.
    private var barrier: Int64?
    /// The lowest offset that the worker deferred: nothing from it on may be committed.
    private var held: Int64?
    /// The offset after the last one handed out; nil until one was.
    private var next: Int64?
    /// The position that the broker has, or the one at which reading began.
    private var committed: Int64 = 0
    /// The number of records that were handed out and are neither done nor let go.
    private(set) var inHand = 0
    /// Records that were in hand when offsets started over: the next result for each of these offsets may be theirs,
    /// so the present record of that offset is done with the result after it. At worst it is delivered again.
    private var former: [Int64: Int] = [:]
    /// The times of some records that were handed out, by offset, ascending: the first is at or before the first record
    /// that is not finished. At most `markLimit`.
    private var marks: [(offset: Int64, milliseconds: Int64)] = []
    static let markLimit = 128

    init(assignment: UInt64) { self.assignment = assignment }

    /// Notes a record that is handed to the worker. If its offset is lower than expected, as in a topic that was
    /// recreated, the ledger starts over.
    mutating func handOut(_ offset: Int64) {
        if let next = self.next, offset < next { self.startOver() }
        if self.next == nil { self.committed = offset }
        self.offsets.append(offset)
        self.isDone.append(false)
        // An offset is below Int64.max: the broker counts records.
        self.next = offset &+ 1
        self.inHand += 1
    }

    /// Notes the time of a record that was handed out, in milliseconds since 1970; -1 if it has none.
    mutating func mark(_ offset: Int64, _ milliseconds: Int64) {
        guard milliseconds >= 0, let next = self.next, offset < next else { return }
        let first = self.first ?? offset
        let past = (self.marks.firstIndex { $0.offset > first } ?? self.marks.count) - 1
        if past > 0 { self.marks.removeFirst(past) }
        self.marks.append((offset, milliseconds))
        guard self.marks.count > Self.markLimit else { return }
        // The first one is the most important: it tells how long the first unfinished record has waited.
        self.marks = self.marks.enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
    }

    /// The first record that is not finished, in hand or deferred; nil: all that were handed out are.
    private var first: Int64? {
        let inHand = self.head < self.offsets.count ? self.offsets[self.head] : nil
        return [inHand, self.held].compactMap(\.self).min()
    }

    /// Returns the progress.
    ///
    /// - Parameter end: the offset after the partition's last record; nil if it is not known.
    func progress(end: Int64?) -> KafkaProgress {
        guard let next = self.next else { return KafkaProgress() }
        let end = max(end ?? next, next)
        let oldest = self.first.flatMap { first in self.marks.last { $0.offset <= first } }
        return KafkaProgress(
            unworked: end - next + Int64(self.inHand), committedLag: end - min(self.committed, next),
            oldestEpochMilliseconds: oldest?.milliseconds)
    }

    /// - Returns: true if it was in hand.
    @discardableResult
    mutating func finish(_ offset: Int64) -> Bool { self.remove(offset) }

    /// Notes that a record will not be processed here.
    mutating func letGo(_ offset: Int64) {
        guard self.remove(offset) else { return }
        self.barrier = min(self.barrier ?? offset, offset)
    }

    /// Notes that a record that was handed out is deferred: it is read again later. `hold` keeps its position.
    mutating func putOff(_ offset: Int64) { _ = self.remove(offset) }

    /// Notes a record that was deferred, was read again and is handed to the worker.
    mutating func handOutAgain(_ offset: Int64) {
        guard let next = self.next, offset < next else { return }
        let index = self.place(of: offset)
        if index < self.offsets.count, self.offsets[index] == offset {
            guard self.isDone[index] else { return }
            self.isDone[index] = false
        } else if index == self.head, self.head > 0 {
            // It takes the slot of a record that is done and forgotten.
            self.head -= 1
            self.offsets[self.head] = offset
            self.isDone[self.head] = false
        } else {
            self.offsets.insert(offset, at: index)
            self.isDone.insert(false, at: index)
        }
        self.inHand += 1
    }

    /// Sets the lowest deferred offset; nil if none is deferred.
    mutating func hold(_ offset: Int64?) { self.held = offset }

    /// The position to continue reading from, as far as everything before it is done; nil if the broker has it already.
    var position: Int64? {
        guard let next = self.next else { return nil }
        let first = self.head < self.offsets.count ? self.offsets[self.head] : next
        let position = min(first, self.barrier ?? first, self.held ?? first)
        return position > self.committed ? position : nil
    }

    /// Notes a position that the broker acknowledged. One after all that was handed out is of a topic that was
    /// recreated meanwhile.
    mutating func acknowledge(_ position: Int64) {
        guard let next = self.next, position <= next else { return }
        self.committed = max(self.committed, position)
    }

    private mutating func startOver() {
        var ledger = PartitionLedger(assignment: self.assignment)
        ledger.former = self.former
        for index in self.head..<self.offsets.count where !self.isDone[index] {
            ledger.former[self.offsets[index], default: 0] += 1
        }
        self = ledger
    }

    private mutating func remove(_ offset: Int64) -> Bool {
        if !self.former.isEmpty, let count = self.former[offset] {
            self.former[offset] = count > 1 ? count - 1 : nil
            return false
        }
        guard let index = self.index(of: offset), !self.isDone[index] else { return false }
        self.isDone[index] = true
        self.inHand -= 1
        while self.head < self.offsets.count, self.isDone[self.head] { self.head += 1 }
        self.forget()
        return true
    }

    /// Frees finished entries once they are the majority, so that each offset is moved only a few times.
    private mutating func forget() {
        guard self.offsets.count > 64, self.inHand * 2 <= self.offsets.count else { return }
        self.offsets = self.offsets.indices.filter { !self.isDone[$0] }.map { self.offsets[$0] }
        self.isDone = Array(repeating: false, count: self.offsets.count)
        self.head = 0
    }

    private func index(of offset: Int64) -> Int? {
        // Usually it is the oldest one.
        if self.head < self.offsets.count, self.offsets[self.head] == offset { return self.head }
        let index = self.place(of: offset)
        return index < self.offsets.count && self.offsets[index] == offset ? index : nil
    }

    /// Returns the index of the first offset that is not lower.
    private func place(of offset: Int64) -> Int {
        var (low, high) = (self.head, self.offsets.count)
        while low < high {
            let middle = low + (high - low) / 2
            if self.offsets[middle] < offset { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
