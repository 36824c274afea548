import Kafka
import Model

/// Everything that the pusher has in hand: the devices to be notified of each record, and when. No I/O, no clock, no
/// task.
///
/// A record is in hand until every device that it concerns was notified, or will not be. A device is notified once for
/// all records that came within its window; those that come while a notification is in flight make another one, since
/// it is unknown if the device asks before or after them.
///
/// ```
/// waiting -> ready -> in flight -> (settling) -> gone, or waiting again for what came meanwhile
///    ^-------------------'  again later
/// ```
///
/// Bounded by `PushLimits`: `room` is the number of records that may come in; devices of these records may exceed it.
struct PushStateMachine {
    /// One record that is in hand.
    struct Record {
        let receipt: KafkaReceipt
        /// The time when the change was published, milliseconds since 1970; -1: not known, or not a change.
        let epochMilliseconds: Int64
        /// True if it is in a topic where it may wait for long.
        let isPending: Bool
        /// The number of devices yet to be notified, plus one for a lookup that is not done.
        var open: Int32
        /// True if its devices are not all known yet.
        var isLooking = true
        /// True if its partition leaves: notifications in flight may still finish it.
        var isLeaving = false
        /// True if it was let go: no device is notified for it any more.
        var isDropped = false
    }

    /// A record that concerns a target, with the registration that links them.
    struct Link {
        let record: Int32
        let device: DeviceIdentifier
        let order: OrderIdentifier
        let registeredEpochMilliseconds: Int64
    }

    /// The place of a target.
    enum Place: UInt8 {
        /// The slot is free.
        case nowhere
        /// Waits for its time, which is in `due`.
        case waiting
        /// Waits for its turn with its credential.
        case ready
        /// With the client; it comes back by its number.
        case inFlight
        /// It has its verdict, and an effect must be performed before its records are done.
        case settling
    }

    struct Target {
        let key: Key
        var place = Place.nowhere
        /// Grows whenever the target moves: a reference with an old one is stale.
        var ticket: UInt32 = 0
        /// The links of the next notification.
        var waiting: [Link] = []
        /// The links of the one in flight.
        var sent: [Link] = []
        /// The time when the first of `waiting` came.
        var since: ContinuousClock.Instant
        var tries: PushAttempts
        var queue: Int32 { self.key.queue }
        var token: PushToken { self.key.token }

        /// Makes the waiting links the sent ones, or the other way round: for a target with one of them empty.
        mutating func exchange() { swap(&self.sent, &self.waiting) }
    }

    /// The device to be notified, and the credential. The token is hashed once, not at each lookup.
    struct Key: Hashable {
        let queue: Int32
        let token: PushToken
        /// Seeded differently in each process.
        let hash: Int

        init(queue: Int32, token: PushToken) {
            self.queue = queue
            self.token = token
            var hasher = Hasher()
            hasher.combine(queue)
            hasher.combine(token)
            self.hash = hasher.finalize()
        }

        func hash(into hasher: inout Hasher) { hasher.combine(self.hash) }
    }

    /// Order types come with the records' keys: this many without a brand get letters.
    static let queueLimit = 1000
    /// The reason for letters about orders whose brand is not loaded.
    static let brandless = "no brand is loaded for the order type"

    let limits: PushLimits
    /// The topic for devices that wait too long; nil: it cannot be used, they stay.
    var pendingTopic: String?
    /// True if the topic is known not to be usable; before that, it may still be searched for.
    var lacksPendingTopic = false
    /// The slot where the search for devices that wait too long continues.
    var suspendCursor = 0
    var records: [Record] = []
    private var freeRecords: [Int32] = []
    var targets: [Target] = []
    private var freeTargets: [Int32] = []
    private var slots: [Key: Int32] = [:]
    var queues: [CredentialQueue] = []
    private var queueNumbers: [OrderTypeIdentifier: Int] = [:]
    var due = DueTimes()
    var hourly: HourlyLimit
    /// Receipts of records that are done, until they are taken.
    private var finished: [KafkaReceipt] = []
    /// Receipts of records that were let go outside `drop`.
    var lateDrops: [KafkaReceipt] = []
    /// The counts of notifications of order types without a brand, which have no queue.
    var unknownTypes = PushCounts()
    private(set) var linkCount = 0
    var settlingCount = 0
    private var lastSerial: UInt64 = 0

    /// - Parameter now: earlier than all later times.
    init(limits: PushLimits, now: ContinuousClock.Instant) {
        self.limits = limits
        self.hourly = HourlyLimit(perHour: limits.hourlyLimit, now: now)
        // A table that grows holds everybody up while it moves; memory that is not written to costs nothing.
        self.slots.reserveCapacity(limits.targets)
        self.targets.reserveCapacity(limits.targets)
        self.records.reserveCapacity(limits.records)
    }

    var recordCount: Int { self.records.count - self.freeRecords.count }
    var targetCount: Int { self.targets.count - self.freeTargets.count }

    /// The number of records that may come in.
    var room: Int {
        max(
            0,
            min(
                self.limits.records - self.recordCount, self.limits.targets - self.targetCount,
                self.limits.links - self.linkCount))
    }

    // MARK: queues

    /// The queue of an order type, which without a brand is closed; nil: there are too many without one.
    mutating func queue(of type: OrderTypeIdentifier, now: ContinuousClock.Instant) -> Int? {
        if let number = self.queueNumbers[type] { return number }
        guard self.queues.count < Self.queueLimit else { return nil }
        let number = self.open(type, generation: 0, now: now)
        self.queues[number].isOpen = false
        return number
    }

