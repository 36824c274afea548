/// A violation of the rules by a client, as recorded by the simulator.
///
/// Source: Wallet Orders §4.4, §4.5; RFC 9113 §5.1.2, §6.8
public enum APNSSimulatorViolation: String, Hashable, Sendable, CaseIterable {
    /// More streams than a limit that the client had acknowledged.
    case streamLimitExceeded
    /// A second stream before the server's first SETTINGS were acknowledged: their limit may be 1.
    case streamsBeforeSettings
    /// A new stream although the client had read the GOAWAY.
    case streamAfterGoAway
    /// Another provider token within twenty minutes on one connection.
    case providerTokenChangedTooOften
    /// Another key or team on a connection.
    case providerTokenOfAnotherKey
    /// More than ten PINGs in ten seconds on one connection.
    case pingFlood
    /// More than ten connections within a minute, closed by the client itself.
    case rapidReconnects
    /// A request that breaks a rule, from any client.
    case badRequest
    /// A violation of the HTTP/2 protocol.
    case protocolError
}

/// The behaviour of one client, as far as the order of frames alone shows it.
///
/// A client knows of SETTINGS when it has acknowledged them, and of a GOAWAY when it has answered the PING sent after
/// it; its earlier frames may have crossed them on the way.
struct APNSSimulatorConduct: Hashable {
    /// Limits that were announced and are not acknowledged yet.
    private var announced: [Int] = []
    /// The limit that the client acknowledged last; nil: none.
    private(set) var acknowledgedLimit: Int?
    private(set) var knowsGoAway = false
    private var pings: [Int64] = []

    /// The number of PINGs that is too many, and the period for it.
    static let pingLimit = 10
    static let pingWindowMilliseconds: Int64 = 10_000

    mutating func announced(limit: Int) { self.announced.append(limit) }

    /// The client has acknowledged the oldest SETTINGS.
    mutating func acknowledged() {
        if !self.announced.isEmpty { self.acknowledgedLimit = self.announced.removeFirst() }
    }

    /// The client has answered the PING after a GOAWAY.
    mutating func hasReadGoAway() { self.knowsGoAway = true }

    /// A stream was opened.
    /// - Parameter open: the number of streams open before.
    func opened(beside open: Int) -> APNSSimulatorViolation? {
        if self.knowsGoAway { return .streamAfterGoAway }
        guard let limit = self.acknowledgedLimit else { return open > 0 ? .streamsBeforeSettings : nil }
        return open >= limit ? .streamLimitExceeded : nil
    }

    /// A PING came that is not an answer to one of ours.
    mutating func pinged(atMilliseconds now: Int64) -> APNSSimulatorViolation? {
        self.pings.removeAll { $0 <= now - Self.pingWindowMilliseconds }
        self.pings.append(now)
        guard self.pings.count > Self.pingLimit else { return nil }
        self.pings = []
        return .pingFlood
    }
}

/// Detects clients that reconnect too fast.
struct APNSSimulatorReconnects: Hashable {
    /// The times when clients closed their connections themselves.
    private var closings: [Int64] = []

    /// The number of closings that is too many, and the period for it.
    static let limit = 10
    static let windowMilliseconds: Int64 = 60_000

    /// A client has closed a connection without a cause.
    mutating func closed(atMilliseconds now: Int64) {
        self.closings.append(now)
        if self.closings.count > Self.limit + 1 { self.closings.removeFirst() }
    }

    /// A client connects.
    func opened(atMilliseconds now: Int64) -> APNSSimulatorViolation? {
        let recent = self.closings.filter { $0 > now - Self.windowMilliseconds }
        return recent.count > Self.limit ? .rapidReconnects : nil
    }
}
