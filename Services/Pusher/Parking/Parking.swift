import DequeModule
import Kafka
import Model
import Synchronization

/// Records whose order types must wait, folded by key and kept apart from the scheduler. No I/O, no clock.
///
/// The scheduler holds devices; this holds only the keys to look up, which takes less memory, costs no lookup before a
/// device can be notified, and then finds the current push tokens. A key leaves when its order type has room.
///
/// A key has records of the shared topics, whose offsets cannot advance meanwhile, or one of the pending topic, whose
/// offset may stay for days, or both. After a few seconds the former are written to the pending topic and done;
/// immediately while the parking is crowded, since records of other order types follow them in the same partitions.
/// Bounded: `room` and `pendingRoom` are the numbers of further records that may be added.
struct Parking {
    struct Limits {
        /// Most keys that have only records of shared topics, and most records of shared topics.
        var keys: Int
        var records: Int
        /// Most keys that have a record of the pending topic.
        var pending: Int
    }

    private struct Entry {
        var push: ParkedPush
        /// The newest record of the pending topic for this key.
        var pending: KafkaReceipt?
        /// Records of `push` that are being written to the pending topic; the entry is not taken out meanwhile.
        var writing: [KafkaReceipt] = []
        /// Grows whenever the slot is reused, or leaves its queue.
        var ticket: UInt32
        var isUsed = true
        /// True if it waits until its partition of the pending topic was read to the end.
        var isHeld = false
        var isWriting = false

        var isEmpty: Bool { self.push.receipts.isEmpty && self.writing.isEmpty && self.pending == nil }
    }

    private struct TypeQueue {
        /// Slots in order of arrival, with their tickets; some are stale.
        var keys: Deque<(slot: Int32, ticket: UInt32)> = []
        var count = 0
    }

    /// The number of slots examined in one call.
    private static let staleStep = 4096

    private let limits: Limits
    let pendingTopic: String
    private var entries: [Entry] = []
    private var free: [Int32] = []
    /// The slot that the search for keys that are too old examined last.
    private var staleCursor = 0
    private var slots: [PendingPushKey: Int32] = [:]
    private var queues: [OrderTypeIdentifier: TypeQueue] = [:]
    /// Keys whose lookup must be repeated, until they may be looked up again.
    private var resting = DueTimes()
    /// Keys with records of shared topics, and the time since which they have them.
    private var unwritten: Deque<(key: PendingPushKey, since: MonotonicTime)> = []
    /// Records of the pending topic that were taken out, and their keys.
    private var taken: [Position: PendingPushKey] = [:]
    /// Records of shared topics that are parked.
    private(set) var recordCount = 0
    /// Keys that have a record of the pending topic.
    private(set) var pendingCount = 0
    private(set) var folds = PendingFolds()

    /// The position of a record of the pending topic.
    private struct Position: Hashable {
        let partition: Int32
        let offset: Int64

        init(_ receipt: KafkaReceipt) {
            self.partition = receipt.partition
            self.offset = receipt.offset
        }
    }

    init(_ limits: Limits, pendingTopic: String) {
        self.limits = limits
        self.pendingTopic = pendingTopic
        // A growing table delays everything while it is copied; memory that is not written to costs nothing.
        self.slots.reserveCapacity(limits.keys + limits.pending)
        self.entries.reserveCapacity(limits.keys + limits.pending)
    }

    var isEmpty: Bool { self.slots.isEmpty }
    /// Keys that are parked.
    var count: Int { self.slots.count }
    /// The number of records of shared topics that may be added.
    var room: Int {
        max(0, min(self.limits.records - self.recordCount, self.limits.keys - (self.slots.count - self.pendingCount)))
    }
    /// True if more than half of the room for records of shared topics is taken.
    var isCrowded: Bool { self.room < min(self.limits.records, self.limits.keys) / 2 }
    /// The number of records of the pending topic that may be added.
    var pendingRoom: Int { max(0, self.limits.pending - self.pendingCount) }
    /// Keys of each order type.
    var counts: [OrderTypeIdentifier: Int] { self.queues.mapValues(\.count) }
    /// True if records of the pending topic were taken out and are not done.
    var hasTaken: Bool { !self.taken.isEmpty }

