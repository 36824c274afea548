import APNS
import DequeModule
import HeapModule
import Kafka
import Model
import Operations

extension PushStateMachine {
    /// A notification to send.
    struct Due {
        /// The number of the request, by which its reply finds the target.
        let number: UInt64
        let token: PushToken
    }

    /// Combines a target's slot and ticket in one number.
    static func number(_ slot: Int, _ ticket: UInt32) -> UInt64 { UInt64(ticket) << 32 | UInt64(UInt32(slot)) }

    /// Returns the slot of the target that a number refers to; nil if the target is not, or no longer, in that place.
    func slot(of number: UInt64, in state: State) -> Int? {
        let slot = Int(number & 0xFFFF_FFFF)
        guard self.targets.indices.contains(slot), self.targets[slot].ticket == UInt32(number >> 32),
            self.targets[slot].state == state
        else { return nil }
        return slot
    }

    /// Makes targets ready that are due.
    mutating func wake(now: MonotonicTime) {
        while let entry = self.due.next(now: now) {
            let slot = Int(entry.slot)
            guard self.targets[slot].ticket == entry.ticket, self.targets[slot].state == .waiting else { continue }
            self.makeReady(slot, ticket: entry.ticket)
        }
    }

    /// Returns the notifications to be sent with one queue's credential.
    mutating func send(_ queue: Int, now: MonotonicTime, epochMilliseconds: Int64) -> [Due] {
        let most = self.queues[queue].free(now: now)
        guard most > 0 else { return [] }
        var due: [Due] = []
        due.reserveCapacity(min(most, self.queues[queue].ready.count))
        let isProbing = self.queues[queue].isProbing(now: now)
        // Read once, since each call to a queue copies all of it.
        let isSuspicious = self.queues[queue].health.isSuspicious
        while due.count < most, let slot = isProbing ? self.nextProbe(queue) : self.nextReady(queue) {
            if self.targets[slot].tries.isFirst, let pause = self.hourPause(slot, now: now) {
                self.queues[queue].counts.limited += 1
                self.wait(slot, until: now + pause)
                continue
            }
            self.beginSending(slot)
            self.targets[slot].tries.isFirst = false
            self.targets[slot].tries.sent = now
            self.targets[slot].tries.sentEpochMilliseconds = epochMilliseconds
            self.targets[slot].state = .inFlight
            self.windows.open(self.targets[slot].key.hash, now: now)
            if isProbing { self.queues[queue].probes(self.targets[slot].key.hash) }
            if isSuspicious, self.queues[queue].isSuspect(self.targets[slot].key.hash) {
                self.targets[slot].tries.isSuspect = true
                self.queues[queue].sentSuspect()
            }
            due.append(Due(number: Self.number(slot, self.newTicket(slot)), token: self.targets[slot].token))
        }
        self.queues[queue].sent(due.count, now: now)
        return due
    }

    /// Assigns the waiting links to the notification that is about to be sent.
    mutating func beginSending(_ slot: Int) {
        self.targets[slot].exchange()
    }

    /// Removes and returns the next target that is ready; those that have moved on are skipped. Tokens that APNs may
    /// not know are sent to a few at a time, and do not delay others.
    mutating func nextReady(_ queue: Int) -> Int? {
        let isSuspicious = self.queues[queue].health.isSuspicious
        while !isSuspicious || self.queues[queue].hasSuspectRoom,
            let entry = self.queues[queue].suspects.popFirst()
        {
            if self.isReady(entry) { return Int(entry.slot) }
        }
        while let entry = self.queues[queue].ready.popFirst() {
            guard self.isReady(entry) else { continue }
            guard isSuspicious, self.queues[queue].isSuspect(self.targets[Int(entry.slot)].key.hash),
                !self.queues[queue].hasSuspectRoom
            else { return Int(entry.slot) }
            self.queues[queue].suspects.append(entry)
        }
        return nil
    }

    /// The number of entries searched for a probe.
    private static let probeSearch = 256

    /// Removes and returns the next target to probe the credential with. Of the first entries it prefers one whose
    /// token APNs accepted before, avoids those of recent probes, and else takes the last instead of the head of the
    /// queue.
    private mutating func nextProbe(_ queue: Int) -> Int? {
        if self.queues[queue].ready.isEmpty { self.queues[queue].trustSuspects() }
        var best: (index: Int, rank: Int)?
        for index in self.queues[queue].ready.indices.prefix(Self.probeSearch) {
            let entry = self.queues[queue].ready[index]
            guard self.isReady(entry) else { continue }
            let rank = self.queues[queue].probeRank(self.targets[Int(entry.slot)].key.hash)
            // Among equals the last: the head waits for its turn.
            if rank >= best?.rank ?? 0 { best = (index, rank) }
            if rank == 2 { break }
        }
        guard let best else { return self.nextReady(queue) }
        return Int(self.queues[queue].ready.remove(at: best.index).slot)
    }

