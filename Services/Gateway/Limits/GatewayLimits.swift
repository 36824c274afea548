import NIOCore
import Synchronization

/// The limits on what clients may do, shared by all connections.
///
/// Nothing of it is touched by a request that goes well.
final class GatewayLimits: Sendable {
    private let backoff: Mutex<FailureBackoff<ClientAddress>>
    private let allowance: Mutex<LogAllowance<ClientAddress>>
    private let failures: Mutex<FailureLog>

    init(
        backoff: FailureBackoff<ClientAddress>.Limits = .init(), log: LogAllowance<ClientAddress>.Limits = .init(),
        failureLines: TimeAmount = .seconds(10)
    ) {
        self.backoff = Mutex(FailureBackoff(backoff))
        self.allowance = Mutex(LogAllowance(log))
        self.failures = Mutex(FailureLog(length: failureLines))
    }

    /// Takes a request with a wrong token or signature.
    ///
    /// - Returns: the seconds that the client shall wait, nil for a plain refusal.
    func refused(_ client: ClientAddress) -> Int64? {
        self.backoff.withLock { $0.failed(client, at: .now()) }
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
