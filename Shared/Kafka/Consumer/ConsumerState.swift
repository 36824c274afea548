/// State shared by the polling thread and the worker, and all decisions about it. No C, no clock, no thread.
struct ConsumerState {
    /// A worker that waits for its batch.
    struct Waiter {
        let id: UInt64
        /// The most records that it accepts.
        let records: Int
        let bytes: Int
        let deadline: ContinuousClock.Instant
        let continuation: CheckedContinuation<Result<[KafkaRecord], KafkaError>, Never>
    }

    /// The polling thread's next step.
    enum Step: Equatable {
        /// Poll, waiting at most this long for the first record.
        case poll(milliseconds: Int32)
        /// The buffer is full: wait for room.
        case wait(milliseconds: Int)
        /// The buffer has been full for too long: stop fetching, so that polling can continue.
        case pause
        case resume
        case shutDown
    }

    /// The immediate answer to a worker's request.
    enum Answer {
        case batch([KafkaRecord])
        case refused(KafkaError)
        /// The polling thread will answer; `wakes` if it must be signalled to do so in time.
        case later(wakes: Bool)
    }

    /// The longest poll or wait in milliseconds: the delay before the thread notices a change that no signal announces.
    static let tick: Int32 = 100

    private(set) var buffer: ConsumerBuffer
    private(set) var ledger = ConsumerLedger()
    var commits = CommitSchedule()
    private(set) var waiter: Waiter?
    /// The time since which nothing in hand was finished; nil while nothing is in hand.
    private(set) var quietSince: ContinuousClock.Instant?
    /// The time of the polling thread's last turn; nil before the first one and after the end.
    private(set) var turnedAt: ContinuousClock.Instant?
    private(set) var failure: KafkaError?
    private(set) var isStopping = false
    private(set) var isEnded = false
    var isPaused = false
    /// True if the polling thread sleeps and needs a signal.
    private(set) var isAsleep = false
    private var fullSince: ContinuousClock.Instant?
    private var lastCancelled: UInt64 = 0
    private var closers: [CheckedContinuation<Void, Never>] = []
    let pauseAfter: Duration
    private var wakeup: FetchWakeup

    /// - Parameter readAhead: the most records and bytes that wait for the worker.
    init(pauseAfter: Duration, readAhead: (records: Int, bytes: Int), wakeup: FetchWakeup = FetchWakeup([])) {
        self.pauseAfter = pauseAfter
        self.wakeup = wakeup
        self.buffer = ConsumerBuffer(records: readAhead.records, bytes: readAhead.bytes)
    }

    // MARK: the polling thread

    mutating func next(now: ContinuousClock.Instant) -> Step {
        self.turnedAt = now
        self.isAsleep = false
        if self.isStopping { return .shutDown }
        if self.isPaused {
            return self.buffer.isHalfEmpty ? .resume : .poll(milliseconds: Self.tick)
        }
        guard self.buffer.isFull else {
            self.fullSince = nil
            if self.wakeup.isDue { return .poll(milliseconds: 0) }
            guard let waiter = self.waiter else { return .poll(milliseconds: Self.tick) }
            return .poll(milliseconds: min(Self.tick, Int32(clamping: (waiter.deadline - now).wholeMilliseconds)))
        }
        let since = self.fullSince ?? now
        self.fullSince = since
        let left = self.pauseAfter - (now - since)
        if left <= .zero { return .pause }
        self.isAsleep = true
        return .wait(milliseconds: min(Int(Self.tick), left.wholeMilliseconds))
    }

    /// Removes and returns the waiting worker if there is an answer for it.
    mutating func takeAnswer(now: ContinuousClock.Instant) -> (Waiter, Result<[KafkaRecord], KafkaError>)? {
        guard let waiter = self.waiter else { return nil }
        if let failure = self.failure { return (self.takeWaiter(waiter), .failure(failure)) }
        if self.buffer.isEmpty, now < waiter.deadline { return nil }
        return (self.takeWaiter(waiter), .success(self.takeBatch(for: waiter, now: now)))
    }

    /// - Returns: true if the buffer is full.
    mutating func receive(_ record: KafkaRecord) -> Bool {
        var record = record
        record.assignment = self.ledger.assignment
        self.buffer.append(record)
        self.wakeup.note(record)
        return self.buffer.isFull
    }

    /// Notes that librdkafka's queue is empty.
    ///
    /// - Returns: the partitions whose brokers' threads must be woken to fetch again.
    mutating func foundEmptyQueue() -> [KafkaPartition] {
        self.wakeup.foundEmptyQueue() ? self.ledger.partitions : []
    }

    mutating func assign(_ partitions: [KafkaPartition]) {
        self.ledger.add(partitions)
        self.wakeup.begin()
    }

    mutating func fail(_ error: KafkaError) {
        if self.failure == nil { self.failure = error }
    }

    /// Drops the records read ahead of partitions that are about to leave. Records in hand may still be committed,
    /// unless the partitions are lost.
    mutating func beginLeaving(_ partitions: [KafkaPartition], isLost: Bool) {
        self.buffer.drop(Set(partitions))
        if isLost { self.forget(partitions) }
    }

    /// Notes that the worker will not process some records of partitions that are about to leave.
    mutating func letGo(_ records: [KafkaReceipt]) { self.ledger.letGo(records) }

