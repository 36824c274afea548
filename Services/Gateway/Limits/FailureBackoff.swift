import NIOCore

/// Slows down whoever guesses tokens, by address.
///
/// It is asked only after a token turned out to be wrong: a right one is answered at once however many wrong ones came
/// from the same address, which may be that of a whole company. The first wrong ones are plain refusals; who goes on is
/// told to wait, longer with each try.
struct FailureBackoff<Client: Hashable & Sendable>: Sendable {
    /// How much is borne.
    struct Limits: Sendable {
        /// Wrong tokens that are plainly refused.
        var free = 50
        /// After which time one of them is forgotten; each one more is another such time to wait.
        var forgiveness = TimeAmount.seconds(2)
        /// Longest time that a client is told to wait.
        var longest = TimeAmount.minutes(10)
        /// Addresses that are remembered at once.
        var clients = 8192
    }

    private let limits: Limits
    private var table: DebtTable<Client>

    init(_ limits: Limits = Limits()) {
        self.limits = limits
        self.table = DebtTable(capacity: limits.clients)
    }

    /// Takes a wrong token.
    ///
    /// - Returns: nil for a plain refusal, else the seconds after which the next wrong one is plainly refused again.
    mutating func failed(_ client: Client, at now: NIODeadline) -> Int64? {
        let free = self.limits.forgiveness * self.limits.free
        var debt = self.table[client]
        debt.grow(
            by: self.limits.forgiveness, atMost: free + self.limits.longest - self.limits.forgiveness, at: now)
        self.table[client] = debt
        let owed = debt.amount(at: now)
        guard owed > free else { return nil }
        let wait = owed - free + self.limits.forgiveness
        return (wait.nanoseconds + 999_999_999) / 1_000_000_000
    }
}
