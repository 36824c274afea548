/// A violation of the rules by a client, as recorded by the simulator.
///
/// Source: Wallet Orders §4.4, §4.5; RFC 9113 §5.1.2, §6.8
public enum APNSSimulatorViolation: String, Hashable, Sendable, CaseIterable {
    /// More streams than the limit that the client acknowledged last.
    case streamLimitExceeded
    /// A second stream before the server's first SETTINGS were acknowledged: their limit may be 1.
    case streamsBeforeSettings
    /// A new stream although the client had read the GOAWAY.
    case streamAfterGoAway
    /// Another provider token within twenty minutes of the last one on a connection.
    case providerTokenChangedTooOften
    /// A provider token of another key on a connection.
    case providerTokenOfAnotherKey
    /// More than ten PINGs in ten seconds on one connection.
    case pingFlood
    /// A connection after more than ten that clients of its topic closed within a minute, without a cause.
    case rapidReconnects
    /// A request that breaks any other rule.
    case badRequest
    /// A violation of the HTTP/2 protocol.
    case protocolError
}

/// The behaviour of one client, as far as the order of its frames shows it.
///
/// A client knows SETTINGS when it has acknowledged them, and a GOAWAY when it has answered the PING sent after it; its
/// earlier frames may have been in flight at the same time.
struct APNSSimulatorConduct: Hashable {
    /// The limits that were announced and are not acknowledged yet.
    private var announced: [Int] = []
    /// The limit that the client acknowledged last; nil before the first.
    private(set) var acknowledgedLimit: Int?
    private(set) var knowsGoAway = false
    private var pings: [Int64] = []

    /// The most PINGs allowed in a period, and the period.
    static let pingLimit = 10
    static let pingWindowMilliseconds: Int64 = 10_000

    mutating func announced(limit: Int) { self.announced.append(limit) }

    /// Notes that the client has acknowledged the oldest SETTINGS.
    mutating func acknowledged() {
        if !self.announced.isEmpty { self.acknowledgedLimit = self.announced.removeFirst() }
    }

    /// Notes that the client has answered the PING after a GOAWAY.
    mutating func hasReadGoAway() { self.knowsGoAway = true }

    /// Checks a stream that was opened.
    /// - Parameter open: the number of other open streams.
    /// - Returns: the violation; nil for none.
    func opened(beside open: Int) -> APNSSimulatorViolation? {
        if self.knowsGoAway { return .streamAfterGoAway }
        guard let limit = self.acknowledgedLimit else { return open > 0 ? .streamsBeforeSettings : nil }
        return open >= limit ? .streamLimitExceeded : nil
    }

    /// Counts a PING that does not answer one of ours.
    /// - Returns: the violation; nil for none.
    mutating func pinged(atMilliseconds now: Int64) -> APNSSimulatorViolation? {
        self.pings.removeAll { $0 <= now - Self.pingWindowMilliseconds }
        self.pings.append(now)
        guard self.pings.count > Self.pingLimit else { return nil }
        self.pings = []
        return .pingFlood
    }
}

/// The closed connections of one topic's clients, which show a client that reconnects too fast.
struct APNSSimulatorReconnects: Hashable {
    /// The times when clients closed their connections themselves.
    private var closings: [Int64] = []

    /// The most closings allowed in a period, and the period.
    static let limit = 10
    static let windowMilliseconds: Int64 = 60_000

    /// Notes that a client has closed a connection without a cause.
    mutating func closed(atMilliseconds now: Int64) {
        self.closings.append(now)
        if self.closings.count > Self.limit + 1 { self.closings.removeFirst() }
    }

    /// Checks a new connection.
    /// - Returns: the violation; nil for none.
    func opened(atMilliseconds now: Int64) -> APNSSimulatorViolation? {
        let recent = self.closings.filter { $0 > now - Self.windowMilliseconds }
        return recent.count > Self.limit ? .rapidReconnects : nil
    }
}