    func contains(_ key: PendingPushKey) -> Bool { self.slots[key] != nil }

    /// Stores records until their key is taken out; records of a parked key are merged with it.
    ///
    /// - Parameter due: the time from which it may be taken out; nil: as soon as there is room for it.
    /// - Returns: a record of the pending topic that is done, since there is a newer one of its key.
    mutating func park(
        _ push: ParkedPush, due: MonotonicTime? = nil, now: MonotonicTime
    ) -> KafkaReceipt? {
        var push = push
        var pending: KafkaReceipt?
        if let index = push.receipts.firstIndex(where: { $0.topic == self.pendingTopic }) {
            pending = push.receipts.remove(at: index)
        }
        if let pending { self.taken[Position(pending)] = nil }
        self.recordCount += push.receipts.count
        let isNew = self.slots[push.key] == nil
        let slot = Int(self.slots[push.key] ?? self.newSlot(push))
        let hadRecords = !isNew && !self.entries[slot].push.receipts.isEmpty
        if !isNew { self.entries[slot].push.merge(push) }
        if !push.receipts.isEmpty, !hadRecords { self.noteUnwritten(self.entries[slot].push.key, now) }
        let old = self.entries[slot].pending
        var done: KafkaReceipt?
        if let pending {
            if old == nil { self.pendingCount += 1 }
            let isNewer = old.map { $0.partition != pending.partition || $0.offset < pending.offset } ?? true
            self.entries[slot].pending = isNewer ? pending : old
            done = isNewer ? old : pending
        }
        guard isNew else { return done }
        if let due {
            self.resting.add(.init(due: due, slot: Int32(slot), ticket: self.entries[slot].ticket))
        } else if pending.map({ self.folds.isOpen($0.partition) }) ?? true {
            self.enqueue(slot)
        } else {
            self.entries[slot].isHeld = true
        }
        return done
    }

    /// Takes out the keys whose devices are looked up next.
    ///
    /// - Parameters:
    ///   - openings: the number of keys of each order type; taken in rotation, so that no type waits for another.
    ///   - records: most records of them together; the last key may exceed it.
    mutating func take(
        _ openings: [OrderTypeIdentifier: Int], records: Int, now: MonotonicTime
    ) -> [ParkedPush] {
        while let entry = self.resting.next(now: now) {
            if self.entries[Int(entry.slot)].ticket == entry.ticket { self.enqueue(Int(entry.slot)) }
        }
        var pushes: [ParkedPush] = []
        var open = openings.filter { $0.value > 0 }
        var count = 0
        while !open.isEmpty, count < records {
            for (type, room) in open {
                guard room > 0, count < records, let push = self.next(type) else {
                    open[type] = nil
                    continue
                }
                open[type] = room - 1
                count += push.receipts.count
                pushes.append(push)
            }
        }
        return pushes
    }

    /// Drops the parked records of revoked partitions.
    ///
    /// - Returns: the records that will not be finished here.
    mutating func drop(_ partitions: Set<KafkaPartition>) -> [KafkaReceipt] {
        func isLeaving(_ receipt: KafkaReceipt) -> Bool {
            partitions.contains(KafkaPartition(topic: receipt.topic, partition: receipt.partition))
        }
        var dropped: [KafkaReceipt] = []
        for slot in self.entries.indices where self.entries[slot].isUsed {
            let leaving = (self.entries[slot].push.receipts + self.entries[slot].writing).filter(isLeaving)
            if !leaving.isEmpty {
                self.entries[slot].push.receipts.removeAll(where: isLeaving)
                self.entries[slot].writing.removeAll(where: isLeaving)
                self.recordCount -= leaving.count
                dropped += leaving
            }
            if let pending = self.entries[slot].pending, isLeaving(pending) {
                self.entries[slot].pending = nil
                self.pendingCount -= 1
                dropped.append(pending)
            }
            self.releaseOrRemove(slot)
        }
        for partition in partitions where partition.topic == self.pendingTopic {
            self.folds.forget(partition.partition)
            self.taken = self.taken.filter { $0.key.partition != partition.partition }
        }
        return dropped
    }

