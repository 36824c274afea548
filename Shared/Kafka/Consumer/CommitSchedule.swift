/// When the committing thread commits what, and who is told. No C, no clock, no thread.
///
/// One commit at a time, each of all that is done then: the newest wins, and an older one cannot come behind it.
struct CommitSchedule {
    /// Somebody who waits until all that was done when he asked is committed.
    struct Waiter {
        let ticket: UInt64
        let deadline: ContinuousClock.Instant
        let continuation: CheckedContinuation<Result<Void, KafkaError>, Never>
    }

    /// Someone with what he is told.
    typealias Told = (continuation: CheckedContinuation<Result<Void, KafkaError>, Never>, Result<Void, KafkaError>)

    /// One commit.
    struct Request: Hashable {
        let positions: [KafkaPosition]
        /// The last assignment when they were chosen.
        let assignment: UInt64
        /// All who asked up to this ticket are served by it.
        let ticket: UInt64
    }

    /// What the committing thread does next.
    enum Step {
        case commit(Request)
        /// Nothing to commit: tell these, then look again after this long or when signalled.
        case wait(milliseconds: Int, [Told])
        case end
    }

    /// How long to gather before the next commit, if nobody waits for it.
    let pause: Duration
    /// How late the thread may notice that a waiter's time is over.
    static let tick = 100

    private var lastTicket: UInt64 = 0
    private var waiters: [Waiter] = []
    /// All who asked up to this ticket were served.
    private(set) var served: UInt64 = 0
    /// All who asked up to this ticket had at least one try.
    private var tried: UInt64 = 0
    private var attempt = 0
    private var notBefore: ContinuousClock.Instant?
    private var isAsleep = false
    private var isEnding = false
    private var lastError: KafkaError?

    init(pause: Duration = .seconds(1)) { self.pause = pause }

    /// - Returns: whether the thread sleeps and wants a signal.
    mutating func wake() -> Bool {
        defer { self.isAsleep = false }
        return self.isAsleep
    }

    /// Asks for a commit of what is done now.
    mutating func request() -> UInt64 {
        self.lastTicket += 1
        return self.lastTicket
    }

    /// - Returns: false when the thread is gone and nobody will be told.
    mutating func add(_ waiter: Waiter) -> Bool {
        if self.isEnding { return false }
        self.waiters.append(waiter)
        return true
    }

    /// The thread is to end; whoever waits is told that the consumer is closed.
    mutating func finish() -> [Told] {
        self.isEnding = true
        defer { self.waiters = [] }
        return self.waiters.map {
            ($0.continuation, .failure(KafkaError(.closed, "committing: the consumer was closed")))
        }
    }

    mutating func next(
        _ positions: [KafkaPosition], in assignment: UInt64, now: ContinuousClock.Instant
    ) -> Step {
        self.isAsleep = false
        if self.isEnding { return .end }
        if positions.isEmpty {
            self.attempt = 0
            self.served = self.lastTicket
        } else {
            // Who asks gets one try at once; a failure is not tried again at once for anybody's sake.
            let isUrgent = max(self.served, self.tried) < self.lastTicket
            if isUrgent || self.notBefore.map({ $0 <= now }) ?? true {
                return .commit(Request(positions: positions, assignment: assignment, ticket: self.lastTicket))
            }
        }
        let told = self.tell(now: now)
        self.isAsleep = true
        guard !positions.isEmpty, let notBefore = self.notBefore else { return .wait(milliseconds: Self.tick, told) }
        return .wait(milliseconds: min(Self.tick, (notBefore - now).wholeMilliseconds), told)
    }

    /// A commit came back.
    ///
    /// - Parameter jitter: 0.5 to 1.
    /// - Returns: who is to be told.
    mutating func end(
        _ request: Request, _ error: KafkaError?, jitter: Double, now: ContinuousClock.Instant
    ) -> [Told] {
        self.tried = max(self.tried, request.ticket)
        if let error {
            self.lastError = error
            self.attempt += 1
            let seconds = min(5, 0.1 * Double(1 << min(self.attempt - 1, 6)))
            self.notBefore = now + .seconds(seconds * jitter)
        } else {
            self.attempt = 0
            self.served = max(self.served, request.ticket)
            self.notBefore = now + self.pause
        }
        return self.tell(now: now)
    }

    /// Whether waiting for a ticket makes no sense any more: it was tried, and the group has moved on or will never
    /// take it.
    func isHopeless(_ ticket: UInt64) -> Bool {
        guard self.attempt > 0, self.tried >= ticket, let error = self.lastError else { return false }
        return !error.isRetriable || error.code == .rebalanced
    }

    /// Whether a failure is worth a line in the log: the first, and then fewer and fewer.
    var isFailureTold: Bool { self.attempt.nonzeroBitCount == 1 }

    private mutating func tell(now: ContinuousClock.Instant) -> [Told] {
        var told: [Told] = []
        var left: [Waiter] = []
        for waiter in self.waiters {
            if waiter.ticket <= self.served {
                told.append((waiter.continuation, .success(())))
            } else if self.isHopeless(waiter.ticket) || waiter.deadline <= now {
                // Who has no use for another try, and who has waited long enough.
                let late = KafkaError(.timedOut, "committing: no answer in time", isRetriable: true)
                told.append((waiter.continuation, .failure(self.attempt > 0 ? self.lastError ?? late : late)))
            } else {
                left.append(waiter)
            }
        }
        self.waiters = left
        return told
    }
}
