import APNS
import Kafka
import Model
import Operations

/// Everything that the pusher has in hand: the devices to be notified of each record, and when. No I/O, no clock, no
/// task.
///
/// A record is in hand until every device that it concerns is notified or dropped. A quiet device is notified at once;
/// then its window begins, and it is notified once more for all records that arrive within it. Those that arrive while
/// a notification is in flight cause another one, since the device may ask before or after them.
///
/// ```
/// waiting -> ready -> in flight -> (settling) -> gone, or waiting again for later changes
///    ^-------------------'  again later
/// ```
///
/// Bounded by `PushLimits`: `room` is the number of records that may be added; their devices may exceed the limits.
struct PushStateMachine {
    /// A record in hand.
    struct Record {
        let receipt: KafkaReceipt
        /// The time when the change was published, milliseconds since 1970; -1: not known, or not a change.
        let epochMilliseconds: Int64
        /// True if it comes from the pending topic, where it may wait for long.
        let isPending: Bool
        /// The number of devices yet to be notified, plus one until their lookup is done.
        var open: Int32
        /// True if its devices are not all known yet.
        var isLooking = true
        /// True if its partition was revoked: notifications in flight may still finish it.
        var isLeaving = false
        /// True if it was dropped: no further device is notified for it.
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
    enum State: UInt8 {
        /// The slot is free.
        case nowhere
        /// Waits for its time, which is in `due`.
        case waiting
        /// Waits for its turn with its credential.
        case ready
        /// With the client, whose reply carries its number.
        case inFlight
        /// It has its verdict, and an effect must be performed before its records are done.
        case settling
    }

    struct Target {
        let key: Key
        var state = State.nowhere
        /// Grows whenever the target moves: a reference with an older ticket is stale.
        var ticket: UInt32 = 0
        /// The links of the next notification.
        var waiting: [Link] = []
        /// The links of the notification in flight.
        var sent: [Link] = []
        /// The time when the first of `waiting` was added.
        var since: MonotonicTime
        var tries: PushAttempts
        var queue: Int32 { self.key.queue }
        var token: PushToken { self.key.token }

        /// Swaps the waiting and the sent links, for a target that has only one of them.
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

    /// The number of queues from which an order type without a brand gets none, since order types come from the
    /// records' keys; its notifications are dropped without dead letters.
    static let queueLimit = 1000
    /// The reason of notifications that are dropped because their order type has neither a brand nor a queue.
    static let brandless = "no brand is loaded for the order type"

    let limits: PushLimits
    /// The topic for devices that wait too long.
    private let pendingTopic: String
    /// The slot that the search for devices that wait too long examined last.
    var suspendCursor = 0
    var records: [Record] = []
    /// The traces of the records that have some, by number, the newest first.
    private var traces: [Int32: [TraceContext]] = [:]
    private var freeRecords: [Int32] = []
    var targets: [Target] = []
    private var freeTargets: [Int32] = []
    private var slots: [Key: Int32] = [:]
    var queues: [CredentialQueue] = []
    private var queueNumbers: [OrderTypeIdentifier: Int] = [:]
    var due = DueTimes()
    var windows: PushWindows
    var hourly: HourlyLimit
    /// Receipts of records that are done, until they are taken.
    private var finished: [KafkaReceipt] = []
    /// Receipts of dropped records that `drop` has not returned yet.
    var lateDrops: [KafkaReceipt] = []
    /// The counts of order types that have neither a brand nor a queue.
    var unknownTypes = PushCounts()
    /// Spans of notifications that have their verdict, until they are taken; nil while none are made.
    var spans: [TraceSpan]?
    private(set) var linkCount = 0
    var settlingCount = 0
    private var lastSerial: UInt64 = 0

    /// - Parameter now: earlier than all later times.
    init(limits: PushLimits, pendingTopic: String, now: MonotonicTime) {
        self.limits = limits
        self.pendingTopic = pendingTopic
        self.windows = PushWindows(limits.window)
        self.hourly = HourlyLimit(perHour: limits.hourlyLimit, now: now)
        // A growing table delays everything while it is copied; memory that is not written to costs nothing.
        self.slots.reserveCapacity(limits.targets)
        self.targets.reserveCapacity(limits.targets)
        self.records.reserveCapacity(limits.records)
    }

