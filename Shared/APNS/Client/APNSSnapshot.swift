/// The state of a client's pool at one moment, for gauges.
public struct APNSSnapshot: Hashable, Sendable {
    /// The state of a connection, or of a slot for one.
    public enum ConnectionState: String, Hashable, Sendable, CaseIterable {
        /// Resolves a name, or establishes TCP and TLS.
        case connecting
        /// Accepts requests.
        case open
        /// Accepts no requests and waits for the last answers.
        case draining
        /// Waits before it connects again.
        case backingOff = "backing-off"
    }

    /// The number of connections in each state; states without a connection are absent.
    public var connections: [ConnectionState: Int] = [:]
    /// The number of open streams of all connections.
    public var streamsInUse = 0
    /// The sum of the stream limits in force on the open connections, which may be below those that APNs announced.
    public var streamLimit = 0
    /// The number of requests that wait for a stream.
    public var queued = 0
    /// The age of the oldest queued request; nil if there is none.
    public var oldestQueued: Duration?
    /// The reason for the last failure of a connection; nil once any connection has delivered an answer since.
    public var lastFailure: APNSError?

    public init() {}
}
