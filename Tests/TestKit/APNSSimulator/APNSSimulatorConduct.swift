/// What a client must not do, and the simulator notes when it does.
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
    /// More than ten connections within a minute that the client closed itself.
    case rapidReconnects
    /// A request that breaks a rule, whoever sent it.
    case badRequest
    /// HTTP/2 was spoken wrongly.
    case protocolError
}

/// How one client behaves, as far as only the order of frames shows it.
///
/// A client knows of SETTINGS when it has acknowledged them, and of a GOAWAY when it has answered the PING sent behind
/// it; what it did before may have crossed them on the way.
struct APNSSimulatorConduct: Hashable {
    /// What was announced and is not acknowledged yet.
    private var announced: [Int] = []
    /// What the client has acknowledged last; nil: nothing.
    private(set) var acknowledgedLimit: Int?
    private(set) var knowsGoAway = false
    private var pings: [Int64] = []

    /// How many PINGs are too many, and in which time.
    static let pingLimit = 10
    static let pingWindowMilliseconds: Int64 = 10_000

    mutating func announced(limit: Int) { self.announced.append(limit) }

    /// The client has acknowledged the oldest SETTINGS.
    mutating func acknowledged() {
        if !self.announced.isEmpty { self.acknowledgedLimit = self.announced.removeFirst() }
    }

    /// The client has answered the PING behind a GOAWAY.
    mutating func hasReadGoAway() { self.knowsGoAway = true }

    /// A stream was opened.
    /// - Parameter open: how many were open before.
    func opened(beside open: Int) -> APNSSimulatorViolation? {
        if self.knowsGoAway { return .streamAfterGoAway }
        guard let limit = self.acknowledgedLimit else { return open > 0 ? .streamsBeforeSettings : nil }
        return open >= limit ? .streamLimitExceeded : nil
    }

    /// A PING came that answers none of ours.
    mutating func pinged(atMilliseconds now: Int64) -> APNSSimulatorViolation? {
        self.pings.removeAll { $0 <= now - Self.pingWindowMilliseconds }
        self.pings.append(now)
        guard self.pings.count > Self.pingLimit else { return nil }
        self.pings = []
        return .pingFlood
    }
}

/// Who comes and goes too fast.
struct APNSSimulatorReconnects: Hashable {
    /// When clients closed their connections themselves.
    private var closings: [Int64] = []

    /// How many closings are too many, and in which time.
    static let limit = 10
    static let windowMilliseconds: Int64 = 60_000

    /// A client has closed a connection that nothing had ended.
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
