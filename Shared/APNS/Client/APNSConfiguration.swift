public import NIOCore

/// Times and bounds of a client; the defaults are for APNs itself.
public struct APNSConfiguration: Sendable {
    // MARK: Requests

    /// How long a request may take from its first start, retries included, and how long the queue may stand still.
    public var requestTimeout: TimeAmount = .seconds(10)
    /// How long a notification may wait for its start while others are being answered.
    public var queueTimeout: TimeAmount = .seconds(60)
    /// How many notifications may wait; what comes above is refused with `.queueFull`.
    public var queueLimit = 100_000
    /// How many streams of a connection are used at most, whatever the peer allows.
    public var streamCap = 1_000
    /// The number of streams of a new connection that are used, which may be one that fails everything; each good
    /// answer doubles them.
    public var firstStreams = 8

    // MARK: Connections

    /// How many are kept at least, once there was something to send, and how many there may be.
    public var connections = 2...8
    /// The least time between two openings; the first is not delayed.
    public var openSpacing: TimeAmount = .seconds(1)
    /// A connection is added when requests have waited this long for a stream while all connections are full …
    public var growAge: TimeAmount = .milliseconds(500)
    /// … and it stays so for this long.
    public var growSustain: TimeAmount = .seconds(1)
    /// One is retired when half of the others would have been enough all this time.
    public var shrinkAfter: TimeAmount = .minutes(10)
    /// How long resolving the name, connecting, the proxy and the TLS handshake may take, together.
    public var connectTimeout: TimeAmount = .seconds(10)
    /// Waits after attempts that failed.
    public var backoff = Backoff()
    /// A connection that ends sooner although it worked was none worth having: after three in a row the next ones wait.
    public var shortLife: TimeAmount = .seconds(30)
    /// How long an address that failed is tried after the others.
    public var addressMemory: TimeAmount = .minutes(1)

    // MARK: Signs of life

    /// Silence with something outstanding after which a PING asks for a sign of life, and for how long.
    public var pingInterval: TimeAmount = .seconds(5)
    /// A connection that was idle for so long is asked by a PING together with its next request, and for how long.
    public var idleToPing: TimeAmount = .seconds(60)
    public var idlePingPatience: TimeAmount = .seconds(2)
    /// Time-outs in a row after which the connection takes no new requests.
    public var timeoutsToRetire = 3
    /// How often deadlines are looked at while something is outstanding.
    public var tick: TimeAmount = .milliseconds(100)
    /// How long `close` waits for what it was given.
    public var closeTimeout: TimeAmount = .seconds(10)
    /// Told what happens to connections, on the event loop: must not block.
    public var onEvent: (@Sendable (APNSEvent) -> Void)?

    /// The last stream identifier that a connection uses; tests have not the patience for all 2^30.
    var lastStreamIdentifier = Int32.max
    /// The addresses of a host, asked anew for each connection, on a thread that may block.
    var resolve: @Sendable (_ host: String, _ port: Int) throws(APNSError) -> [SocketAddress] = {
        host, port throws(APNSError) in
        try resolveHost(host, port: port)
    }

    public init() {}
}
