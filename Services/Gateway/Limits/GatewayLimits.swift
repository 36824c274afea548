import NIOCore
import Synchronization

/// The limits on what clients may do, shared by all connections.
///
/// While nobody fails, a request that goes well costs one look at a number.
final class GatewayLimits: Sendable {
    private let guesses: Mutex<FailureBackoff<ClientAddress>>
    private let lists: Mutex<FailureBackoff<ClientAddress>>
    private let allowance: Mutex<LogAllowance<ClientAddress>>
    private let failures: Mutex<FailureLog>
    /// Until when somebody owes something for guesses, uptime nanoseconds. 0 at first.
    private let guessing = Atomic<UInt64>(0)

    init(
        backoff: FailureBackoff<ClientAddress>.Limits = .init(), lists: FailureBackoff<ClientAddress>.Limits = .lists,
        log: LogAllowance<ClientAddress>.Limits = .init(), failureLines: TimeAmount = .seconds(10)
    ) {
        self.guesses = Mutex(FailureBackoff(backoff))
        self.lists = Mutex(FailureBackoff(lists))
        self.allowance = Mutex(LogAllowance(log))
        self.failures = Mutex(FailureLog(length: failureLines))
    }

    /// Takes a request with a wrong token or signature.
    ///
    /// - Returns: the seconds that the client shall wait, nil for a plain refusal.
    func guessed(_ client: ClientAddress) -> Int64? {
        let now = NIODeadline.now()
        return self.guesses.withLock { guesses in
            self.guessing.store((now + guesses.longestDebt).uptimeNanoseconds, ordering: .relaxed)
            return guesses.failed(client, at: now)
        }
    }

    /// True if a client guessed lately, so that its token is looked at before any package is read.
    func isSuspect(_ client: ClientAddress) -> Bool {
        let now = NIODeadline.now()
        guard self.guessing.load(ordering: .relaxed) > now.uptimeNanoseconds else { return false }
        return self.guesses.withLock { $0.owes(client, at: now) }
    }

    /// Takes a list of changes that had nothing in it.
    ///
    /// - Returns: as `guessed`.
    func listedNothing(_ client: ClientAddress) -> Int64? {
        self.lists.withLock { $0.failed(client, at: .now()) }
    }

    /// True if a client listed nothing so often that it is told to wait.
    func isListingNothing(_ client: ClientAddress) -> Bool {
        self.lists.withLock { $0.isExhausted(client, at: .now()) }
    }

    /// How many of some messages of a client may be logged.
    func admit(_ count: Int, from client: ClientAddress) -> Int {
        self.allowance.withLock { $0.admit(count, from: client, at: .now()) }
    }

    /// Takes a failure of ours.
    func failed(_ kind: String, _ reason: String) -> FailureLog.Step {
        self.failures.withLock { $0.failed(kind, reason, at: .now()) }
    }

    /// What failed since the last line about a kind.
    func summary(of kind: String) -> FailureLog.Summary? {
        self.failures.withLock { $0.summary(of: kind, at: .now()) }
    }
}
