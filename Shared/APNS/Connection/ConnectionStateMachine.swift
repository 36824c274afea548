import HTTP2
import NIOCore

/// Decides on the next actions of one connection: streams, GOAWAY, liveness. A value: no socket, no clock.
///
/// `handshaking` -> `open` -> `draining` -> `closed`; each may go to `closed` directly, none goes back.
struct ConnectionStateMachine {
    /// A phase in the life of a connection.
    enum Phase: Hashable {
        /// Name resolution, TCP and TLS are in progress; to `open` or `closed`.
        case handshaking
        /// Accepts requests; to `draining` or `closed`.
        case open
        /// Accepts no requests and waits for the answers of its open streams until the deadline; to `closed`.
        case draining(until: NIODeadline)
        case closed
    }

    /// The action that a tick of the clock requires.
    enum TickAction: Hashable {
        case nothing
        case ping
        case close(APNSError)
    }

    /// The result of a request whose stream has ended.
    enum StreamResult: Hashable {
        case answered(status: Int)
        /// The request was not processed and returns to the front of the queue.
        case again
        case failed(APNSError)
    }

    private(set) var phase = Phase.handshaking
    private(set) var openStreams = 0
    /// The reason for draining; nil if the connection does not drain, or drains only because it is not needed.
    private(set) var retirement: APNSEvent.Replacement?
    /// The time when bytes last arrived, or when an idle connection last started a request.
    private(set) var lastReceived: NIODeadline
    /// The share of failures in 1,024ths, as a moving average: each new outcome has a weight of one thirty-second.
    private(set) var failureShare = 0
    /// The time of the first failure after a period with hardly any.
    private(set) var failingSince: NIODeadline?
    /// The time of the last answer that is not a failure.
    private(set) var lastGoodAnswer: NIODeadline?
    /// One stream until the peer's settings arrive, because it may allow no more.
    private var announcedLimit = 1
    /// The limit that the peer seems to accept after a refusal, whatever it announced; each answer raises it by one.
    private var borneLimit = Int.max
    /// False while only one stream is allowed: with a provider token, until a request with it has been answered
    /// (Wallet Orders §4.5).
    private var isProven: Bool
    /// The limit of a new connection, which begins with few streams; each good answer doubles it.
    private var trustedLimit: Int
    private var timeoutsInARow = 0
    /// The number of refusals of the provider token since the last good answer.
    private var tokenRefusals = 0
    /// The number of answers of another server than APNs since the last good answer.
    private var foreignAnswers = 0
    /// The time of the PING since which no byte has arrived, and the time allowed for its answer.
    private var pingSent: NIODeadline?
    private var pingPatience = TimeAmount.zero
    /// The time of the last PING, for its round trip.
    private var lastPing: NIODeadline?
    private let created: NIODeadline
    private let configuration: APNSConfiguration

    /// The number of refusals of the provider token in a row after which the connection is replaced, because it never
    /// accepts the new token. A single refusal may concern one device only.
    static let tokenRefusalsToRetire = 2
    /// The number of answers of another server in a row after which the connection is replaced. A single one may come
    /// from a middlebox that lets the next request pass.
    static let foreignAnswersToRetire = 2
    /// The share below which failures are ignored, in 1,024ths: one in twenty.
    private static let fewFailures = 51

    init(isProven: Bool, configuration: APNSConfiguration, now: NIODeadline) {
        self.isProven = isProven
        self.configuration = configuration
        self.trustedLimit = max(1, configuration.firstStreams)
        self.created = now
        self.lastReceived = now
    }

    /// The present limit of concurrent streams, apart from the lower limit of a new connection.
    var limit: Int {
        min(self.announcedLimit, self.borneLimit, self.configuration.streamCap, self.isProven ? .max : 1)
    }
    /// The number of requests that can start now; 0 while a lowered limit is exceeded, and while a PING is unanswered.
    var freeStreams: Int {
        guard self.phase == .open, self.pingSent == nil else { return 0 }
        return max(0, min(self.limit, self.trustedLimit) - self.openStreams)
    }
    /// True if the connection only waits for its last answers.
    var isDraining: Bool { if case .draining = self.phase { true } else { false } }
    /// True if a PING is unanswered.
    var isAsking: Bool { self.pingSent != nil }
    /// True if nothing is left to wait for.
    var isDrained: Bool { self.isDraining && self.openStreams == 0 }

    mutating func handshakeCompleted(now: NIODeadline) {
        guard self.phase == .handshaking else { return }
        self.phase = .open
        self.lastReceived = now
    }

    /// Sets the peer's limit.
    ///
    /// - Parameter maxConcurrentStreams: may be lower than the number of open streams.
    mutating func settings(maxConcurrentStreams: UInt32) {
        self.announcedLimit = Int(maxConcurrentStreams)
        self.borneLimit = .max
    }

    /// Stops new requests on this connection and sets the deadline for the open streams.
    ///
    /// The second GOAWAY of a pair changes nothing here; the session ends the streams above its last stream.
    /// - Parameter reason: nil if the connection is merely not needed.
    mutating func retire(_ reason: APNSEvent.Replacement?, now: NIODeadline) {
        guard self.phase == .open else { return }
        self.retirement = reason
        self.phase = .draining(until: now + self.configuration.requestTimeout + self.configuration.pingInterval)
    }