    /// Takes out the keys whose newest change is too old for a notification, from the next part of the slots.
    ///
    /// - Parameter moment: the time before which changes are too old, in milliseconds since 1970.
    mutating func takeStale(before moment: Int64) -> [ParkedPush] {
        (0..<min(Self.staleStep, self.entries.count)).compactMap { _ in
            self.staleCursor = self.staleCursor + 1 < self.entries.count ? self.staleCursor + 1 : 0
            let slot = self.staleCursor
            guard self.entries[slot].isUsed, !self.entries[slot].isWriting,
                self.entries[slot].push.epochMilliseconds >= 0, self.entries[slot].push.epochMilliseconds < moment
            else { return nil }
            return self.takeOut(slot)
        }
    }

    // MARK: the pending topic

    /// Chooses the keys to write to the pending topic: those that have had records of shared topics since a given time.
    ///
    /// - Returns: at most `most`; each must be followed by `written`.
    mutating func takeOverdue(since moment: MonotonicTime, most: Int) -> [ParkedPush] {
        var overdue: [ParkedPush] = []
        while overdue.count < most, let first = self.unwritten.first, first.since <= moment {
            self.unwritten.removeFirst()
            guard let slot = self.slots[first.key].map(Int.init), !self.entries[slot].isWriting,
                !self.entries[slot].push.receipts.isEmpty
            else { continue }
            overdue.append(self.entries[slot].push)
            self.entries[slot].isWriting = true
            self.entries[slot].writing = self.entries[slot].push.receipts
            self.entries[slot].push.receipts = []
            self.entries[slot].ticket &+= 1
        }
        return overdue
    }

    /// Notes if a key that `takeOverdue` chose was written to the pending topic.
    ///
    /// - Returns: its records, which are done; none if it was not written.
    mutating func written(_ key: PendingPushKey, _ isDone: Bool, now: MonotonicTime) -> [KafkaReceipt] {
        guard let slot = self.slots[key].map(Int.init), self.entries[slot].isWriting else { return [] }
        let records = self.entries[slot].writing
        self.entries[slot].writing = []
        self.entries[slot].isWriting = false
        if isDone {
            self.recordCount -= records.count
        } else {
            self.entries[slot].push.receipts = records + self.entries[slot].push.receipts
        }
        if self.entries[slot].isEmpty {
            self.remove(slot)
        } else {
            if !self.entries[slot].push.receipts.isEmpty { self.noteUnwritten(key, now) }
            self.enqueue(slot)
        }
        return isDone ? records : []
    }

    /// Processes a tombstone: its key was notified by this process, or by a former owner of the partition.
    ///
    /// - Parameter offset: that of the last record of the key that is done, as are those before it.
    /// - Returns: the parked record that is done; nil if there is none.
    mutating func notified(_ key: PendingPushKey, partition: Int32, through offset: Int64) -> KafkaReceipt? {
        guard let slot = self.slots[key].map(Int.init), let pending = self.entries[slot].pending,
            pending.partition == partition, pending.offset <= offset
        else { return nil }
        self.entries[slot].pending = nil
        self.pendingCount -= 1
        self.releaseOrRemove(slot)
        return pending
    }

    /// Notes that a record of the pending topic that was taken out is done.
    ///
    /// - Returns: its key, and true if a newer record of the key waits; nil: it was not taken out.
    mutating func finish(_ receipt: KafkaReceipt) -> (key: PendingPushKey, isReplaced: Bool)? {
        guard let key = self.taken.removeValue(forKey: Position(receipt)) else { return nil }
        guard let slot = self.slots[key], let pending = self.entries[Int(slot)].pending else { return (key, false) }
        return (key, pending.partition == receipt.partition && pending.offset > receipt.offset)
    }

    /// Begins a partition of the pending topic: none of its records is taken out before it was read up to an offset.
    mutating func beginFold(_ partition: Int32, to end: Int64, now: MonotonicTime) {
        self.folds.begin(partition, to: end, now: now)
    }

