import Kafka
import Store
import Synchronization

/// The interface through which a `KeyedWorker` reports deferred records to its consumer, and queries it. A seam for
/// tests.
protocol DeferralLedger: Sendable {
    func apply(_ deferral: KafkaDeferral)
    func isOwned(_ receipt: KafkaReceipt) -> Bool
}

extension KafkaConsumer: DeferralLedger {}

/// The state shared by the tasks of a `KeyedWorker`, its fetching and its second reading: records in hand, deferred
/// records, and the idle tasks.
final class KeyQueueDriver: Sendable {
    private struct State {
        var intake: WorkIntake
        var idle: [CheckedContinuation<Void, Never>] = []
        /// The number of batches in work.
        var batches = 0
        var isStopping = false
        /// True while a backlog is being read: groups with a backlog, and a group that is the only one, have two
        /// batches in work.
        var isHeld = false
        let concurrency: Int
        /// True if nothing is handed out before the marks of ended workers were read.
        let examines: Bool
        var suspects = SuspectKeys()
        /// True while a suspect is in work.
        var isAlone = false
        /// The assignment for which marks are to be read.
        var unexamined: Int? { self.examines ? self.suspects.unexamined : nil }
        /// True if a group with a backlog may get a batch: the last batch is reserved for groups without one.
        var allowsBulk: Bool { self.batches < (self.isHeld ? 2 : self.concurrency - 1) }
        var allowsAny: Bool {
            !self.isStopping && !self.isAlone && self.unexamined == nil
                && (!self.isHeld || self.allowsBulk || self.intake.groups.isShared)
        }
        var hasWork: Bool {
            guard self.allowsAny else { return false }
            return self.intake.queue.hasSuspects
                ? self.batches == 0 : self.intake.queue.hasReady(allowsBulk: self.allowsBulk)
        }

        /// Takes the next batch; empty: there is none now. Suspects that are ready have nothing else beside them.
        mutating func take() -> [KeyedWork] {
            guard self.allowsAny else { return [] }
            var works: [KeyedWork] = []
            if !self.intake.queue.hasSuspects {
                let suspects = self.suspects
                works = self.intake.queue.next(
                    allowsBulk: self.allowsBulk, isSuspect: suspects.isEmpty ? nil : { suspects.contains($0) })
            }
            if works.isEmpty, self.batches == 0 {
                let suspects = self.suspects
                works = self.intake.queue.nextSuspect { suspects.beginnings(of: $0) }.map { [$0] } ?? []
                self.isAlone = !works.isEmpty
            }
            if !works.isEmpty { self.batches += 1 }
            return works
        }
    }

    private let state: Mutex<State>

    /// - Parameters:
    ///   - concurrency: the most batches in work, at least 2.
    ///   - examines: true to hand out nothing before `learn` was called, again each time when partitions came.
    init(limits: KeyQueue.Limits, concurrency: Int = 5, examines: Bool = false) {
        self.state = Mutex(
            State(intake: WorkIntake(limits: limits), concurrency: concurrency, examines: examines))
    }

    /// A summary of the queue.
    struct Look: Sendable {
        let room: (records: Int, bytes: Int)
        let records: Int
        let bytes: Int
        let delayed: Int
    }

    var look: Look { self.state.withLock { Self.look($0.intake) } }
    /// The time since which the first delayed key waits.
    var delayedSince: ContinuousClock.Instant? { self.state.withLock { $0.intake.queue.delayedSince } }

    private static func look(_ intake: WorkIntake) -> Look {
        Look(
            room: intake.room, records: intake.queue.records, bytes: intake.queue.bytes,
            delayed: intake.queue.delayedCount)
    }

    /// Sets the present groups, and which of them wait.
    func update(_ groups: [KeyGroup]) { self.change { $0.intake.update(groups) } }

