import NIOCore

/// Slows down who asks again and again for what is not there, by address: who guesses tokens, or lists nothing.
///
/// Only failures count: a right token is answered at once however many wrong ones came from the same address, which may
/// be that of a whole company. The first failures are plain refusals; who goes on is told to wait, longer with each
/// try.
struct FailureBackoff<Client: Hashable & Sendable>: Sendable {
    /// How much is borne.
    struct Limits: Sendable {
        /// Failures that are plainly refused.
        var free = 50
        /// After which time one of them is forgotten; each one more is another such time to wait.
        var forgiveness = TimeAmount.seconds(2)
        /// Longest time that a client is told to wait.
        var longest = TimeAmount.minutes(10)
        /// Addresses that are remembered at once.
        var clients = 8192

        /// For lists of changes that have nothing in them.
        static var lists: Limits { Limits(free: 6000, forgiveness: .milliseconds(10), longest: .seconds(60)) }
    }

    private let limits: Limits
    private var table: DebtTable<Client>

    init(_ limits: Limits = Limits()) {
        self.limits = limits
        self.table = DebtTable(capacity: limits.clients)
    }

    private var free: TimeAmount { self.limits.forgiveness * self.limits.free }

    /// Takes a failure.
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

    /// True if a client failed lately.
    func owes(_ client: Client, at now: NIODeadline) -> Bool { self.table[client].amount(at: now) > .zero }

    /// True if the next failure of a client is told to wait.
    func isExhausted(_ client: Client, at now: NIODeadline) -> Bool {
        self.table[client].amount(at: now) + self.limits.forgiveness > self.free
    }

    /// When nobody owes anything any more, if nobody fails until then.
    var longestDebt: TimeAmount { self.free + self.limits.longest }
}