    var recordCount: Int { self.records.count - self.freeRecords.count }
    var targetCount: Int { self.targets.count - self.freeTargets.count }

    /// The number of records that may be added.
    var room: Int {
        max(
            0,
            min(
                self.limits.records - self.recordCount, self.limits.targets - self.targetCount,
                self.limits.links - self.linkCount))
    }

    // MARK: queues

    /// Returns the queue of an order type, which is closed if no brand is loaded; nil: there are too many queues.
    mutating func queue(of type: OrderTypeIdentifier) -> Int? {
        if let number = self.queueNumbers[type] { return number }
        guard self.queues.count < Self.queueLimit else { return nil }
        let number = self.open(type, generation: 0)
        self.queues[number].isOpen = false
        return number
    }

    /// Returns the queue of an order type; nil: it was never needed.
    func number(of type: OrderTypeIdentifier) -> Int? { self.queueNumbers[type] }

    /// Opens the queue of a brand, or gives it another credential.
    ///
    /// - Parameter generation: that of the credential, different each time; replies carry it.
    mutating func open(_ type: OrderTypeIdentifier, generation: Int) -> Int {
        if let number = self.queueNumbers[type] {
            self.queues[number].renew(generation)
            return number
        }
        self.queues.append(CredentialQueue(type, generation: generation, limits: self.limits))
        self.queueNumbers[type] = self.queues.count - 1
        return self.queues.count - 1
    }

    /// Closes the queue of a brand that is gone: its notifications move to the pending topic.
    mutating func close(_ type: OrderTypeIdentifier) {
        if let number = self.queueNumbers[type] { self.queues[number].isOpen = false }
    }

    // MARK: records

    /// Adds records whose devices are not looked up yet.
    ///
    /// - Parameter traces: those of the records that have some, by index, the newest first.
    /// - Returns: their numbers, in order; `endLookup` must be called for each.
    mutating func receive(
        _ taken: [(receipt: KafkaReceipt, epochMilliseconds: Int64)], traces: [Int: [TraceContext]] = [:]
    ) -> [Int32] {
        let numbers = self.add(taken)
        for (index, traces) in traces { self.traces[numbers[index]] = traces }
        return numbers
    }

