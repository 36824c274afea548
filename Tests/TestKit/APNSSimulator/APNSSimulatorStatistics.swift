/// Counts since the start of the simulator.
public struct APNSSimulatorStatistics: Hashable, Sendable {
    /// A status with its reason.
    public struct Outcome: Hashable, Sendable {
        /// 0 for no answer.
        public let status: Int
        public let reason: String?
    }

    public var requests: UInt64 = 0
    public var outcomes: [Outcome: UInt64] = [:]
    public var violations: [APNSSimulatorViolation: UInt64] = [:]
    public var openedConnections: UInt64 = 0
    public var closedConnections: UInt64 = 0
    public var closedByClient: UInt64 = 0
    public var refusedConnections: UInt64 = 0
    public var openConnections = 0
    public var openStreams = 0
    /// The most streams that one connection had open concurrently.
    public var mostStreams = 0
    public var goAways: UInt64 = 0
    public var pings: UInt64 = 0
    /// Streams that clients reset.
    public var resetByClients: UInt64 = 0
    public var faults: UInt64 = 0
    /// Requests in the last complete second that had any, and the most in one second.
    public var requestsPerSecond = 0
    public var mostRequestsPerSecond = 0
    private var second: Int64 = 0
    private var inSecond = 0

    /// The most distinct outcomes: a fault may set any reason.
    static let outcomeLimit = 1_000

    /// Counts a request.
    mutating func answered(_ answer: APNSSimulatorAnswer?, atMilliseconds now: Int64) {
        self.requests += 1
        let outcome = Outcome(status: answer?.status ?? 0, reason: answer?.reason)
        if self.outcomes.count < Self.outcomeLimit || self.outcomes[outcome] != nil {
            self.outcomes[outcome, default: 0] += 1
        }
        if now / 1000 != self.second {
            self.requestsPerSecond = self.inSecond
            self.inSecond = 0
            self.second = now / 1000
        }
        self.inSecond += 1
        self.mostRequestsPerSecond = max(self.mostRequestsPerSecond, self.inSecond)
    }

    /// Counts an event.
    mutating func count(_ kind: APNSSimulatorEvent.Kind) {
        switch kind {
        case .opened: self.openedConnections += 1
        case .closed(let byClient, _):
            self.closedConnections += 1
            if byClient { self.closedByClient += 1 }
        case .refused: self.refusedConnections += 1
        case .goAwaySent: self.goAways += 1
        case .ping: self.pings += 1
        case .reset(_, _, let byClient): if byClient { self.resetByClients += 1 }
        case .fault: self.faults += 1
        case .violation(let violation, _): self.violations[violation, default: 0] += 1
        case .settings, .settingsAcknowledged, .goAwayReceived, .request, .faultOver: break
        }
    }

    /// The answer of `GET /statistics`.
    var json: String {
        var text = "{\"requests\":\(self.requests),\"requestsPerSecond\":\(self.requestsPerSecond)"
        text += ",\"mostRequestsPerSecond\":\(self.mostRequestsPerSecond),\"openConnections\":\(self.openConnections)"
        text += ",\"openedConnections\":\(self.openedConnections),\"closedConnections\":\(self.closedConnections)"
        text += ",\"closedByClient\":\(self.closedByClient),\"refusedConnections\":\(self.refusedConnections)"
        text += ",\"openStreams\":\(self.openStreams),\"mostStreams\":\(self.mostStreams),\"goAways\":\(self.goAways)"
        text += ",\"pings\":\(self.pings),\"resetByClients\":\(self.resetByClients),\"faults\":\(self.faults)"
        text += ",\"outcomes\":["
        let outcomes = self.outcomes.sorted {
            ($0.key.status, $0.key.reason ?? "") < ($1.key.status, $1.key.reason ?? "")
        }
        for (index, outcome) in outcomes.enumerated() {
            text += "\(index > 0 ? "," : ""){\"status\":\(outcome.key.status),\"reason\":"
            text.appendJSON(outcome.key.reason)
            text += ",\"count\":\(outcome.value)}"
        }
        text += "],\"violations\":{"
        let violations = self.violations.sorted { $0.key.rawValue < $1.key.rawValue }
        text += violations.map { "\"\($0.key.rawValue)\":\($0.value)" }.joined(separator: ",")
        return text + "}}"
    }
}
