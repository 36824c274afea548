/// A lasting fault of a connection.
public enum APNSSimulatorCondition: Hashable, Sendable {
    /// Another SETTINGS_MAX_CONCURRENT_STREAMS; open streams above it remain.
    case streamLimit(Int)
    /// The same, and open streams above it end with REFUSED_STREAM, the newest first. Source: RFC 9113 §8.7
    case refusingStreamLimit(Int)
    /// No request is answered; PINGs are.
    case mute
    /// Nothing is read and nothing is sent, so PINGs are not answered either. The data held back is sent at the end.
    case blackHole
    /// The socket is read in small parts with pauses, so the client's writes block.
    case slowReads(APNSSimulatorPace)
    /// No window: SETTINGS_INITIAL_WINDOW_SIZE 0, and no WINDOW_UPDATE. Source: RFC 9113 §6.9
    case shutWindow
    /// Output is sent in small parts with pauses, each in a TLS record of its own.
    case trickle(APNSSimulatorPace)
}

/// A number of bytes at a time, with a pause in between.
public struct APNSSimulatorPace: Hashable, Sendable {
    /// From 1.
    public var bytes: Int
    /// From 1.
    public var everyMilliseconds: Int

    public init(bytes: Int, everyMilliseconds: Int) {
        self.bytes = max(1, bytes)
        self.everyMilliseconds = max(1, everyMilliseconds)
    }
}

/// A fault of a new connection.
public enum APNSSimulatorConnectFault: Hashable, Sendable {
    /// The server's first SETTINGS, and everything after them, come late.
    case lateSettings(milliseconds: Int)
    /// The ClientHello is answered with a fatal alert. Source: RFC 8446 §6: 40 is handshake_failure
    case refuseHandshake(alert: UInt8)
    /// The ClientHello is not read for a while.
    case slowHandshake(milliseconds: Int)
    /// Accepted, then ended with RST.
    case drop
}

/// All conditions of one connection.
struct APNSSimulatorConditions: Hashable {
    /// nil: the usual one.
    var streamLimit: Int?
    /// True if open streams above the limit end.
    var refusesOpenStreams = false
    var isMute = false
    var isBlackHole = false
    var slowReads: APNSSimulatorPace?
    var isWindowShut = false
    var trickle: APNSSimulatorPace?

    /// Adds a condition; a later one of the same kind overrides.
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
