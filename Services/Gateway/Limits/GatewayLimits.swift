import HTTPServer
import NIOCore
import Synchronization

/// The limits on clients, shared by all connections.
///
/// Without recent failures, a successful request costs the check of one number.
final class GatewayLimits: Sendable {
    private let guesses: Mutex<FailureBackoff<ClientAddress>>
    private let lists: Mutex<FailureBackoff<ClientAddress>>
    private let allowance: Mutex<DeviceLogLimit<ClientAddress>>
    private let failures: Mutex<FailureLogThrottle>
    /// The time until which any client owes something for guesses, in uptime nanoseconds; 0 at first.
    private let guessing = Atomic<UInt64>(0)

    init(
        backoff: FailureBackoff<ClientAddress>.Limits = .init(), lists: FailureBackoff<ClientAddress>.Limits = .lists,
        log: DeviceLogLimit<ClientAddress>.Limits = .init(), failureLines: TimeAmount = .seconds(10)
    ) {
        self.guesses = Mutex(FailureBackoff(backoff))
        self.lists = Mutex(FailureBackoff(lists))
        self.allowance = Mutex(DeviceLogLimit(log))
        self.failures = Mutex(FailureLogThrottle(length: failureLines))
    }

    /// Counts a request with a wrong token or signature.
    ///
    /// - Returns: the seconds that the client must wait, nil for a plain refusal.
    func guessed(_ client: ClientAddress) -> Int64? {
        let now = NIODeadline.now()
        return self.guesses.withLock { guesses in
            self.guessing.store((now + guesses.longestDebt).uptimeNanoseconds, ordering: .relaxed)
            return guesses.failed(client, at: now)
        }
    }

    /// True if a client guessed recently, so that its token is checked before any package is read.
    func isSuspect(_ client: ClientAddress) -> Bool {
        let now = NIODeadline.now()
        guard self.guessing.load(ordering: .relaxed) > now.uptimeNanoseconds else { return false }
        return self.guesses.withLock { $0.owes(client, at: now) }
    }

    /// Counts an empty list of changes.
    ///
    /// - Returns: the same as `guessed`.
    func listedNothing(_ client: ClientAddress) -> Int64? {
        self.lists.withLock { $0.failed(client, at: .now()) }
    }

    /// True if a client got empty lists so often that it must wait.
    func isListingNothing(_ client: ClientAddress) -> Bool {
        self.lists.withLock { $0.isExhausted(client, at: .now()) }
    }

    /// Returns the number of a client's messages that may be logged.
    func admit(_ count: Int, from client: ClientAddress) -> Int {
        self.allowance.withLock { $0.admit(count, from: client, at: .now()) }
    }

    /// Counts a failure on our side.
    func failed(_ kind: String, _ reason: String) -> FailureLogThrottle.Step {
        self.failures.withLock { $0.failed(kind, reason, at: .now()) }
    }

    /// Returns the failures since the last line about a kind.
    func summary(of kind: String) -> FailureLogThrottle.Summary? {
        self.failures.withLock { $0.summary(of: kind, at: .now()) }
    }
}
