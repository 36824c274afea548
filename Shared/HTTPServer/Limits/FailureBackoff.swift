public import NIOCore

/// Slows down, by address, clients that repeatedly guess tokens or get empty lists.
///
/// Only failures count: a correct token is answered immediately, however many wrong ones came from the same address,
/// which may be that of a whole company. The first failures are plainly refused; after that the client must wait,
/// longer with each attempt.
public struct FailureBackoff<Client: Hashable & Sendable>: Sendable {
    /// The tolerated amounts.
    public struct Limits: Sendable {
        /// Failures that are plainly refused.
        public var free: Int
        /// The time after which one of them is forgotten. Each further failure adds the same time to the wait.
        public var forgiveness: TimeAmount
        /// The longest wait that a client is given.
        public var longest: TimeAmount
        /// Most addresses that are remembered.
        public var clients: Int

        /// Makes limits; those of wrong tokens and keys are the defaults.
        public init(
            free: Int = 50, forgiveness: TimeAmount = .seconds(2), longest: TimeAmount = .minutes(10),
            clients: Int = 8192
        ) {
            self.free = free
            self.forgiveness = forgiveness
            self.longest = longest
            self.clients = clients
        }

        /// Limits for empty lists of changes.
        public static var lists: Limits { Limits(free: 6000, forgiveness: .milliseconds(10), longest: .seconds(60)) }
    }

    @usableFromInline let limits: Limits
    @usableFromInline var table: RateLimitTable<Client>

    @inlinable public init(_ limits: Limits = Limits()) {
        self.limits = limits
        self.table = RateLimitTable(capacity: limits.clients)
    }

    @inlinable var free: TimeAmount { self.limits.forgiveness * self.limits.free }

    /// Counts a failure.
    ///
    /// - Returns: nil for a plain refusal, else the seconds after which the next one is plainly refused again.
    @inlinable public mutating func failed(_ client: Client, at now: NIODeadline) -> Int64? {
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
    @inlinable public func owes(_ client: Client, at now: NIODeadline) -> Bool {
        self.table[client].amount(at: now) > .zero
    }

    /// True if the next failure of a client is answered with a wait.
    @inlinable public func isExhausted(_ client: Client, at now: NIODeadline) -> Bool {
        self.table[client].amount(at: now) + self.limits.forgiveness > self.free
    }

    /// The time until no client owes anything any more, if there are no further failures.
    @inlinable public var longestDebt: TimeAmount { self.free + self.limits.longest }
}
