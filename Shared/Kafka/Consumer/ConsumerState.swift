/// What the polling thread and the worker share, and every decision about it. No C, no clock, no thread.
struct ConsumerState {
    /// A worker that waits for its batch.
    struct Waiter {
        let id: UInt64
        let deadline: ContinuousClock.Instant
        let continuation: CheckedContinuation<Result<[KafkaRecord], KafkaError>, Never>
    }

    /// What the polling thread does next.
    enum Step: Equatable {
        /// Poll, waiting at most this long for the first record.
        case poll(milliseconds: Int32)
        /// The buffer is full: wait for room.
        case wait(milliseconds: Int)
        /// The buffer has been full for long: stop fetching, so that polling can go on.
        case pause
        case resume
        case shutDown
    }

    /// What a worker that asks gets at once.
    enum Answer {
        case batch([KafkaRecord])
        case refused(KafkaError)
        /// The polling thread will answer; `wakes` when it would look too late by itself.
        case later(wakes: Bool)
    }

    /// The longest poll or wait: how late the thread may notice what nobody wakes it for.
    static let tick: Int32 = 100

    var buffer = ConsumerBuffer()
    var assignment = ConsumerAssignment()
    private(set) var waiter: Waiter?
    /// Batches handed out, and those whose work is done.
    private(set) var handedOut: UInt64 = 0
    private(set) var done: UInt64 = 0
    /// When the batch in hand was handed out.
    private(set) var handedOutAt: ContinuousClock.Instant?
    private(set) var failure: KafkaError?
    private(set) var isStopping = false
    private(set) var isEnded = false
    var isPaused = false
    /// The polling thread sleeps and wants a signal.
    private(set) var isAsleep = false
    private var fullSince: ContinuousClock.Instant?
    private var lastCancelled: UInt64 = 0
    private var closers: [CheckedContinuation<Void, Never>] = []
    let pauseAfter: Duration

    init(pauseAfter: Duration) { self.pauseAfter = pauseAfter }

    // MARK: the polling thread

    mutating func next(now: ContinuousClock.Instant) -> Step {
        self.isAsleep = false
        if self.isStopping { return .shutDown }
        if self.isPaused {
            return self.buffer.isHalfEmpty ? .resume : .poll(milliseconds: Self.tick)
        }
        guard self.buffer.isFull else {
            self.fullSince = nil
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

    /// Takes the waiting worker out if there is something to tell it.
    mutating func settle(now: ContinuousClock.Instant) -> (Waiter, Result<[KafkaRecord], KafkaError>)? {
        guard let waiter = self.waiter else { return nil }
        if let failure = self.failure { return (self.takeWaiter(waiter), .failure(failure)) }
        if self.buffer.isEmpty, now < waiter.deadline { return nil }
        return (self.takeWaiter(waiter), .success(self.takeBatch(now: now)))
    }

    mutating func fail(_ error: KafkaError) {
        if self.failure == nil { self.failure = error }
    }

    /// Partitions left: their records are forgotten. Their batch in hand may still commit until `forget`.
    mutating func drop(_ partitions: [KafkaPartition]) { self.buffer.drop(Set(partitions)) }

    /// True when the batch that was in hand at `mark` is done.
    mutating func isDone(_ mark: UInt64) -> Bool {
        self.isAsleep = self.done < mark && !self.isStopping
        return !self.isAsleep
    }

    /// The thread is gone: whoever waits is told.
    mutating func end() -> (waiter: Waiter?, closers: [CheckedContinuation<Void, Never>]) {
        self.isEnded = true
        defer {
            self.waiter = nil
            self.closers = []
            self.buffer = ConsumerBuffer()
        }
        return (self.waiter, self.closers)
    }

    // MARK: the worker

    /// The worker asks: the work on the last batch is done.
    mutating func ask(
        records: Int, bytes: Int, waiter: Waiter, isCancelled: Bool, now: ContinuousClock.Instant
    ) -> Answer {
        self.done = self.handedOut
        self.handedOutAt = nil
        if isCancelled || self.lastCancelled == waiter.id {
            return .refused(KafkaError(.cancelled, "waiting for records: cancelled"))
        }
        if self.isStopping { return .refused(KafkaError(.closed, "asking a closed consumer for records")) }
        if let failure = self.failure { return .refused(failure) }
        if self.waiter != nil { return .refused(KafkaError(.busy, "asking for records: another task waits")) }
        self.buffer.setLimits(records: records, bytes: bytes)
        if !self.buffer.isEmpty { return .batch(self.takeBatch(now: now)) }
        if waiter.deadline <= now { return .batch([]) }
        self.waiter = waiter
        return .later(wakes: waiter.deadline - now < .milliseconds(Int64(Self.tick) + 50))
    }

    /// Takes the waiter out if it is this one; else remembers that this one is not to wait.
    mutating func cancel(_ id: UInt64) -> Waiter? {
        self.lastCancelled = id
        guard let waiter = self.waiter, waiter.id == id else { return nil }
        return self.takeWaiter(waiter)
    }

    /// Closing says that all work is done.
    mutating func stop() {
        self.isStopping = true
        self.done = self.handedOut
    }

    /// - Returns: false when the consumer has ended already.
    mutating func waitForEnd(_ continuation: CheckedContinuation<Void, Never>) -> Bool {
        if self.isEnded { return false }
        self.closers.append(continuation)
        return true
    }

    private mutating func takeWaiter(_ waiter: Waiter) -> Waiter {
        self.waiter = nil
        return waiter
    }

    private mutating func takeBatch(now: ContinuousClock.Instant) -> [KafkaRecord] {
        let batch = self.buffer.take()
        if !batch.isEmpty {
            self.handedOut += 1
            self.handedOutAt = now
            self.assignment.handedOut(batch)
        }
        return batch
    }
}

extension Duration {
    /// Rounded up, so that a wait does not end just before its time; 0 for what is past.
    var wholeMilliseconds: Int {
        let (seconds, attoseconds) = self.components
        if seconds < 0 || attoseconds < 0 { return 0 }
        let capped = min(seconds, 1 << 40)
        return Int(capped) * 1000 + Int((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }
}
