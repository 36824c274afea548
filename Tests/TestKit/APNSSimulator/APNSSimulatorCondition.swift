/// A lasting fault of a connection.
public enum APNSSimulatorCondition: Hashable, Sendable {
    /// Another SETTINGS_MAX_CONCURRENT_STREAMS; open streams above it remain.
    case streamLimit(Int)
    /// The same, and the newest open streams, those above the limit, end with REFUSED_STREAM. Source: RFC 9113 §8.7
    case refusingStreamLimit(Int)
    /// No request is answered, but PINGs are.
    case mute
    /// Nothing is read or sent, so PINGs are not answered either. The output held back is sent when the condition ends.
    case blackHole
    /// The socket is read in small parts with pauses, so the client's writes block.
    case slowReads(APNSSimulatorPace)
    /// No window: SETTINGS_INITIAL_WINDOW_SIZE 0, and no WINDOW_UPDATE. Source: RFC 9113 §6.9
    case shutWindow
    /// Output is sent in small parts with pauses, each in its own TLS record.
    case trickle(APNSSimulatorPace)
}

/// A number of bytes at a time, with a pause in between.
public struct APNSSimulatorPace: Hashable, Sendable {
    /// At least 1.
    public var bytes: Int
    /// At least 1.
    public var everyMilliseconds: Int

    public init(bytes: Int, everyMilliseconds: Int) {
        self.bytes = max(1, bytes)
        self.everyMilliseconds = max(1, everyMilliseconds)
    }
}

/// A fault of a new connection.
public enum APNSSimulatorConnectFault: Hashable, Sendable {
    /// The server's first SETTINGS, and everything after them, are late.
    case lateSettings(milliseconds: Int)
    /// The ClientHello is answered with a fatal alert. Source: RFC 8446 §6: 40 is handshake_failure
    case refuseHandshake(alert: UInt8)
    /// The ClientHello is not read for a while.
    case slowHandshake(milliseconds: Int)
    /// The connection is accepted and then ends with RST.
    case drop
}

/// All conditions of one connection.
struct APNSSimulatorConditions: Hashable {
    /// Nil for the configured limit.
    var streamLimit: Int?
    /// True if open streams above the limit are refused.
    var refusesOpenStreams = false
    var isMute = false
    var isBlackHole = false
    var slowReads: APNSSimulatorPace?
    var isWindowShut = false
    var trickle: APNSSimulatorPace?

    /// Adds a condition, which overrides an earlier one of the same kind.
    mutating func add(_ condition: APNSSimulatorCondition) {
        switch condition {
        case .streamLimit(let limit): (self.streamLimit, self.refusesOpenStreams) = (limit, false)
        case .refusingStreamLimit(let limit): (self.streamLimit, self.refusesOpenStreams) = (limit, true)
        case .mute: self.isMute = true
        case .blackHole: self.isBlackHole = true
        case .slowReads(let pace): self.slowReads = pace
        case .shutWindow: self.isWindowShut = true
        case .trickle(let pace): self.trickle = pace
        }
    }
}
