import DequeModule
import Kafka
import Model

/// Records whose order types must wait, folded by key and kept apart from the desk. No I/O, no clock.
///
/// The desk holds devices; this holds what they will be looked up by, so that it takes less, costs no lookup before
/// somebody can be told, and finds the push tokens that stand then. A key leaves when its lane has room.
/// Bounded: `room` says how many more records may come.
struct Parking {
    private struct Entry {
        var push: ParkedPush
        /// Grows whenever the slot is used for something else.
        var ticket: UInt32
        var isTaken: Bool
    }

    private struct Lane {
        /// Slots in the order in which they came, with their tickets; some have left.
        var queue: Deque<(slot: Int32, ticket: UInt32)> = []
        var count = 0
    }

    private let mostKeys: Int
    private let mostRecords: Int
    private var entries: [Entry] = []
    private var free: [Int32] = []
    private var slots: [PendingPushKey: Int32] = [:]
    private var lanes: [OrderTypeIdentifier: Lane] = [:]
    /// Those whose lookup failed, until they may be looked up again.
    private var resting = DueTimes()
    /// Records that are parked.
    private(set) var recordCount = 0

    init(keys: Int, records: Int) {
        self.mostKeys = keys
        self.mostRecords = records
    }

    var isEmpty: Bool { self.slots.isEmpty }
    /// Keys that are parked.
    var count: Int { self.slots.count }
    /// How many records may come.
    var room: Int { max(0, min(self.mostRecords - self.recordCount, self.mostKeys - self.slots.count)) }
    /// Keys of each order type.
    var counts: [OrderTypeIdentifier: Int] { self.lanes.mapValues(\.count) }

    func contains(_ key: PendingPushKey) -> Bool { self.slots[key] != nil }

    /// Keeps records until their key is taken out; those of a key that is here already wait with it.
    ///
    /// - Parameter due: when it may be taken out; nil: when there is room for it.
    mutating func park(_ push: ParkedPush, due: ContinuousClock.Instant? = nil) {
        self.recordCount += push.receipts.count
        if let slot = self.slots[push.key] {
            self.entries[Int(slot)].push.merge(push)
            return
        }
        let slot = self.newSlot(push)
        if let due {
            self.resting.add(later: .init(due: due, slot: slot, ticket: self.entries[Int(slot)].ticket))
        } else {
            self.enqueue(slot)
        }
    }

    /// Takes keys out whose devices are looked up next.
    ///
    /// - Parameters:
    ///   - openings: how many keys of each order type; round and round, so that none waits for another.
    ///   - records: most records of them together; the last key may reach over it.
    mutating func take(
        _ openings: [OrderTypeIdentifier: Int], records: Int, now: ContinuousClock.Instant
    ) -> [ParkedPush] {
        while let entry = self.resting.next(now: now) {
            if self.entries[Int(entry.slot)].ticket == entry.ticket { self.enqueue(entry.slot) }
        }
        var taken: [ParkedPush] = []
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
                taken.append(push)
            }
        }
        return taken
    }

    /// Forgets what is parked of some partitions, which go to somebody else.
    ///
    /// - Returns: the records that will not be done here.
    mutating func drop(_ partitions: Set<KafkaPartition>) -> [KafkaReceipt] {
        var dropped: [KafkaReceipt] = []
        for slot in self.entries.indices where self.entries[slot].isTaken {
            let receipts = self.entries[slot].push.receipts
            let leaving = receipts.filter { partitions.contains($0.kafkaPartition) }
            guard !leaving.isEmpty else { continue }
            dropped += leaving
            self.recordCount -= leaving.count
            if leaving.count == receipts.count {
                self.remove(slot)
            } else {
                self.entries[slot].push.receipts.removeAll { partitions.contains($0.kafkaPartition) }
            }
        }
        return dropped
    }

    // MARK: Internals

    private mutating func next(_ type: OrderTypeIdentifier) -> ParkedPush? {
        while let (slot, ticket) = self.lanes[type]?.queue.popFirst() {
            guard self.entries[Int(slot)].ticket == ticket else { continue }
            let push = self.entries[Int(slot)].push
            self.recordCount -= push.receipts.count
            self.remove(Int(slot))
            return push
        }
        return nil
    }

    private mutating func enqueue(_ slot: Int32) {
        let entry = self.entries[Int(slot)]
        self.lanes[entry.push.key.order.orderType]?.queue.append((slot, entry.ticket))
    }

    private mutating func newSlot(_ push: ParkedPush) -> Int32 {
        var push = push
        let type = push.key.order.orderType
        self.lanes[type, default: Lane()].count += 1
        // One text of the type for all its keys.
        if let index = self.lanes.index(forKey: type) {
            let order = OrderKey(orderType: self.lanes.keys[index], order: push.key.order.order)
            push.key = PendingPushKey(order: order, device: push.key.device)
        }
        let slot = self.free.popLast() ?? Int32(self.entries.count)
        self.slots[push.key] = slot
        if Int(slot) == self.entries.count {
            self.entries.append(Entry(push: push, ticket: 0, isTaken: true))
        } else {
            self.entries[Int(slot)].push = push
            self.entries[Int(slot)].isTaken = true
        }
        return slot
    }

    private mutating func remove(_ slot: Int) {
        let key = self.entries[slot].push.key
        self.slots[key] = nil
        self.entries[slot].push.receipts = []
        self.entries[slot].ticket &+= 1
        self.entries[slot].isTaken = false
        self.free.append(Int32(slot))
        let type = key.order.orderType
        self.lanes[type]?.count -= 1
        if self.lanes[type]?.count == 0 { self.lanes[type] = nil }
    }
}

extension KafkaReceipt {
    /// The partition that the record stands in.
    var kafkaPartition: KafkaPartition { KafkaPartition(topic: self.topic, partition: self.partition) }
}
