public import NIOCore

/// Times and bounds of a client; the defaults are for APNs itself.
public struct APNSConfiguration: Sendable {
    /// How long a request may take from its first start, retries included, and how long the queue may stand still.
    public var requestTimeout: TimeAmount = .seconds(10)
    /// How long a notification may wait for its start while others are being answered.
    public var queueTimeout: TimeAmount = .seconds(60)
    /// How many notifications may wait; what comes above is refused with `.queueFull`.
    public var queueLimit = 100_000
    /// How many streams are used at most, whatever the peer allows.
    public var streamCap = 1_000
    /// How long connecting and the TLS handshake may take, together.
    public var connectTimeout: TimeAmount = .seconds(10)
    /// How long `close` waits for what it was given.
    public var closeTimeout: TimeAmount = .seconds(10)
    /// Silence with something outstanding after which a PING asks for a sign of life, and for how long.
    public var pingInterval: TimeAmount = .seconds(15)
    /// Time-outs in a row after which the connection takes no new requests.
    public var timeoutsToRetire = 3
    /// How often deadlines are looked at while something is outstanding.
    public var tick: TimeAmount = .milliseconds(100)
    public var backoff = Backoff()
    /// Told what happens to connections, on the event loop: must not block.
    public var onEvent: (@Sendable (APNSEvent) -> Void)?

    public init() {}
}