    /// Notes that a partition of the pending topic was read up to an offset.
    mutating func advanceFold(_ partition: Int32, to next: Int64, now: MonotonicTime) {
        if self.folds.advance(partition, to: next, now: now) { self.openPartitions([partition]) }
    }

    /// Forgets a partition of the pending topic that is not assigned to this process.
    mutating func forgetFold(_ partition: Int32) { self.folds.forget(partition) }

    /// Treats partitions that had no record for `PendingFolds.quiet` as read to their end: the last offsets may hold no
    /// records.
    mutating func endQuietFolds(now: MonotonicTime) {
        let quiet = self.folds.endQuiet(now: now)
        if !quiet.isEmpty { self.openPartitions(Set(quiet)) }
    }

    // MARK: Internals

    /// - Parameter since: not earlier than in earlier calls.
    private mutating func noteUnwritten(_ key: PendingPushKey, _ since: MonotonicTime) {
        self.unwritten.append((key, since))
        // Keys that were taken out are skipped when they are overdue; while nothing is written, they would accumulate.
        guard let first = self.unwritten.first, self.unwritten.count > 2 * (self.limits.keys + self.limits.pending)
        else { return }
        self.unwritten = Deque(
            self.entries.lazy.filter { !$0.push.receipts.isEmpty }.map { ($0.push.key, first.since) })
    }

    /// Removes an entry of which nothing is left, and queues one that a record of the pending topic no longer holds
    /// back.
    private mutating func releaseOrRemove(_ slot: Int) {
        if self.entries[slot].isEmpty {
            self.remove(slot)
        } else if self.entries[slot].isHeld, self.entries[slot].pending == nil, !self.entries[slot].isWriting {
            self.enqueue(slot)
        }
    }

    private mutating func openPartitions(_ partitions: Set<Int32>) {
        for slot in self.entries.indices where self.entries[slot].isUsed && !self.entries[slot].isWriting {
            guard self.entries[slot].isHeld, let pending = self.entries[slot].pending,
                partitions.contains(pending.partition)
            else { continue }
            self.enqueue(slot)
        }
    }

    private mutating func next(_ type: OrderTypeIdentifier) -> ParkedPush? {
        while let (slot, ticket) = self.queues[type]?.keys.popFirst() {
            guard self.entries[Int(slot)].ticket == ticket else { continue }
            return self.takeOut(Int(slot))
        }
        return nil
    }

    private mutating func takeOut(_ slot: Int) -> ParkedPush {
        var push = self.entries[slot].push
        self.recordCount -= push.receipts.count
        if let pending = self.entries[slot].pending {
            push.receipts.append(pending)
            self.taken[Position(pending)] = push.key
            self.pendingCount -= 1
        }
        self.remove(slot)
        return push
    }

    private mutating func enqueue(_ slot: Int) {
        self.entries[slot].isHeld = false
        self.entries[slot].ticket &+= 1
        let entry = self.entries[slot]
        self.queues[entry.push.key.order.orderType]?.keys.append((Int32(slot), entry.ticket))
    }

    private mutating func newSlot(_ push: ParkedPush) -> Int32 {
        var push = push
        let type = push.key.order.orderType
        self.queues[type, default: TypeQueue()].count += 1
        // All keys of a type share one string for it.
        if let index = self.queues.index(forKey: type) {
            let order = OrderKey(orderType: self.queues.keys[index], order: push.key.order.order)
            push.key = PendingPushKey(order: order, device: push.key.device)
        }
        let slot = self.free.popLast() ?? Int32(self.entries.count)
        self.slots[push.key] = slot
        if Int(slot) == self.entries.count {
            self.entries.append(Entry(push: push, ticket: 0))
        } else {
            self.entries[Int(slot)] = Entry(push: push, ticket: self.entries[Int(slot)].ticket)
        }
        return slot
    }

    private mutating func remove(_ slot: Int) {
        let key = self.entries[slot].push.key
        self.slots[key] = nil
        self.entries[slot].push.receipts = []
        self.entries[slot].pending = nil
        self.entries[slot].ticket &+= 1
        self.entries[slot].isUsed = false
        self.free.append(Int32(slot))
        let type = key.order.orderType
        self.queues[type]?.count -= 1
        if self.queues[type]?.count == 0 { self.queues[type] = nil }
    }
}