    /// Adds records, and makes parked keys ready whose time has come.
    ///
    /// - Parameters:
    ///   - isHeld: true to have only two batches of a backlog in work until the next call.
    ///   - ledger: receives the deferrals; nil: nothing can be deferred.
    func add(
        _ records: [KafkaRecord], now: ContinuousClock.Instant, isHeld: Bool = false,
        ledger: (any DeferralLedger)? = nil
    ) {
        self.change { state in
            state.isHeld = isHeld
            if let ledger {
                Self.apply(state.intake.add(records), ledger, &state)
            } else {
                state.intake.queue.add(records)
            }
            state.intake.queue.wake(now: now)
        }
    }

    /// Reports to the consumer under the lock, so that the reports arrive in order. Records that it does not own any
    /// more are forgotten.
    private static func apply(_ deferral: KafkaDeferral, _ ledger: any DeferralLedger, _ state: inout State) {
        if deferral.isEmpty { return }
        ledger.apply(deferral)
        for partition in deferral.holds.keys {
            guard let receipt = state.intake.deferred.receipt(of: partition), !ledger.isOwned(receipt) else { continue }
            ledger.apply(state.intake.forget(partition, isGone: false))
        }
    }

    // MARK: the tasks

    /// Waits for work; nil when none will be handed out any more.
    ///
    /// - Returns: a batch, and true if it is one record of a suspect, which is in work alone.
    func next() async -> (works: [KeyedWork], isAlone: Bool)? {
        while true {
            let batch: (works: [KeyedWork], isAlone: Bool)? = self.change { state in
                if state.isStopping { return nil }
                let works = state.take()
                return (works, state.isAlone && !works.isEmpty)
            }
            guard let batch else { return nil }
            if !batch.works.isEmpty { return batch }
            await withCheckedContinuation { continuation in
                let isNeeded = self.state.withLock { state in
                    if state.isStopping || state.hasWork { return true }
                    state.idle.append(continuation)
                    return false
                }
                if isNeeded { continuation.resume() }
            }
        }
    }

    /// Takes back a batch with its outcomes.
    func complete(
        _ works: [KeyedWork], _ outcomes: [KeyedWork.Outcome], now: ContinuousClock.Instant,
        delay: (_ attempts: Int) -> Duration
    ) -> Look {
        self.change { state in
            state.batches -= 1
            state.isAlone = false
            for (work, outcome) in zip(works, outcomes) {
                switch outcome {
                case .done: state.intake.queue.done(work.key)
                case .partly: state.intake.queue.partly(work.key, work.finished(by: outcome))
                case .later: state.intake.queue.later(work.key, now: now, delay: delay)
                case .awaits(let time): state.intake.queue.awaits(work.key, until: now + time)
                }
            }
            return Self.look(state.intake)
        }
    }

    /// Drops the records of partitions that go to another member.
    func drop(_ partitions: Set<KafkaPartition>) -> [KafkaRecord] { self.change { $0.intake.drop(partitions) } }

    /// Stops handing out work.
    func stop() {
        let idle = self.state.withLock { state in
            state.isStopping = true
            defer { state.idle = [] }
            return state.idle
        }
        for task in idle { task.resume() }
    }

    // MARK: suspects

    /// Notes that partitions came: what ended workers had in work is among their records.
    func assigned() { self.state.withLock { $0.suspects.assigned() } }

    /// The assignment for which the marks of ended workers are to be read; nil: they are read.
    var unexamined: Int? { self.state.withLock { $0.unexamined } }

    /// Takes over the suspects that were read after an assignment.
    ///
    /// - Returns: the number of all.
    func learn(
        _ suspects: [SuspectKeys.Digest: SuspectKeys.Beginnings], after assignment: Int, now: ContinuousClock.Instant
    ) -> Int {
        self.change { state in
            state.suspects.learn(suspects, after: assignment, now: now)
            return state.suspects.count
        }
    }

    /// Notes that a suspect's record is about to be begun.
    func begin(_ key: [UInt8]?, at place: String, now: ContinuousClock.Instant) -> SuspectKeys.Beginnings {
        self.state.withLock { $0.suspects.begin(key, at: place, now: now) }
    }