    private func isReady(_ entry: (slot: Int32, ticket: UInt32)) -> Bool {
        self.targets[Int(entry.slot)].ticket == entry.ticket && self.targets[Int(entry.slot)].state == .ready
    }

    /// - Returns: the time that the device must wait for its turn; nil if it need not wait.
    private mutating func hourPause(_ slot: Int, now: MonotonicTime) -> Duration? {
        guard self.limits.hourlyLimit > 0 else { return nil }
        return self.hourly.acquire(self.targets[slot].key, now: now)
    }
}

extension PushStateMachine {
    /// Processes the outcome of one notification.
    ///
    /// - Parameters:
    ///   - generation: that of the credential that it was sent with.
    ///   - epochMilliseconds: the present time, for the history.
    ///   - jitter: 0 to 1; evaluated only for a retry.
    /// - Returns: the effect that must be performed before its records are done.
    mutating func receive(
        _ reply: PushReply, queue: Int, generation: Int, now: MonotonicTime, epochMilliseconds: Int64,
        jitter: @autoclosure () -> Double
    ) -> PushEffect? {
        guard let slot = self.slot(of: reply.number, in: .inFlight) else { return nil }
        var origin = CredentialHealth.Origin(device: self.targets[slot].key.hash)
        if !reply.outcome.isAccepted { origin.order = self.targets[slot].sent.first?.order.hashValue ?? 0 }
        let ruling = self.queues[queue].judge(
            reply.outcome, &self.targets[slot].tries, of: origin, generation: generation, now: now,
            epochMilliseconds: epochMilliseconds, jitter: jitter())
        if self.spans != nil { self.noteSpan(slot, ruling, epochMilliseconds: epochMilliseconds) }
        switch ruling {
        case .delivered:
            self.queues[queue].counts.delivered += 1
            self.noteAge(slot, epochMilliseconds: epochMilliseconds)
            self.finish(slot)
        case .again(let pause):
            self.queues[queue].counts.retried += 1
            self.sendAgain(slot, at: now + pause)
        case .retire(let moment):
            return self.settleLater(slot, .retire(self.deadToken(slot, before: moment)))
        case .keep(let reason):
            self.queues[queue].counts.unknown += 1
            return self.giveUp(slot, .tokenUnknown, reason)
        case .giveUp where reply.outcome.isOfTheService:
            return self.suspend(slot)
        case .giveUp(let reason):
            return self.giveUp(slot, .undeliverable, reason)
        case .drop(let reason):
            return self.giveUp(slot, .refused, reason)
        }
        return nil
    }

    /// Drops a notification and returns the dead letters of the registrations that waited for it, which must be
    /// written: a device may leave any of its orders before it is notified again.
    ///
    /// - Parameter reason: text for operators, without secrets.
    mutating func giveUp(_ slot: Int, _ code: PushDeadLetterCode, _ reason: String) -> PushEffect {
        let target = self.targets[slot]
        let type = self.queues[Int(target.queue)].orderType
        // In the sequence of their last links.
        var registrations: [RegistrationKey] = []
        var links: [RegistrationKey: [Link]] = [:]
        for link in target.sent.reversed() {
            let key = RegistrationKey(device: link.device, order: OrderKey(orderType: type, order: link.order))
            if links[key] == nil { registrations.append(key) }
            links[key, default: []].append(link)
        }
        let named = registrations.prefix(PushDeadLetter.mostOfNotification)
        let deadLetters = named.reversed().map { registration in
            let own = Array((links[registration] ?? []).reversed())
            return PushDeadLetter(
                code, reason, registration: registration,
                // Each registration has a link, and a link's record is in hand.
                origin: self.records[Int(own[0].record)].receipt.position, records: own.count,
                history: target.tries.history, trace: self.traces(of: own).first,
                unnamed: registrations.count - named.count)
        }
        let last = registrations.first.map {
            PushCounts.Dropped(order: $0.order, trace: self.traces(of: target.sent).first)
        }
        self.queues[Int(target.queue)].counts.drop(reason, of: last)
        return self.settleLater(slot, .report(deadLetters))
    }

    mutating func settleLater(_ slot: Int, _ work: PushEffect.Work) -> PushEffect {
        self.targets[slot].state = .settling
        self.settlingCount += 1
        return PushEffect(number: Self.number(slot, self.newTicket(slot)), work: work)
    }

