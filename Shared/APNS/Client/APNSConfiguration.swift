public import NIOCore

/// Times and bounds of a client; the defaults are for APNs itself.
public struct APNSConfiguration: Sendable {
    // MARK: Requests

    /// The longest time for a request from its first start, retries included, and the longest time without any progress
    /// of the queue.
    public var requestTimeout: TimeAmount = .seconds(10)
    /// The longest time that a notification waits for its start while others are being answered.
    var queueTimeout: TimeAmount = .seconds(60)
    /// The most notifications that may wait; any more are refused with `.queueFull`.
    public var queueLimit = 100_000
    /// The most streams of a connection that are used, whatever the peer allows.
    public var streamCap = 1_000
    /// The number of streams used on a new connection, which may be one that fails every request; each good answer
    /// doubles it.
    var firstStreams = 8

    // MARK: Connections

    /// The least number of connections kept once there was something to send, and the most there may be.
    public var connections = 2...8
    /// The shortest time between two openings; the first is not delayed.
    public var openSpacing: TimeAmount = .seconds(1)
    /// A connection is added when requests have waited this long for a stream while all connections are full …
    var growAge: TimeAmount = .milliseconds(500)
    /// … and this has lasted for this long.
    var growSustain: TimeAmount = .seconds(1)
    /// One is retired when half of the others would have been enough all this time.
    var shrinkAfter: TimeAmount = .minutes(10)
    /// The longest time for name resolution, connecting, the proxy and the TLS handshake together.
    public var connectTimeout: TimeAmount = .seconds(10)
    /// Waits after attempts that failed.
    public var backoff = Backoff()
    /// A connection that worked but ends sooner is short-lived: after three in a row the next ones wait.
    var shortLife: TimeAmount = .seconds(30)
    /// The time for which an address that failed is tried after the others.
    var addressMemory: TimeAmount = .minutes(1)

    // MARK: Liveness

    /// A PING is sent after this much silence with something outstanding; also the time allowed for its answer.
    var pingInterval: TimeAmount = .seconds(5)
    /// The idle time after which a connection gets a PING together with its next request, and the time allowed for the
    /// answer.
    var idleToPing: TimeAmount = .seconds(60)
    var idlePingPatience: TimeAmount = .seconds(2)
    /// Time-outs in a row after which the connection takes no new requests.
    var timeoutsToRetire = 3
    /// The interval at which deadlines are checked while something is outstanding.
    public var tick: TimeAmount = .milliseconds(100)
    /// The longest time that `close` waits for requests already accepted.
    public var closeTimeout: TimeAmount = .seconds(10)
    /// Called on the event loop with what happens to connections: must not block.
    public var onEvent: (@Sendable (APNSEvent) -> Void)?

    /// The last stream identifier that a connection uses; tests lower it, since they cannot go through all 2^30.
    var lastStreamIdentifier = Int32.max
    /// Returns the addresses of a host, resolved again for each connection.
    var resolver = HostResolver.system

    public init() {}
}