    /// Notes that a suspect's record came to its end, or has to be tried again.
    func end(_ key: [UInt8]?, isDone: Bool, now: ContinuousClock.Instant) {
        self.state.withLock { $0.suspects.end(key, isDone: isDone, now: now) }
    }

    /// Releases suspects whose time is over.
    ///
    /// - Returns: those that Redis may forget, and the number of those that remain.
    func release(now: ContinuousClock.Instant) -> (released: [SuspectKeys.Digest], left: Int) {
        self.state.withLock { ($0.suspects.release(now: now), $0.suspects.count) }
    }

    // MARK: deferred records

    /// The number of deferred records of each group, by its name, the reason why the group waits, and the number of
    /// records that no longer existed.
    var putOff: (groups: [(name: String, count: Int, reason: String?)], gone: Int) {
        self.state.withLock { state in
            let (groups, deferred) = (state.intake.groups, state.intake.deferred)
            return (
                groups.names.indices.map { (groups.names[$0], deferred.counts[$0] ?? 0, groups.reason($0)) },
                deferred.gone
            )
        }
    }

    /// The number of deferred records of each topic.
    var deferredByTopic: [String: Int] { self.state.withLock { $0.intake.deferred.topics } }

    /// A partition to be read again; nil: no owner has room.
    func nextReading() -> DeferredRecords.Reading? { self.state.withLock { $0.intake.nextReading() } }

    /// Adds records that were read again.
    func addAgain(_ records: [KafkaRecord], _ reading: inout DeferredRecords.Reading, ledger: any DeferralLedger) {
        self.change { state in
            // Records of a partition that another member owns must not be processed here.
            if let receipt = state.intake.deferred.receipt(of: reading.partition), !ledger.isOwned(receipt) {
                ledger.apply(state.intake.forget(reading.partition, isGone: false))
            }
            Self.apply(state.intake.addAgain(records, &reading), ledger, &state)
        }
    }

    /// Reports that everything up to the end of a reading was read.
    func readToTheEnd(_ reading: inout DeferredRecords.Reading, ledger: any DeferralLedger) {
        self.change { Self.apply($0.intake.readToTheEnd(&reading), ledger, &$0) }
    }

    /// Forgets the records that a reading was to read: they no longer exist.
    func forget(_ reading: DeferredRecords.Reading, ledger: any DeferralLedger) {
        self.change { Self.apply($0.intake.forget(reading.partition, isGone: true), ledger, &$0) }
    }

    func end(_ reading: DeferredRecords.Reading) { self.state.withLock { $0.intake.end(reading) } }

    /// Changes the state and wakes a task if there is work; that task wakes the next one after taking its share.
    private func change<Value>(_ body: (inout State) -> Value) -> Value {
        let (value, task) = self.state.withLock { state in
            let value = body(&state)
            return (value, state.hasWork ? state.idle.popLast() : nil)
        }
        task?.resume()
        return value
    }
}

/// Decides which records are taken in hand and which are deferred: those of a group that has its share, or that waits
/// as a whole, and those of a key that has as much as fits into a batch. No Kafka, no clock, no task.
struct WorkIntake: Sendable {
    var queue: KeyQueue
    private(set) var groups = KeyGroups()
    private(set) var deferred = DeferredRecords()

    init(limits: KeyQueue.Limits) { self.queue = KeyQueue(limits: limits) }

    /// The amount that may be requested; nothing if a bound is 0.
    ///
    /// Groups that share capacity keep requesting records, since those after a backlog may be of another group.
    var room: (records: Int, bytes: Int) {
        let room = self.queue.room
        guard self.groups.isShared else { return room }
        return (max(room.records, 256), max(room.bytes, 1 << 20))
    }

    /// Sets the present groups, and which of them wait. Keys whose obstacles may be gone are ready.
    mutating func update(_ groups: [KeyGroup]) {
        let renewed = self.groups.update(groups, unknownWait: self.deferred.counts[KeyGroups.unknown] != nil)
        self.queue.wake(renewed)
    }

