import HTTP2
import NIOCore

/// What one connection may do next: stream slots, GOAWAY, signs of life. A value: no socket, no clock.
///
/// `handshaking` -> `open` -> `draining` -> `closed`; each may go to `closed` at once, none goes back.
struct ConnectionStateMachine {
    /// Where the connection is in its life.
    enum Phase: Hashable {
        /// The name is resolved, TCP and TLS are set up; to `open` or `closed`.
        case handshaking
        /// Takes requests; to `draining` or `closed`.
        case open
        /// Takes no requests, waits for the answers of its open streams until the deadline; to `closed`.
        case draining(until: NIODeadline)
        case closed
    }

    /// What a look at the clock asks for.
    enum TickAction: Hashable {
        case nothing
        case ping
        case close(APNSError)
    }

    /// What becomes of a request whose stream is over.
    enum StreamResult: Hashable {
        case answered(status: Int)
        /// It was not processed and goes to the front of the queue.
        case again
        case failed(APNSError)
    }

    private(set) var phase = Phase.handshaking
    private(set) var openStreams = 0
    /// Why it drains; nil while it does not, and when it is merely not needed.
    private(set) var retirement: APNSEvent.Replacement?
    /// When bytes last came, or something began to be waited for.
    private(set) var lastReceived: NIODeadline
    /// Answers with status 500 since the last other one, and when the first of them came.
    private(set) var serverErrors = 0
    private(set) var firstServerError: NIODeadline?
    /// When the last answer came that was not 5xx.
    private(set) var lastGoodAnswer: NIODeadline?
    /// Until the peer's settings are here, one stream: it may allow no more.
    private var announcedLimit = 1
    /// After a refusal, what the peer seems to bear whatever it announced; each answer raises it by one.
    private var borneLimit = Int.max
    /// With a provider token, one stream until a request with it was answered (Wallet Orders §4.5).
    private var isProven: Bool
    private var timeoutsInARow = 0
    /// The PING that waits for a sign of life.
    private var pingSent: NIODeadline?
    /// The last PING, for its round trip.
    private var lastPing: NIODeadline?
    private let created: NIODeadline
    private let configuration: APNSConfiguration

    init(isProven: Bool, configuration: APNSConfiguration, now: NIODeadline) {
        self.isProven = isProven
        self.configuration = configuration
        self.created = now
        self.lastReceived = now
    }

    /// How many streams may be open at once, now.
    var limit: Int {
        min(self.announcedLimit, self.borneLimit, self.configuration.streamCap, self.isProven ? .max : 1)
    }
    /// How many requests can be started now; 0 while a lowered limit is exceeded, and while a PING is unanswered.
    var freeStreams: Int {
        self.phase == .open && self.pingSent == nil ? max(0, self.limit - self.openStreams) : 0
    }
    /// Whether it only waits for its last answers.
    var isDraining: Bool { if case .draining = self.phase { true } else { false } }
    /// Nothing is left to wait for.
    var isDrained: Bool { self.isDraining && self.openStreams == 0 }

    mutating func handshakeCompleted(now: NIODeadline) {
        guard self.phase == .handshaking else { return }
        self.phase = .open
        self.lastReceived = now
    }

    /// - Parameter maxConcurrentStreams: as the peer said; it may be lower than what is open.
    mutating func settings(maxConcurrentStreams: UInt32) {
        self.announcedLimit = Int(maxConcurrentStreams)
        self.borneLimit = .max
    }

    /// No new requests here: GOAWAY, exhausted identifiers, an answer that says so, or too many time-outs.
    ///
    /// The second GOAWAY of a pair changes nothing here; the session ends the streams that it takes back.
    mutating func retire(_ reason: APNSEvent.Replacement?, now: NIODeadline) {
        guard self.phase == .open else { return }
        self.retirement = reason
        self.phase = .draining(until: now + self.configuration.requestTimeout + self.configuration.pingInterval)
    }

    /// - Parameter stream: its identifier; the last one that may be used retires the connection.
    mutating func started(stream: Int32, now: NIODeadline) {
        // The silence that a PING asks about begins with something to wait for.
        if self.openStreams == 0 { self.lastReceived = max(self.lastReceived, now) }
        self.openStreams += 1
        if stream > self.configuration.lastStreamIdentifier - 2 { self.retire(.streamIdentifiers, now: now) }
    }

    /// A stream is over, be it answered, refused or cancelled.
    mutating func ended(_ end: HTTP2StreamEnd, now: NIODeadline) -> StreamResult {
        self.openStreams = max(0, self.openStreams - 1)
        if end.isComplete, let status = end.status {
            self.timeoutsInARow = 0
            if self.borneLimit < .max { self.borneLimit += 1 }
            // A refused token proves nothing (Wallet Orders §4.5).
            if status != 403 { self.isProven = true }
            self.judge(status, now: now)
            return .answered(status: status)
        }
        if end.errorCode == .refusedStream {
            self.borneLimit = max(1, self.openStreams)
            return .again
        }
        return .failed(
            APNSError(.protocolViolation, "waiting for an answer: APNs ended the stream with \(end.errorCode)"))
    }

    private mutating func judge(_ status: Int, now: NIODeadline) {
        if status == 500 {
            self.serverErrors += 1
            self.firstServerError = self.firstServerError ?? now
        } else {
            self.serverErrors = 0
            self.firstServerError = nil
            if status < 500 { self.lastGoodAnswer = now }
        }
    }

    /// A request's deadline passed. After several in a row the connection is not to be trusted with more.
    mutating func timedOut(now: NIODeadline) {
        self.timeoutsInARow += 1
        if self.timeoutsInARow >= self.configuration.timeoutsToRetire { self.retire(.timeouts, now: now) }
    }

    /// Bytes came, whatever they were: the peer is alive.
    mutating func received(now: NIODeadline) {
        self.lastReceived = now
        self.pingSent = nil
    }

    /// The PING's answer came.
    ///
    /// - Returns: its round trip; nil when none was asked for.
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
                guard now - pingSent >= self.configuration.pingInterval else { return .nothing }
                self.retire(.silence, now: now)
                return .close(APNSError(.connectionLost, "waiting for a sign of life: PING was not answered"))
            }
            guard self.openStreams > 0, now - self.lastReceived >= self.configuration.pingInterval else {
                return .nothing
            }
            self.pingSent = now
            self.lastPing = now
            return .ping
        }
    }
}
