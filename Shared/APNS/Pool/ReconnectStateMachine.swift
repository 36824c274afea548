import NIOCore

/// When the client connects: at the first notification, and again whenever the connection in use is gone. A value.
///
/// `idle` -> `connecting` -> `connected` -> `waiting` -> `connecting` …; `stopped` from everywhere, for good.
struct ReconnectStateMachine {
    /// Whether there is a connection for new requests.
    enum State: Hashable { case idle, connecting, connected, waiting, stopped }
    /// What the driver is to do.
    enum Action: Hashable {
        case nothing
        case connect
        /// Then call `waited`.
        case wait(TimeAmount)
    }

    private(set) var state = State.idle
    /// Attempts since a connection last proved itself by an answer; the next wait grows with it.
    private(set) var attempts = 0
    private let backoff: Backoff

    init(backoff: Backoff) { self.backoff = backoff }

    /// There is something to send.
    mutating func wanted() -> Action {
        guard self.state == .idle else { return .nothing }
        self.state = .connecting
        return .connect
    }

    /// The wait is over.
    mutating func waited() -> Action {
        guard self.state == .waiting else { return .nothing }
        self.state = .connecting
        return .connect
    }

    mutating func connected() { if self.state == .connecting { self.state = .connected } }

    /// An answer came that a healthy connection gives; handshakes alone prove nothing.
    mutating func proven() { self.attempts = 0 }

    /// The attempt failed, or the connection for new requests is closed or retired.
    mutating func lost(jitter: Double) -> Action {
        guard self.state == .connecting || self.state == .connected else { return .nothing }
        self.state = .waiting
        let delay = self.backoff.delay(attempt: self.attempts, jitter: jitter)
        self.attempts = min(self.attempts + 1, 1_000)
        return .wait(delay)
    }

    mutating func stop() { self.state = .stopped }
}