    /// Counts a new stream.
    ///
    /// - Parameter stream: its identifier; the last identifier that may be used retires the connection.
    /// - Returns: true if a PING must accompany the request, because the connection was idle for so long that a
    ///   middlebox may have forgotten it.
    @discardableResult
    mutating func started(stream: Int32, now: NIODeadline) -> Bool {
        var isStale = false
        if self.openStreams == 0 {
            isStale = self.pingSent == nil && now - self.lastReceived >= self.configuration.idleToPing
            // The silence that a PING checks begins with the first request that waits for an answer.
            self.lastReceived = max(self.lastReceived, now)
            if isStale { self.ask(self.configuration.idlePingPatience, now: now) }
        }
        self.openStreams += 1
        if stream > self.configuration.lastStreamIdentifier - 2 { self.retire(.streamIdentifiers, now: now) }
        return isStale
    }

    /// Doubts this connection because another connection to the same service failed by silence.
    ///
    /// - Returns: true if the connection is idle, so that a PING must check it.
    mutating func doubted(now: NIODeadline) -> Bool {
        guard self.phase == .open, self.openStreams == 0, self.pingSent == nil else { return false }
        self.ask(self.configuration.idlePingPatience, now: now)
        return true
    }

    private mutating func ask(_ patience: TimeAmount, now: NIODeadline) {
        self.pingSent = now
        self.pingPatience = patience
        self.lastPing = now
    }

    /// Counts a stream that has ended, and judges the connection by its result.
    ///
    /// - Parameter isForeign: true if the answer is not of APNs. Repeated ones retire the connection.
    mutating func ended(_ end: HTTP2StreamEnd, isForeign: Bool = false, now: NIODeadline) -> StreamResult {
        self.openStreams = max(0, self.openStreams - 1)
        if end.isComplete, let status = end.status {
            self.timeoutsInARow = 0
            if self.borneLimit < .max { self.borneLimit += 1 }
            // A refused token proves nothing (Wallet Orders §4.5).
            if status != 403, !isForeign { self.isProven = true }
            // For 429 the reason decides, in `throttled`.
            if status != 429 { self.judge(isFailure: status >= 500 || status == 403 || isForeign, now: now) }
            if isForeign {
                self.foreignAnswers += 1
                if self.foreignAnswers >= Self.foreignAnswersToRetire { self.retire(.foreign, now: now) }
            }
            return .answered(status: status)
        }
        if end.errorCode == .refusedStream {
            self.borneLimit = max(1, self.openStreams)
            return .again
        }
        self.judge(isFailure: true, now: now)
        return .failed(
            APNSError(.protocolViolation, "waiting for an answer: APNs ended the stream with \(end.errorCode)"))
    }

    /// Counts the end of an abandoned request's stream without an answer, which says nothing about the peer.
    mutating func endedUnanswered() { self.openStreams = max(0, self.openStreams - 1) }

    /// Judges the connection by a 429, for a device or for the provider.
    mutating func throttled(isOneDevice: Bool, now: NIODeadline) { self.judge(isFailure: !isOneDevice, now: now) }

    /// Counts a refusal of the provider token. Repeated refusals retire the connection.
    mutating func tokenRefused(now: NIODeadline) {
        self.tokenRefusals += 1
        if self.tokenRefusals >= Self.tokenRefusalsToRetire { self.retire(.providerToken, now: now) }
    }

    private mutating func judge(isFailure: Bool, now: NIODeadline) {
        if isFailure {
            if self.failureShare < Self.fewFailures || self.failingSince == nil { self.failingSince = now }
            self.failureShare += (1024 - self.failureShare + 31) >> 5
        } else {
            self.lastGoodAnswer = now
            self.tokenRefusals = 0
            self.foreignAnswers = 0
            if self.failureShare > 0 { self.failureShare -= (self.failureShare + 31) >> 5 }
            if self.trustedLimit < self.configuration.streamCap { self.trustedLimit *= 2 }
        }
    }

    /// Counts a request whose deadline has passed. Several in a row retire the connection.
    mutating func timedOut(now: NIODeadline) {
        self.judge(isFailure: true, now: now)
        self.timeoutsInARow += 1
        if self.timeoutsInARow >= self.configuration.timeoutsToRetire { self.retire(.timeouts, now: now) }
    }

    /// Notes that bytes of any kind arrived: the peer is alive.
    mutating func received(now: NIODeadline) {
        self.lastReceived = now
        self.pingSent = nil
    }

    /// Notes that the PING's answer arrived.
    ///
    /// - Returns: the round trip; nil if no answer was awaited.
    mutating func pingAcknowledged(now: NIODeadline) -> TimeAmount? {
        defer { self.lastPing = nil }

        return self.lastPing.map { now - $0 }
    }

    mutating func closed() {
        self.phase = .closed
        self.openStreams = 0
    }

    mutating func tick(now: NIODeadline) -> TickAction {
        switch self.phase {
        case .closed:
            return .nothing
        case .handshaking:
            guard now - self.created >= self.configuration.connectTimeout else { return .nothing }
            let limit = self.configuration.connectTimeout.nanoseconds / 1_000_000
            return .close(APNSError(.connecting, "shaking hands: no end within \(limit) ms"))
        case .draining(let until) where until <= now:
            return .close(
                APNSError(.connectionLost, "waiting for the last answers of a retired connection: time is up"))
        case .open, .draining:
            if let pingSent = self.pingSent {
                guard now - pingSent >= self.pingPatience else { return .nothing }
                self.retire(.silence, now: now)
                return .close(APNSError(.connectionLost, "waiting for a sign of life: PING was not answered"))
            }
            guard self.openStreams > 0, now - self.lastReceived >= self.configuration.pingInterval else {
                return .nothing
            }
            self.ask(self.configuration.pingInterval, now: now)
            return .ping
        }
    }
}
