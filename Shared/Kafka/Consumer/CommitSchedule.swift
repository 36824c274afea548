/// The state machine that decides when and what the committing thread commits, and which waiters are answered. No C,
/// no clock, no thread.
///
/// Commits run one at a time, each of everything done by then: the newest wins, and an older one cannot follow it.
struct CommitSchedule {
    /// A caller that waits until everything done at the time of its request is committed.
    struct Waiter {
        let ticket: UInt64
        let deadline: ContinuousClock.Instant
        let continuation: CheckedContinuation<Result<Void, KafkaError>, Never>
    }

    /// A waiter with its result.
    typealias Resumption = (
        continuation: CheckedContinuation<Result<Void, KafkaError>, Never>, Result<Void, KafkaError>
    )

    /// One commit.
    struct Request: Hashable {
        let positions: [KafkaPosition]
        /// The last assignment at the time when they were chosen.
        let assignment: UInt64
        /// All requests up to this ticket are served by it.
        let ticket: UInt64
    }

    /// The committing thread's next step.
    enum Step {
        case commit(Request)
        /// Nothing to commit: answer these waiters, then check again after this long or when signalled.
        case wait(milliseconds: Int, [Resumption])
        case end
    }

    /// Time to gather work before the next commit, if no caller waits for it.
    let pause: Duration
    /// The longest delay, in milliseconds, before the thread notices that a waiter's time is over.
    static let tick = 100

    private var lastTicket: UInt64 = 0
    private var waiters: [Waiter] = []
    /// All requests up to this ticket were served.
    private(set) var served: UInt64 = 0
    /// All requests up to this ticket had at least one try.
    private var tried: UInt64 = 0
    private var attempt = 0
    private var notBefore: ContinuousClock.Instant?
    private var isAsleep = false
    private var isEnding = false
    private var lastError: KafkaError?
    /// The number of commits that failed.
    private(set) var failures = 0

    init(pause: Duration = .seconds(1)) { self.pause = pause }

    /// - Returns: true if the thread sleeps and needs a signal.
    mutating func wake() -> Bool {
        defer { self.isAsleep = false }
        return self.isAsleep
    }

    /// Requests a commit of everything done so far.
    mutating func request() -> UInt64 {
        self.lastTicket += 1
        return self.lastTicket
    }

    /// - Returns: false if the thread has ended and the waiter will get no answer.
    mutating func add(_ waiter: Waiter) -> Bool {
        if self.isEnding { return false }
        self.waiters.append(waiter)
        return true
    }

    /// Makes the thread end. Returns all waiters, with the answer that the consumer is closed.
    mutating func finish() -> [Resumption] {
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
            // A request gets one immediate try; a failure is not retried immediately for any waiter.
            let isUrgent = max(self.served, self.tried) < self.lastTicket
            if isUrgent || self.notBefore.map({ $0 <= now }) ?? true {
                return .commit(Request(positions: positions, assignment: assignment, ticket: self.lastTicket))
            }
        }
        let resumptions = self.takeResumptions(now: now)
        self.isAsleep = true
        guard !positions.isEmpty, let notBefore = self.notBefore else {
            return .wait(milliseconds: Self.tick, resumptions)
        }
        return .wait(milliseconds: min(Self.tick, (notBefore - now).wholeMilliseconds), resumptions)
    }

    /// Processes the result of a commit.
    ///
    /// - Parameter jitter: 0.5 to 1.
    /// - Returns: the waiters to answer.
    mutating func end(
        _ request: Request, _ error: KafkaError?, jitter: Double, now: ContinuousClock.Instant
    ) -> [Resumption] {
        self.tried = max(self.tried, request.ticket)
        if let error {
            self.lastError = error
            self.failures += 1
            self.attempt += 1
            let seconds = min(5, 0.1 * Double(1 << min(self.attempt - 1, 6)))
            self.notBefore = now + .seconds(seconds * jitter)
        } else {
            self.attempt = 0
            self.served = max(self.served, request.ticket)
            self.notBefore = now + self.pause
        }
        return self.takeResumptions(now: now)
    }

    /// Returns true if waiting for a ticket is pointless: it was tried, and the group has moved on or will never accept
    /// it.
    func isHopeless(_ ticket: UInt64) -> Bool {
        guard self.attempt > 0, self.tried >= ticket, let error = self.lastError else { return false }
        return !error.isRetriable || error.code == .rebalanced
    }

    /// True if a failure is worth a log line: the first one, then ever fewer.
    var isFailureLogged: Bool { self.attempt.nonzeroBitCount == 1 }

    private mutating func takeResumptions(now: ContinuousClock.Instant) -> [Resumption] {
        var resumptions: [Resumption] = []
        var left: [Waiter] = []
        for waiter in self.waiters {
            if waiter.ticket <= self.served {
                resumptions.append((waiter.continuation, .success(())))
            } else if self.isHopeless(waiter.ticket) || waiter.deadline <= now {
                // Waiters for which a retry is pointless or whose deadline has passed.
                let late = KafkaError(.timedOut, "committing: no answer in time", isRetriable: true)
                resumptions.append((waiter.continuation, .failure(self.attempt > 0 ? self.lastError ?? late : late)))
            } else {
                left.append(waiter)
            }
        }
        self.waiters = left
        return resumptions
    }
}
