public import NIOCore

/// The time limits and bounds of a client; the defaults suit APNs itself.
public struct APNSConfiguration: Sendable {
    // MARK: Requests

    /// The longest time for a request from its first start, retries included, and the longest time that a request waits
    /// while the queue makes no progress.
    public var requestTimeout: TimeAmount = .seconds(10)
    /// The longest time that a notification waits for its start while others are answered.
    var queueTimeout: TimeAmount = .seconds(60)
    /// The maximum number of waiting notifications; any more are refused with `.queueFull`.
    public var queueLimit = 100_000
    /// The maximum number of streams used on a connection, whatever the peer allows.
    public var streamCap = 1_000
    /// The number of streams used on a new connection, which might fail every request; each good answer doubles it.
    var firstStreams = 8

    // MARK: Connections

    /// The minimum and maximum number of connections that accept requests; none before the first notification.
    public var connections = 2...8
    /// The shortest time between two openings of connections; the first is not delayed.
    public var openSpacing: TimeAmount = .seconds(1)
    /// A connection is added if requests have waited this long for a stream while all connections are full …
    var growAge: TimeAmount = .milliseconds(500)
    /// … and this state has lasted for this long.
    var growSustain: TimeAmount = .seconds(1)
    /// A connection is retired if half of the others' streams would have been enough during all of this time.
    var shrinkAfter: TimeAmount = .minutes(10)
    /// The longest time for name resolution, connecting, the proxy and the TLS handshake together.
    public var connectTimeout: TimeAmount = .seconds(10)
    /// The time for which notifications may wait without any connection until APNs is reported as unreachable.
    var reachTimeout: TimeAmount = .seconds(4)
    /// The waits after failed attempts to connect.
    public var backoff = Backoff()
    /// The lifetime below which a connection that worked is short-lived: after three in a row the next ones wait.
    var shortLife: TimeAmount = .seconds(30)
    /// The age from which an open connection without an answer counts as one that worked: nobody needed it.
    var provenAge: TimeAmount = .seconds(60)
    /// The time during which an address that failed is tried after the others.
    var addressMemory: TimeAmount = .minutes(1)

    // MARK: Liveness

    /// The silence after which a PING is sent if an answer is outstanding; also the time allowed for the PING's answer.
    var pingInterval: TimeAmount = .seconds(5)
    /// The idle time after which a connection gets a PING together with its next request, and the time allowed for the
    /// PING's answer.
    var idleToPing: TimeAmount = .seconds(60)
    var idlePingPatience: TimeAmount = .seconds(2)
    /// The number of time-outs in a row after which a connection accepts no new requests.
    var timeoutsToRetire = 3
    /// The interval at which deadlines are checked while there are any.
    public var tick: TimeAmount = .milliseconds(100)
    /// The longest time that `close` waits for the requests already accepted.
    public var closeTimeout: TimeAmount = .seconds(10)
    /// Receives the events of the connections, on the event loop; must not block.
    public var onEvent: (@Sendable (APNSEvent) -> Void)?

    /// The last stream identifier that a connection uses; tests lower it because they cannot use up all 2^30.
    var lastStreamIdentifier = Int32.max
    /// The resolver of host names, which is asked again for each connection.
    var resolver = HostResolver.system

    public init() {}
}