    private mutating func add(_ taken: [(receipt: KafkaReceipt, epochMilliseconds: Int64)]) -> [Int32] {
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

    /// Notes that all devices of some records are known. A number below zero is that of a withdrawn record.
    mutating func endLookup(_ numbers: [Int32]) {
        for number in numbers where number >= 0 {
            self.records[Int(number)].isLooking = false
            self.release(number)
        }
    }

    /// Withdraws a record that was added and not looked up.
    ///
    /// - Returns: false if its partition was revoked meanwhile: `drop` has returned it.
    mutating func withdraw(_ number: Int32) -> Bool {
        let index = Int(number)
        self.records[index].open = 0
        self.records[index].isLooking = false
        self.forget(number)
        return !self.records[index].isDropped
    }

    /// Adds a device to be notified.
    mutating func notify(_ token: PushToken, of link: Link, in queue: Int, now: MonotonicTime) {
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
        if self.targets[slot].state == .nowhere { self.schedule(slot) }
    }

    /// Ends one link, or the lookup, of a record; the last one finishes the record.
    private mutating func release(_ number: Int32) {
        let index = Int(number)
        self.records[index].open -= 1
        guard self.records[index].open == 0 else { return }
        if !self.records[index].isDropped { self.finished.append(self.records[index].receipt) }
        self.forget(number)
    }

    private mutating func forget(_ number: Int32) {
        if !self.traces.isEmpty { self.traces[number] = nil }
        self.freeRecords.append(number)
    }

    /// Returns the traces of the records among some links, the newest first.
    func traces(of links: [Link]) -> [TraceContext] {
        if self.traces.isEmpty { return [] }
        return TraceContext.links(links.flatMap { self.traces[$0.record]?.reversed() ?? [] })
    }

    /// Removes and returns the spans.
    mutating func takeSpans() -> [TraceSpan] {
        guard let spans = self.spans, !spans.isEmpty else { return [] }
        self.spans = []
        return spans
    }

    /// Removes and returns the receipts of finished records.
    mutating func takeFinished() -> [KafkaReceipt] {
        defer { self.finished.removeAll() }
        return self.finished
    }

    // MARK: targets

    /// Ends links of a target: their records no longer wait for them.
    mutating func end(_ links: [Link], of slot: Int) {
        guard !links.isEmpty else { return }
        let queue = Int(self.targets[slot].queue)
        self.linkCount -= links.count
        self.queues[queue].links -= links.count
        for link in links { self.release(link.record) }
    }

    /// Makes a target ready, or due when the window of its device's last notification ends.
    mutating func schedule(_ slot: Int) {
        guard let end = self.windows.end(of: self.targets[slot].key.hash), end > self.targets[slot].since else {
            return self.makeReady(slot, ticket: self.newTicket(slot))
        }
        self.wait(slot, until: end)
    }

    /// Queues a target with its credential.
    mutating func makeReady(_ slot: Int, ticket: UInt32) {
        self.targets[slot].state = .ready
        self.queues[Int(self.targets[slot].queue)].ready.append((Int32(slot), ticket))
    }

    /// Makes a target due at some time.
    mutating func wait(_ slot: Int, until due: MonotonicTime) {
        self.targets[slot].state = .waiting
        self.due.add(.init(due: due, slot: Int32(slot), ticket: self.newTicket(slot)))
    }

    /// Returns the initial value for the attempts of a new notification.
    mutating func freshTries(now: MonotonicTime) -> PushAttempts {
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
        self.targets[slot].state = .nowhere
        _ = self.newTicket(slot)
        self.targets[slot].waiting = []
        self.targets[slot].sent = []
        self.freeTargets.append(Int32(slot))
    }

    private mutating func slot(of key: Key, now: MonotonicTime) -> Int {
        if let slot = self.slots[key] { return Int(slot) }
        let tries = self.freshTries(now: now)
        if let free = self.freeTargets.popLast() {
            let ticket = self.targets[Int(free)].ticket
            self.targets[Int(free)] = Target(key: key, ticket: ticket, since: now, tries: tries)
            self.slots[key] = free
            return Int(free)
        }
        self.targets.append(Target(key: key, since: now, tries: tries))
        self.slots[key] = Int32(self.targets.count - 1)
        return self.targets.count - 1
    }
}

/// The share of the scheduler that each queue may fill, so that a slow, busy or unavailable one does not block the
/// others.
extension PushStateMachine {
    /// The most links that one queue may hold before its further records are parked: three times the free room. So a
    /// queue that is alone fills three quarters, two fill three sevenths each, and there is always room for one more.
    /// While there are others, no queue holds more than `queueLinks`: a parked record takes no lookup, so the records
    /// of other queues that follow a large change are reached several times sooner.
    ///
    /// Source: Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998
    var share: Int {
        let share = max(1, self.room * 3)
        return self.queues.count > 1 ? min(share, self.limits.queueLinks) : share
    }

    /// Order types whose records must be parked: only probes can be sent for them, they have used their share, or they
    /// have no brand.
    var parkedTypes: Set<OrderTypeIdentifier> {
        var types: Set<OrderTypeIdentifier> = []
        let share = self.share
        for queue in self.queues.indices {
            guard
                self.queues[queue].isTroubled || self.queues[queue].links >= share
                    || !self.queues[queue].isOpen
            else { continue }
            types.insert(self.queues[queue].orderType)
        }
        return types
    }

    /// Returns the number of an order type's parked keys that may be looked up.
    ///
    /// Parked keys fill half of a share at most, so that new records of the same queue still pass directly. A queue
    /// whose credential is ill or stopped gets as many as its probes need, one without a brand gets none.
    func opening(of type: OrderTypeIdentifier) -> Int {
        guard let number = self.number(of: type), self.queues[number].isOpen else { return 0 }
        let most = self.queues[number].isTroubled ? self.limits.probes : max(1, self.share / 2)
        return max(0, min(self.room, most - self.queues[number].links))
    }
}

/// Moves notifications that wait too long in the scheduler to the pending topic, so that the offsets of their records
/// advance.
extension PushStateMachine {
    /// The number of targets examined in one call.
    static let suspendStep = 4096

