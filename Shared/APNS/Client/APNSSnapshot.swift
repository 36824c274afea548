/// How a client's pool stands at one moment, for gauges.
public struct APNSSnapshot: Hashable, Sendable {
    /// What a connection, or a place for one, is doing.
    public enum ConnectionState: String, Hashable, Sendable, CaseIterable {
        /// Resolves a name, or sets up TCP and TLS.
        case connecting
        /// Takes requests.
        case open
        /// Takes no requests, waits for the last answers.
        case draining
        /// Waits before it connects again.
        case backingOff = "backing-off"
    }

    /// How many there are in each state; a state without any is left out.
    public var connections: [ConnectionState: Int] = [:]
    /// Requests that wait for an answer, on all connections.
    public var streamsInUse = 0
    /// How many the open connections would take together, as their peers announced it.
    public var streamLimit = 0
    /// Requests that wait for a stream.
    public var queued = 0
    /// How long the oldest of them has waited; nil when none waits.
    public var oldestQueued: Duration?
    /// Why the last connection failed, while none has answered since.
    public var lastFailure: APNSError?

    public init() {}
}
