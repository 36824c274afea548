import NIOCore

/// Slows down, by address, clients that repeatedly guess tokens or get empty lists.
///
/// Only failures count: a correct token is answered immediately, however many wrong ones came from the same address,
/// which may be that of a whole company. The first failures are plainly refused; after that the client must wait,
/// longer with each attempt.
struct FailureBackoff<Client: Hashable & Sendable>: Sendable {
    /// The tolerated amounts.
    struct Limits: Sendable {
        /// Failures that are plainly refused.
        var free = 50
        /// The time after which one of them is forgotten. Each further failure adds the same time to the wait.
        var forgiveness = TimeAmount.seconds(2)
        /// The longest wait that a client is given.
        var longest = TimeAmount.minutes(10)
        /// Most addresses that are remembered.
        var clients = 8192

        /// Limits for empty lists of changes.
        static var lists: Limits { Limits(free: 6000, forgiveness: .milliseconds(10), longest: .seconds(60)) }
    }

    private let limits: Limits
    private var table: RateLimitTable<Client>

    init(_ limits: Limits = Limits()) {
        self.limits = limits
        self.table = RateLimitTable(capacity: limits.clients)
    }

    private var free: TimeAmount { self.limits.forgiveness * self.limits.free }

    /// Counts a failure.
    ///
    /// - Returns: nil for a plain refusal, else the seconds after which the next one is plainly refused again.
    mutating func failed(_ client: Client, at now: NIODeadline) -> Int64? {
        var debt = self.table[client]
        debt.grow(
            by: self.limits.forgiveness, atMost: self.free + self.limits.longest - self.limits.forgiveness, at: now)
        self.table[client] = debt
        let owed = debt.amount(at: now)
        guard owed > self.free else { return nil }
        let wait = owed - self.free + self.limits.forgiveness
        return (wait.nanoseconds + 999_999_999) / 1_000_000_000
    }

    /// True if a client failed recently.
    func owes(_ client: Client, at now: NIODeadline) -> Bool { self.table[client].amount(at: now) > .zero }

    /// True if the next failure of a client is answered with a wait.
    func isExhausted(_ client: Client, at now: NIODeadline) -> Bool {
        self.table[client].amount(at: now) + self.limits.forgiveness > self.free
    }

    /// The time until no client owes anything any more, if there are no further failures.
    var longestDebt: TimeAmount { self.free + self.limits.longest }
}
