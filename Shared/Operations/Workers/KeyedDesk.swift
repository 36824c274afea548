import Kafka
import Synchronization

/// The means by which a `KeyedWorker` tells its consumer of records that are put off, and asks it. A seam for tests.
protocol DeferralLedger: Sendable {
    func note(_ deferral: KafkaDeferral)
    func isOwned(_ receipt: KafkaReceipt) -> Bool
}

extension KafkaConsumer: DeferralLedger {}

/// The state that the lanes of a `KeyedWorker`, its fetching and its reading again share: what is in hand, what is put
/// off, and the lanes that have nothing to do.
final class KeyedDesk: Sendable {
    private struct State {
        var intake: WorkIntake
        var idle: [CheckedContinuation<Void, Never>] = []
        /// The number of batches in work.
        var batches = 0
        var isStopping = false
        /// A backlog is being read: groups that have one get no batch, nor does one that shares with nobody.
        var isHeld = false
        let lanes: Int
        /// The last lane is kept for groups without a backlog.
        var allowsBulk: Bool { !self.isHeld && self.batches < self.lanes - 1 }
        var allowsAny: Bool { !self.isStopping && (!self.isHeld || self.intake.groups.isShared) }
        var hasWork: Bool { self.allowsAny && self.intake.queue.hasReady(allowsBulk: self.allowsBulk) }
    }

    private let state: Mutex<State>

    /// - Parameter lanes: how many batches are in work at most, at least 2.
    init(limits: KeyQueue.Limits, lanes: Int = 5) {
        self.state = Mutex(State(intake: WorkIntake(limits: limits), lanes: lanes))
    }

    /// What a look at the queue says.
    struct Look: Sendable {
        let room: (records: Int, bytes: Int)
        let records: Int
        let bytes: Int
        let delayed: Int
    }

    var look: Look { self.state.withLock { Self.look($0.intake) } }
    /// Since when the first delayed key waits.
    var delayedSince: ContinuousClock.Instant? { self.state.withLock { $0.intake.queue.delayedSince } }

    private static func look(_ intake: WorkIntake) -> Look {
        Look(
            room: intake.room, records: intake.queue.records, bytes: intake.queue.bytes,
            delayed: intake.queue.delayedCount)
    }

    /// Takes in which groups there are, and which of them wait.
    func update(_ groups: [KeyGroup]) { self.change { $0.intake.update(groups) } }

    /// Takes records in, and parked keys up whose time has come.
    ///
    /// - Parameters:
    ///   - isHeld: no backlog is given out until the next call.
    ///   - ledger: is told what is put off; nil: nothing can be.
    func add(
        _ records: [KafkaRecord], now: ContinuousClock.Instant, isHeld: Bool = false,
        ledger: (any DeferralLedger)? = nil
    ) {
        self.change { state in
            state.isHeld = isHeld
            if let ledger {
                Self.note(state.intake.add(records), ledger, &state)
            } else {
                state.intake.queue.add(records)
            }
            state.intake.queue.wake(now: now)
        }
    }

    /// Tells the consumer, under the lock, so that it hears one thing after the other. What it does not own any more is
    /// forgotten.
    private static func note(_ deferral: KafkaDeferral, _ ledger: any DeferralLedger, _ state: inout State) {
        if deferral.isEmpty { return }
        ledger.note(deferral)
        for partition in deferral.holds.keys {
            guard let receipt = state.intake.deferred.receipt(of: partition), !ledger.isOwned(receipt) else { continue }
            ledger.note(state.intake.forget(partition, isGone: false))
        }
    }

    // MARK: the lanes

    /// Waits for work; nil when no more is given out.
    func next() async -> [KeyedWork]? {
        while true {
            let works: [KeyedWork]? = self.change { state in
                if state.isStopping { return nil }
                guard state.allowsAny else { return [] }
                let works = state.intake.queue.next(allowsBulk: state.allowsBulk)
                if !works.isEmpty { state.batches += 1 }
                return works
            }
            guard let works else { return nil }
            if !works.isEmpty { return works }
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

    /// Takes back a batch.
    func settle(
        _ works: [KeyedWork], _ outcomes: [KeyedWork.Outcome], now: ContinuousClock.Instant,
        delay: (_ attempts: Int) -> Duration
    ) -> Look {
        self.change { state in
            state.batches -= 1
            for (work, outcome) in zip(works, outcomes) {
                switch outcome {
                case .done: state.intake.queue.done(work.key)
                case .later: state.intake.queue.later(work.key, now: now, delay: delay)
                }
            }
            return Self.look(state.intake)
        }
    }

    /// Partitions leave.
    func drop(_ partitions: Set<KafkaPartition>) -> [KafkaRecord] { self.change { $0.intake.drop(partitions) } }

    /// No more work is given out.
    func stop() {
        let idle = self.state.withLock { state in
            state.isStopping = true
            defer { state.idle = [] }
            return state.idle
        }
        for lane in idle { lane.resume() }
    }

    // MARK: what is put off

    /// The number of records of each group that are put off, by its name, why the group waits, and how many were gone.
    var putOff: (groups: [(name: String, count: Int, reason: String?)], gone: Int) {
        self.state.withLock { state in
            let (groups, deferred) = (state.intake.groups, state.intake.deferred)
            return (
                groups.names.indices.map { (groups.names[$0], deferred.counts[$0] ?? 0, groups.reason($0)) },
                deferred.gone
            )
        }
    }

    /// A partition that is to be read again; nil: nothing can be taken.
    func nextPass() -> DeferredRecords.Pass? { self.state.withLock { $0.intake.nextPass() } }

    /// Takes in what was read again.
    func addAgain(_ records: [KafkaRecord], _ pass: inout DeferredRecords.Pass, ledger: any DeferralLedger) {
        self.change { state in
            // Records that are read for somebody else are not to be worked on here.
            if let receipt = state.intake.deferred.receipt(of: pass.partition), !ledger.isOwned(receipt) {
                ledger.note(state.intake.forget(pass.partition, isGone: false))
            }
            Self.note(state.intake.addAgain(records, &pass), ledger, &state)
        }
    }

    /// All up to the end of a pass was read.
    func readToTheEnd(_ pass: inout DeferredRecords.Pass, ledger: any DeferralLedger) {
        self.change { Self.note($0.intake.readToTheEnd(&pass), ledger, &$0) }
    }

    /// Forgets the records that a pass was to read: they are not there any more.
    func forget(_ pass: DeferredRecords.Pass, ledger: any DeferralLedger) {
        self.change { Self.note($0.intake.forget(pass.partition, isGone: true), ledger, &$0) }
    }

    func end(_ pass: DeferredRecords.Pass) { self.state.withLock { $0.intake.end(pass) } }

    /// Changes the state and wakes a lane if there is work; it wakes the next one when it has taken its share.
    private func change<Value>(_ body: (inout State) -> Value) -> Value {
        let (value, lane) = self.state.withLock { state in
            let value = body(&state)
            return (value, state.hasWork ? state.idle.popLast() : nil)
        }
        lane?.resume()
        return value
    }
}