    /// Adds records, or defers them; those of one partition in order.
    ///
    /// - Returns: the report for the consumer.
    mutating func add(_ records: [KafkaRecord]) -> KafkaDeferral {
        var deferral = KafkaDeferral()
        for record in records {
            let group = self.groups.number(of: record.key)
            guard let owner = self.owner(taking: record, group, &deferral) else { continue }
            let partition = KafkaPartition(topic: record.topic, partition: record.partition)
            self.deferred.add(record, to: owner, group: group, in: partition)
            deferral.putOff.append(record.receipt)
            deferral.holds.updateValue(nil, forKey: partition)
        }
        self.hold(&deferral)
        return deferral
    }

    /// Takes a record in hand, or returns the owner that it is added to.
    private mutating func owner(
        taking record: KafkaRecord, _ group: Int, _ deferral: inout KafkaDeferral
    ) -> DeferredRecords.Owner? {
        if !self.deferred.isEmpty {
            let partition = KafkaPartition(topic: record.topic, partition: record.partition)
            if self.deferred.isPast(record.offset, in: partition) {
                self.deferred.forget([partition], isGone: true)
                deferral.holds.updateValue(nil, forKey: partition)
            }
            if let owner = self.deferred.owner(of: record.key, group: group, in: partition) { return owner }
        }
        if self.groups.reason(group) != nil { return .group(group) }
        let mayWaitAlone = self.deferred.keyCount < DeferredRecords.keyLimit
        let isShared = self.groups.isShared
        switch self.queue.add(record, group: group, isShared: isShared, isKeyBounded: mayWaitAlone) {
        case .taken: return nil
        case .full: return .group(group)
        case .keyIsFull: return record.key.map { .key($0) } ?? .group(group)
        }
    }

    /// Drops the records of partitions that left.
    ///
    /// - Returns: records that will not be processed, of those that are in hand.
    mutating func drop(_ partitions: Set<KafkaPartition>) -> [KafkaRecord] {
        self.deferred.forget(partitions, isGone: false)
        return self.queue.drop(partitions)
    }

    // MARK: reading again

    /// Returns the next partition to read again; nil: no owner has room.
    mutating func nextReading() -> DeferredRecords.Reading? {
        if self.deferred.isEmpty { return nil }
        let (queue, groups) = (self.queue, self.groups)
        return self.deferred.nextReading { owner, group in
            guard groups.reason(group) == nil, queue.isHalfEmpty(group, isShared: groups.isShared) else { return false }
            guard case .key(let key) = owner else { return true }
            return queue.isHalfEmpty(key)
        }
    }

    /// Adds records of a reading, in order and without a gap since its last ones.
    mutating func addAgain(_ records: [KafkaRecord], _ reading: inout DeferredRecords.Reading) -> KafkaDeferral {
        var deferral = KafkaDeferral()
        deferral.again = self.deferred.read(records, &reading, into: &self.queue, &self.groups).map(\.receipt)
        deferral.holds.updateValue(nil, forKey: reading.partition)
        self.hold(&deferral)
        return deferral
    }

    /// Notes that a reading has reached its end.
    mutating func readToTheEnd(_ reading: inout DeferredRecords.Reading) -> KafkaDeferral {
        self.deferred.readToTheEnd(&reading)
        return self.holding(reading.partition)
    }

    /// Ends a reading.
    mutating func end(_ reading: DeferredRecords.Reading) { self.deferred.end(reading) }

    /// Forgets the deferred records of a partition: they no longer exist, or it went to another member.
    mutating func forget(_ partition: KafkaPartition, isGone: Bool) -> KafkaDeferral {
        self.deferred.forget([partition], isGone: isGone)
        return self.holding(partition)
    }

    private func holding(_ partition: KafkaPartition) -> KafkaDeferral {
        var deferral = KafkaDeferral()
        deferral.holds.updateValue(nil, forKey: partition)
        self.hold(&deferral)
        return deferral
    }

    /// Fills in the holds of the partitions in the deferral.
    private func hold(_ deferral: inout KafkaDeferral) {
        for partition in deferral.holds.keys {
            deferral.holds.updateValue(self.deferred.first(of: partition), forKey: partition)
        }
    }
}