    /// Searches the next part of the targets for devices that have waited too long: for a brand that is not loaded or
    /// whose credential is ill or stopped, for their turn under the hourly limit, or to be sent or retried. Records
    /// from the pending topic stay.
    ///
    /// - Returns: at most `most` effects.
    mutating func suspendStuck(now: MonotonicTime, most: Int) -> [PushEffect] {
        guard most > 0, self.linkCount > 0 else { return [] }
        var effects: [PushEffect] = []
        for _ in 0..<min(Self.suspendStep, self.targets.count) {
            self.suspendCursor = self.suspendCursor + 1 < self.targets.count ? self.suspendCursor + 1 : 0
            let slot = self.suspendCursor
            guard self.isStuck(slot, now: now) else { continue }
            self.beginSending(slot)
            effects.append(self.suspend(slot))
            if effects.count == most { break }
        }
        return effects
    }

    private func isStuck(_ slot: Int, now: MonotonicTime) -> Bool {
        guard self.targets[slot].state == .ready || self.targets[slot].state == .waiting else { return false }
        let queue = Int(self.targets[slot].queue)
        let cannotSend = self.queues[queue].isTroubled || !self.queues[queue].isOpen
        // A notification that was never sent waits after its window only because of the hourly limit: for a minute or
        // more, and a restart would repeat all records after its own.
        let awaitsTurn = self.targets[slot].state == .waiting && self.targets[slot].tries.isFirst
        let hold = cannotSend || awaitsTurn ? self.limits.parkedHold : self.limits.schedulerHold
        guard now - self.targets[slot].since >= self.limits.window + hold else { return false }
        return self.targets[slot].waiting.contains { !self.records[Int($0.record)].isPending }
    }

    /// Moves a target whose links are in `sent` to the pending topic.
    mutating func suspend(_ slot: Int) -> PushEffect {
        let target = self.targets[slot]
        let type = self.queues[Int(target.queue)].orderType
        var pushes: [PendingPushKey: ParkedPush] = [:]
        for link in target.sent {
            let key = PendingPushKey(order: OrderKey(orderType: type, order: link.order), device: link.device)
            let published = self.records[Int(link.record)].epochMilliseconds
            let push = ParkedPush(
                key: key, receipts: [], epochMilliseconds: published, traces: self.traces(of: [link]))
            pushes[key, default: push].merge(push)
        }
        return self.settleLater(slot, .suspend(Array(pushes.values)))
    }
}

extension PushOutcome {
    /// True if a notification with this outcome failed because of the service or a connection, not of its device.
    var isOfTheService: Bool {
        guard case .retry(let retry) = verdict(of: self, sentEpochMilliseconds: .max) else { return false }
        return retry.scope != .device
    }
}

extension PushStateMachine {
    /// Drops the waiting records of revoked partitions. Notifications in flight still get their verdicts.
    ///
    /// - Returns: the records that will not be finished here, including those dropped since the last call.
    mutating func drop(_ partitions: Set<KafkaPartition>) -> [KafkaReceipt] {
        var isAny = false
        for index in self.records.indices where self.records[index].open > 0 && !self.records[index].isDropped {
            let receipt = self.records[index].receipt
            let partition = KafkaPartition(topic: receipt.topic, partition: receipt.partition)
            guard partitions.contains(partition) else { continue }
            self.records[index].isLeaving = true
            isAny = true
        }
        if isAny {
            for slot in self.targets.indices where !self.targets[slot].waiting.isEmpty { self.dropWaiting(slot) }
            // A lookup in progress may still find devices.
            for index in self.records.indices where self.records[index].isLeaving && self.records[index].isLooking {
                self.letGo(index)
            }
        }
        // Records of other topics belong to another consumer, which must get them from its own call.
        let topics = Set(partitions.map(\.topic))
        let dropped = self.lateDrops.filter { topics.isEmpty || topics.contains($0.topic) }
        self.lateDrops.removeAll { topics.isEmpty || topics.contains($0.topic) }
        return dropped
    }

    /// Removes the links of leaving records from a target's waiting links, and the target if nothing is left.
    ///
    /// - Returns: false if this removed the last waiting link.
    @discardableResult
    mutating func dropWaiting(_ slot: Int) -> Bool {
        let leaving = self.targets[slot].waiting.filter { self.records[Int($0.record)].isLeaving }
        guard !leaving.isEmpty else { return true }
        let staying = self.targets[slot].waiting.filter { !self.records[Int($0.record)].isLeaving }
        self.targets[slot].waiting = staying
        for link in leaving { self.letGo(Int(link.record)) }
        self.end(leaving, of: slot)
        guard staying.isEmpty else { return true }
        let state = self.targets[slot].state
        if state == .waiting || state == .ready { self.remove(slot) }
        return false
    }