    /// Schedules a retry for the given time, merged with the changes that arrived meanwhile.
    mutating func sendAgain(_ slot: Int, at moment: MonotonicTime) {
        if self.targets[slot].waiting.isEmpty {
            self.targets[slot].exchange()
        } else {
            self.targets[slot].waiting = self.targets[slot].sent + self.targets[slot].waiting
            self.targets[slot].sent = []
        }
        self.wait(slot, until: moment)
        // Records whose partition was revoked meanwhile are not retried here.
        _ = self.dropWaiting(slot)
    }

    /// Ends the links that a notification was sent for; later ones wait for the end of its window.
    mutating func finish(_ slot: Int) {
        self.end(self.targets[slot].sent, of: slot)
        if self.targets[slot].waiting.isEmpty { return self.remove(slot) }
        self.targets[slot].sent.removeAll(keepingCapacity: self.targets[slot].sent.capacity <= 8)
        self.targets[slot].tries = self.freshTries(now: self.targets[slot].since)
        self.schedule(slot)
    }

    /// Makes the span of one attempt.
    private mutating func noteSpan(_ slot: Int, _ ruling: CredentialQueue.Ruling, epochMilliseconds: Int64) {
        let contexts = self.traces(of: self.targets[slot].sent)
        guard !contexts.isEmpty else { return }
        let (type, sent) = (
            self.queues[Int(self.targets[slot].queue)].orderType, self.targets[slot].tries.sentEpochMilliseconds
        )
        let span = TraceSpan(
            "waybill.notify", .client, of: contexts, from: min(sent, epochMilliseconds) * 1_000_000,
            to: epochMilliseconds * 1_000_000,
            attributes: [
                ("waybill.order_type", .string(type.rawValue)), ("waybill.outcome", .string(ruling.name)),
            ], isError: ruling != .delivered)
        if let span { self.spans?.append(span) }
    }

    private mutating func noteAge(_ slot: Int, epochMilliseconds: Int64) {
        var oldest = Int64.max
        for link in self.targets[slot].sent {
            let published = self.records[Int(link.record)].epochMilliseconds
            if published >= 0, published < oldest { oldest = published }
        }
        guard oldest < .max else { return }
        self.queues[Int(self.targets[slot].queue)].counts.agesInMilliseconds.append(max(0, epochMilliseconds - oldest))
    }
}

/// The windows of the devices that were notified lately: later changes wait for their ends. Each attempt begins the
/// device's window, and a retry waits for its own pause only.
///
/// Bounded: about 50 bytes for each device of one window, at most `capacity` of them; beyond that, the oldest windows
/// end early. Devices are stored as seeded 64-bit hashes: two that collide share a window. A value without a clock.
struct PushWindows {
    /// Half a million devices: at the default window, that many notifications a second; 25 MB.
    static let usualCapacity = 500_000

    /// Zero: there are no windows.
    private let length: Duration
    private let capacity: Int
    private var ends: [Int: MonotonicTime] = [:]
    /// The windows in the order in which they end; those of devices that were notified again are older than `ends`.
    private var opened: Deque<(device: Int, end: MonotonicTime)> = []

    init(_ length: Duration, capacity: Int = Self.usualCapacity) {
        self.length = length
        self.capacity = capacity
    }

    /// Returns the end of a device's last window, which may have passed; nil: it is not known.
    func end(of device: Int) -> MonotonicTime? { self.ends[device] }

    /// Begins the window of a device that is notified now.
    mutating func open(_ device: Int, now: MonotonicTime) {
        guard self.length > .zero else { return }
        while let first = self.opened.first, first.end <= now || self.opened.count >= self.capacity {
            self.opened.removeFirst()
            if self.ends[first.device] == first.end { self.ends[first.device] = nil }
        }
        self.ends[device] = now + self.length
        self.opened.append((device, now + self.length))
    }
}

/// The times at which targets become due, as a heap.
struct DueTimes {
    /// A target and its due time; the ticket shows if the target has moved on since the entry was made.
    struct Entry: Comparable {
        let due: MonotonicTime
        let slot: Int32
        let ticket: UInt32

        static func < (left: Self, right: Self) -> Bool { left.due < right.due }
    }

    private var entries: Heap<Entry> = []

    /// The earliest time.
    var first: MonotonicTime? { self.entries.min?.due }

    mutating func add(_ entry: Entry) { self.entries.insert(entry) }

    /// Removes and returns the next entry that is due.
    mutating func next(now: MonotonicTime) -> Entry? {
        guard let first = self.entries.min, first.due <= now else { return nil }
        return self.entries.removeMin()
    }
}

extension PushStateMachine {
    /// True if a record waits for its lookup, or for answers.
    func isOpen(_ receipt: KafkaReceipt, _ number: Int32) -> Bool {
        guard number >= 0 else { return false }
        let record = self.records[Int(number)]
        return record.open > 0 && record.receipt == receipt
    }
}
