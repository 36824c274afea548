/// The state of a client's pool at one moment, for gauges.
public struct APNSSnapshot: Hashable, Sendable {
    /// The state of a connection, or of a slot for one.
    public enum ConnectionState: String, Hashable, Sendable, CaseIterable {
        /// Resolves a name, or sets up TCP and TLS.
        case connecting
        /// Accepts requests.
        case open
        /// Accepts no requests, waits for the last answers.
        case draining
        /// Waits before it connects again.
        case backingOff = "backing-off"
    }

    /// The number of connections in each state; a state without any is left out.
    public var connections: [ConnectionState: Int] = [:]
    /// Requests that wait for an answer, on all connections.
    public var streamsInUse = 0
    /// The sum of the stream limits of the open connections, as their peers announced them.
    public var streamLimit = 0
    /// Requests that wait for a stream.
    public var queued = 0
    /// The age of the oldest of them; nil if none waits.
    public var oldestQueued: Duration?
    /// The reason why the last connection failed, as long as none has answered since.
    public var lastFailure: APNSError?

    public init() {}
}