    /// Returns true if no record of some partitions is in hand, or the consumer is stopping and does not wait for them.
    mutating func isDone(_ partitions: Set<KafkaPartition>) -> Bool {
        self.isAsleep = !self.isStopping && self.ledger.inHand(of: partitions) > 0
        return !self.isAsleep
    }

    /// Forgets partitions that have left.
    mutating func forget(_ partitions: [KafkaPartition]) {
        self.ledger.remove(partitions)
        if self.ledger.inHand == 0 { self.quietSince = nil }
    }

    /// Notes if the polling thread waits for another thread and so needs a signal.
    mutating func setAsleep(_ isAsleep: Bool) { self.isAsleep = isAsleep }

    /// Notes that the thread has ended. Returns all waiters, which are to be answered.
    mutating func end() -> (waiter: Waiter?, closers: [CheckedContinuation<Void, Never>]) {
        self.isEnded = true
        self.turnedAt = nil
        defer {
            self.waiter = nil
            self.closers = []
            self.buffer.clear()
        }
        return (self.waiter, self.closers)
    }

    // MARK: the worker

    /// Processes the worker's request for records.
    mutating func ask(_ waiter: Waiter, isCancelled: Bool, now: ContinuousClock.Instant) -> Answer {
        if isCancelled || self.lastCancelled == waiter.id {
            return .refused(KafkaError(.cancelled, "waiting for records: cancelled"))
        }
        if self.isStopping { return .refused(KafkaError(.closed, "asking a closed consumer for records")) }
        if let failure = self.failure { return .refused(failure) }
        if self.waiter != nil { return .refused(KafkaError(.busy, "asking for records: another task waits")) }
        if !self.buffer.isEmpty { return .batch(self.takeBatch(for: waiter, now: now)) }
        if waiter.deadline <= now { return .batch([]) }
        self.waiter = waiter
        return .later(wakes: waiter.deadline - now < .milliseconds(Int64(Self.tick) + 50))
    }

    /// Removes the waiter if it is this one; else remembers that this one must not wait.
    mutating func cancel(_ id: UInt64) -> Waiter? {
        self.lastCancelled = id
        guard let waiter = self.waiter, waiter.id == id else { return nil }
        return self.takeWaiter(waiter)
    }

    /// Notes records whose work is done.
    ///
    /// - Returns: true for each of the polling and the committing thread if it needs a signal.
    mutating func finish(_ records: [KafkaReceipt], now: ContinuousClock.Instant) -> (polls: Bool, commits: Bool) {
        self.ledger.finish(records)
        // A worker whose upstream is away reports that it finished nothing: that is no progress.
        if !records.isEmpty { self.quietSince = self.ledger.inHand > 0 ? now : nil }
        return (self.isAsleep, self.commits.wake())
    }

    /// Applies the worker's deferred and resumed records.
    ///
    /// - Returns: true for each of the polling and the committing thread if it needs a signal.
    mutating func apply(_ deferral: KafkaDeferral, now: ContinuousClock.Instant) -> (polls: Bool, commits: Bool) {
        let before = self.ledger.inHand
        self.ledger.apply(deferral)
        if self.ledger.inHand == 0 || before == 0 { self.quietSince = self.ledger.inHand > 0 ? now : nil }
        return (self.isAsleep, self.commits.wake())
    }

    /// Begins closing, which does not wait for records in hand.
    mutating func stop() { self.isStopping = true }

    // MARK: the committing thread

    mutating func nextCommit(now: ContinuousClock.Instant) -> CommitSchedule.Step {
        self.commits.next(self.ledger.committable, in: self.ledger.assignment, now: now)
    }

    /// - Returns: the waiters to answer, and true if the polling thread needs a signal.
    mutating func commitEnded(
        _ request: CommitSchedule.Request, _ error: KafkaError?, jitter: Double, now: ContinuousClock.Instant
    ) -> (resumptions: [CommitSchedule.Resumption], polls: Bool) {
        if error == nil { self.ledger.acknowledge(request.positions, chosenIn: request.assignment) }
        return (self.commits.end(request, error, jitter: jitter, now: now), self.isAsleep)
    }

    /// - Returns: false if the consumer has ended already.
    mutating func waitForEnd(_ continuation: CheckedContinuation<Void, Never>) -> Bool {
        if self.isEnded { return false }
        self.closers.append(continuation)
        return true
    }

    private mutating func takeWaiter(_ waiter: Waiter) -> Waiter {
        self.waiter = nil
        return waiter
    }

    private mutating func takeBatch(for waiter: Waiter, now: ContinuousClock.Instant) -> [KafkaRecord] {
        let batch = self.buffer.take(records: waiter.records, bytes: waiter.bytes)
        if !batch.isEmpty {
            if self.ledger.inHand == 0 { self.quietSince = now }
            self.ledger.handOut(batch)
        }
        return batch
    }
}

extension Duration {
    /// Rounded up, so that a wait does not end just before its time; 0 for a time that has passed.
    var wholeMilliseconds: Int {
        let (seconds, attoseconds) = self.components
        if seconds < 0 || attoseconds < 0 { return 0 }
        let capped = min(seconds, 1 << 40)
        return Int(capped) * 1000 + Int((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }
}