/// The progress of reading each partition of the pending topic up to the end that it had on assignment: before that,
/// the tombstone of a record may not be read yet.
///
/// Bounded: one entry for each partition.
struct PendingFolds {
    /// The time without a record after which a partition counts as read to its end: the last offsets may hold no
    /// records.
    static let quiet = Duration.seconds(10)

    private struct Fold {
        let end: Int64
        var movedAt: MonotonicTime
    }

    private var known: Set<Int32> = []
    private var underWay: [Int32: Fold] = [:]

    /// True if `begin` was called for a partition.
    func isKnown(_ partition: Int32) -> Bool { self.known.contains(partition) }

    /// True if records read from a partition may be taken out.
    func isOpen(_ partition: Int32) -> Bool { self.known.contains(partition) && self.underWay[partition] == nil }

    /// - Parameter end: the offset after the last record.
    mutating func begin(_ partition: Int32, to end: Int64, now: MonotonicTime) {
        self.known.insert(partition)
        self.underWay[partition] = Fold(end: end, movedAt: now)
    }

    /// - Parameter next: the offset that is read next.
    /// - Returns: true if this opened the partition.
    mutating func advance(_ partition: Int32, to next: Int64, now: MonotonicTime) -> Bool {
        guard let fold = self.underWay[partition] else { return false }
        guard next < fold.end else {
            self.underWay[partition] = nil
            return true
        }
        self.underWay[partition]?.movedAt = now
        return false
    }

    /// - Returns: the partitions that were opened.
    mutating func endQuiet(now: MonotonicTime) -> [Int32] {
        let quiet = self.underWay.filter { now - $0.value.movedAt >= Self.quiet }.map(\.key)
        for partition in quiet { self.underWay[partition] = nil }
        return quiet
    }

    mutating func forget(_ partition: Int32) {
        self.known.remove(partition)
        self.underWay[partition] = nil
    }
}

/// The parked keys, shared by the code that parks them, looks them up, writes them to the pending topic, and drops
/// those of revoked partitions.
///
/// Owner: the worker. Thread: any. Under the lock nothing is called but `Parking` and the bodies of `with`. Bounded: by
/// `Parking`.
final class PushParking: Sendable {
    private let state: Mutex<Parking>

    init(limits: PushLimits, topics: Topics) {
        let parking = Parking(
            Parking.Limits(keys: limits.parkedKeys, records: limits.parkedRecords, pending: limits.pendingKeys),
            pendingTopic: topics.pushPending)
        self.state = Mutex(parking)
    }

    /// Removes from a batch the records that must wait: those of some order types, and those of keys that are parked
    /// already.
    ///
    /// - Returns: the entries to be parked, and their records as indices of the batch.
    func setAside(
        _ batch: inout PushBatch, of types: Set<OrderTypeIdentifier>
    ) -> [(push: ParkedPush, records: [Int])] {
        self.state.withLock { parking in
            if parking.isEmpty, types.isEmpty { return [] }
            return batch.setAside { types.contains($0.order.orderType) || parking.contains($0) }
        }
    }

    /// - Parameter due: the time from which they may be looked up; nil: as soon as there is room.
    /// - Returns: records of the pending topic that are done, since there are newer ones of their keys.
    @discardableResult
    func park(_ pushes: [ParkedPush], due: MonotonicTime? = nil) -> [KafkaReceipt] {
        let now = MonotonicTime.now
        return self.state.withLock { parking in pushes.compactMap { parking.park($0, due: due, now: now) } }
    }

    /// Drops the records of revoked partitions.
    ///
    /// - Returns: their records that will not be finished here.
    func drop(_ partitions: Set<KafkaPartition>) -> [KafkaReceipt] { self.state.withLock { $0.drop(partitions) } }

    /// Runs `body` with the parked keys; it must not block.
    func with<Value: Sendable>(_ body: (inout sending Parking) -> sending Value) -> Value {
        self.state.withLock { body(&$0) }
    }
}