    /// The queue of an order type; nil: it was never needed.
    func number(of type: OrderTypeIdentifier) -> Int? { self.queueNumbers[type] }

    /// Opens the queue of a brand, or gives it another credential.
    ///
    /// - Parameter generation: that of the credential, different each time; replies carry it.
    mutating func open(_ type: OrderTypeIdentifier, generation: Int, now: ContinuousClock.Instant) -> Int {
        if let number = self.queueNumbers[type] {
            self.queues[number].renew(generation, now: now)
            return number
        }
        self.queues.append(CredentialQueue(type, generation: generation, limits: self.limits, now: now))
        self.queueNumbers[type] = self.queues.count - 1
        return self.queues.count - 1
    }

    /// A brand is gone: notifications that wait for it are given up.
    mutating func close(_ type: OrderTypeIdentifier) {
        if let number = self.queueNumbers[type] { self.queues[number].isOpen = false }
    }

    // MARK: records

    /// Adds records whose devices are not looked up yet.
    ///
    /// - Returns: their numbers, in order; `endLookup` must be called for each.
    mutating func receive(_ taken: [(receipt: KafkaReceipt, epochMilliseconds: Int64)]) -> [Int32] {
        taken.map { receipt, milliseconds in
            let record = Record(
                receipt: receipt, epochMilliseconds: milliseconds, isPending: receipt.topic == self.pendingTopic,
                open: 1)
            if let free = self.freeRecords.popLast() {
                self.records[Int(free)] = record
                return free
            }
            self.records.append(record)
            return Int32(self.records.count - 1)
        }
    }

    /// All devices of these records are known at this point. A number below zero means a record that was withdrawn.
    mutating func endLookup(_ numbers: [Int32]) {
        for number in numbers where number >= 0 {
            self.records[Int(number)].isLooking = false
            self.release(number)
        }
    }

    /// Withdraws a record that was added and not looked up.
    ///
    /// - Returns: false if its partition left meanwhile: it has been let go already.
    mutating func withdraw(_ number: Int32) -> Bool {
        let index = Int(number)
        self.records[index].open = 0
        self.records[index].isLooking = false
        self.freeRecords.append(number)
        return !self.records[index].isDropped
    }

    /// A device must be notified.
    mutating func tell(_ token: PushToken, of link: Link, in queue: Int, now: ContinuousClock.Instant) {
        guard !self.records[Int(link.record)].isDropped else { return }
        self.records[Int(link.record)].open += 1
        self.linkCount += 1
        self.queues[queue].links += 1
        let slot = self.slot(of: Key(queue: Int32(queue), token: token), now: now)
        if self.targets[slot].waiting.isEmpty {
            self.targets[slot].since = now
        } else {
            self.queues[queue].counts.coalesced += 1
        }
        self.targets[slot].waiting.append(link)
        if self.targets[slot].place == .nowhere { self.openWindow(slot) }
    }

    /// One thing that a record waited for is over.
    private mutating func release(_ number: Int32) {
        let index = Int(number)
        self.records[index].open -= 1
        guard self.records[index].open == 0 else { return }
        if !self.records[index].isDropped { self.finished.append(self.records[index].receipt) }
        self.freeRecords.append(number)
    }

    /// Removes and returns the receipts of finished records.
    mutating func takeFinished() -> [KafkaReceipt] {
        defer { self.finished.removeAll() }
        return self.finished
    }

    // MARK: targets

    /// These links of a target are not waited for any more.
    mutating func end(_ links: [Link], of slot: Int) {
        guard !links.isEmpty else { return }
        let queue = Int(self.targets[slot].queue)
        self.linkCount -= links.count
        self.queues[queue].links -= links.count
        for link in links { self.release(link.record) }
    }

    /// The next notification for a target is due at the end of its window.
    mutating func openWindow(_ slot: Int) {
        self.targets[slot].place = .waiting
        let due = self.targets[slot].since + self.limits.window
        self.due.add(window: .init(due: due, slot: Int32(slot), ticket: self.newTicket(slot)))
    }

    /// Makes a target due at some other time.
    mutating func wait(_ slot: Int, until due: ContinuousClock.Instant) {
        self.targets[slot].place = .waiting
        self.due.add(later: .init(due: due, slot: Int32(slot), ticket: self.newTicket(slot)))
    }

    /// The initial attempts of a notification that was not sent yet.
    mutating func freshTries(now: ContinuousClock.Instant) -> PushAttempts {
        self.lastSerial &+= 1
        return PushAttempts(serial: self.lastSerial, now: now)
    }

    mutating func newTicket(_ slot: Int) -> UInt32 {
        self.targets[slot].ticket &+= 1
        return self.targets[slot].ticket
    }

    /// Removes a target for which nothing waits.
    mutating func remove(_ slot: Int) {
        self.slots[self.targets[slot].key] = nil
        self.targets[slot].place = .nowhere
        _ = self.newTicket(slot)
        self.targets[slot].waiting = []
        self.targets[slot].sent = []
        self.freeTargets.append(Int32(slot))
    }

    private mutating func slot(of key: Key, now: ContinuousClock.Instant) -> Int {
        if let slot = self.slots[key] { return Int(slot) }
        var target = Target(key: key, since: now, tries: self.freshTries(now: now))
        guard let free = self.freeTargets.popLast() else {
            self.targets.append(target)
            self.slots[key] = Int32(self.targets.count - 1)
            return self.targets.count - 1
        }
        target.ticket = self.targets[Int(free)].ticket
        self.targets[Int(free)] = target
        self.slots[key] = free
        return Int(free)
    }
}