    /// Drops a record: no further device is notified for it.
    mutating func letGo(_ index: Int) {
        guard self.records[index].open > 0, !self.records[index].isDropped else { return }
        self.records[index].isDropped = true
        self.lateDrops.append(self.records[index].receipt)
    }
}

/// Handles notifications whose push token is gone: the device may have registered again meanwhile, with another token
/// or with the same one, and must then still be notified.
extension PushStateMachine {
    /// Returns a target's push token and the registrations that led to its notification, the last one of each key.
    func deadToken(_ slot: Int, before moment: Int64) -> InvalidToken {
        let target = self.targets[slot]
        var registrations: [RegistrationKey: RegistrationRecord] = [:]
        for link in target.sent + target.waiting {
            let (key, known) = (self.key(of: link, slot), link.registeredEpochMilliseconds)
            let last = max(registrations[key]?.registeredEpochMilliseconds ?? .min, known)
            registrations[key] = RegistrationRecord(pushToken: target.token, registeredEpochMilliseconds: last)
        }
        return InvalidToken(token: target.token, moment: moment, registrations: registrations)
    }

    /// Finishes the records of a notification whose effect was performed, except for devices that registered again.
    ///
    /// - Parameters:
    ///   - current: for a token that is gone, the present registrations of its keys: a registration with another push
    ///     token is notified, one with the same token is retried, which counts as a failure of the device.
    ///   - jitter: 0 to 1.
    /// - Returns: the dead letter of a notification whose attempts are used up.
    mutating func done(
        _ effect: PushEffect, current: [RegistrationKey: RegistrationRecord] = [:], now: MonotonicTime,
        jitter: Double
    ) -> PushEffect? {
        guard let slot = self.slot(of: effect.number, in: .settling) else { return nil }
        self.settlingCount -= 1
        guard case .retire(let dead) = effect.work else {
            self.finish(slot)
            return nil
        }
        self.targets[slot].sent = self.remainingLinks(self.targets[slot].sent, slot, dead, current, now: now)
        self.targets[slot].waiting = self.remainingLinks(self.targets[slot].waiting, slot, dead, current, now: now)
        guard !self.targets[slot].sent.isEmpty else {
            self.finish(slot)
            return nil
        }
        let queue = Int(self.targets[slot].queue)
        let (step, reason) = self.queues[queue].renewed(&self.targets[slot].tries, now: now, jitter: jitter)
        switch step {
        case .again(let pause):
            self.queues[queue].counts.retried += 1
            self.sendAgain(slot, at: now + pause)
            return nil
        case .giveUp:
            return self.giveUp(slot, .undeliverable, reason)
        }
    }

    /// - Returns: the links that still need this push token; others end, or continue with the present token.
    private mutating func remainingLinks(
        _ links: [Link], _ slot: Int, _ dead: InvalidToken, _ current: [RegistrationKey: RegistrationRecord],
        now: MonotonicTime
    ) -> [Link] {
        var remaining: [Link] = []
        var over: [Link] = []
        for link in links {
            let key = self.key(of: link, slot)
            // A link that was added later may have a newer registration than the one that was looked up.
            guard let asked = dead.registrations[key],
                link.registeredEpochMilliseconds <= asked.registeredEpochMilliseconds
            else {
                remaining.append(link)
                continue
            }
            guard let registration = current[key] else {
                over.append(link)
                continue
            }
            let renewed = Link(
                record: link.record, device: link.device, order: link.order,
                registeredEpochMilliseconds: registration.registeredEpochMilliseconds)
            if registration.pushToken == dead.token {
                remaining.append(renewed)
                continue
            }
            over.append(link)
            if self.records[Int(link.record)].isLeaving {
                self.letGo(Int(link.record))
            } else {
                self.notify(registration.pushToken, of: renewed, in: Int(self.targets[slot].queue), now: now)
            }
        }
        // After the new links were added, so that no record is finished in between.
        self.end(over, of: slot)
        return remaining
    }

    private func key(of link: Link, _ slot: Int) -> RegistrationKey {
        RegistrationKey(
            device: link.device,
            order: OrderKey(orderType: self.queues[Int(self.targets[slot].queue)].orderType, order: link.order))
    }
}
