/// The server side of an HTTP/2 connection with random output: bytes in, bytes out, without a socket or a library of
/// frames.
///
/// It sends what RFC 9113 allows, in any order and form, and on request what RFC 9113 forbids. The same seed reproduces
/// its output byte for byte. It records the client's violations.
public struct RandomHTTP2Server: Sendable {
    /// The behaviour of the server. Output other than answers has its frequency, in thousandths.
    public struct Manner: Sendable {
        /// Output that breaks the protocol.
        public var broken = 0
        public var goAway = 5
        public var reset = 60
        public var settings = 60
        /// True if it answers no request.
        public var isSilent = false
        /// The initial limit of concurrent streams; nil announces none.
        public var limit: UInt32? = 100

        public init() {}
    }

    /// The state of a request on this side.
    struct Stream {
        /// True if the client has ended its side.
        var hasEnded = false
        /// The final status after it was sent; the end may still follow.
        var status: Int?
        /// True if the end of the answer was sent.
        var isAnswered = false
    }

    /// The violations by the client.
    public private(set) var violations: [String] = []
    /// The status of each stream whose answer was sent completely.
    public internal(set) var answered: [UInt32: Int] = [:]
    /// True if the server has broken the protocol; from then on nothing can be predicted.
    public internal(set) var isBroken = false

    let manner: Manner
    var random: SeededGenerator
    /// Streams that are neither reset, nor left out by a GOAWAY, nor ended by both sides.
    var open: [UInt32: Stream] = [:]
    var highest: UInt32 = 0
    /// The last stream of the last GOAWAY; nil if none was sent.
    var lastStream: UInt32?
    /// Frames that must be sent before anything else: acknowledgements.
    var due: [UInt8] = []
    var limit = UInt32.max
    /// One limit for each SETTINGS that the client has not acknowledged yet.
    var unacknowledged: [UInt32] = []
    private var acknowledgedLimit = UInt32.max
    private var incoming: [UInt8] = []
    private var hasPreface = false
    private var clientKnowsGoAway = false

    public init(seed: UInt64, manner: Manner = Manner()) {
        self.random = SeededGenerator(seed: seed)
        self.manner = manner
        self.due = self.settings(manner.limit.map { [(UInt16(3), $0)] } ?? [])
    }

    /// Notes that the client has read a GOAWAY: from this call on, a new stream is a violation.
    public mutating func goAwayWasRead() { self.clientKnowsGoAway = true }

    /// Processes bytes from the client.
    public mutating func receive(_ bytes: some Sequence<UInt8>) {
        self.incoming.append(contentsOf: bytes)
        if !self.hasPreface {
            guard self.incoming.count >= 24 else { return }
            if self.incoming[..<24] != Self.preface[...] { self.violations.append("no preface") }
            self.incoming.removeFirst(24)
            self.hasPreface = true
        }
        var start = 0
        while self.incoming.count - start >= 9 {
            let head = Array(self.incoming[start..<start + 9])
            let length = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
            guard self.incoming.count - start >= 9 + length else { break }
            let payload = Array(self.incoming[start + 9..<start + 9 + length])
            start += 9 + length
            let stream = head[5...8].reduce(UInt32(0)) { $0 << 8 | UInt32($1) } & 0x7FFF_FFFF
            self.took(type: head[3], flags: head[4], stream: stream, payload: payload)
        }
        self.incoming.removeFirst(start)
    }

    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    private mutating func took(type: UInt8, flags: UInt8, stream: UInt32, payload: [UInt8]) {
        if payload.count > 16_384 { self.violations.append("a frame of \(payload.count) bytes") }
        switch type {
        case 0, 1:
            if type == 1 { self.opened(stream) }
            if stream > self.highest { self.violations.append("DATA on stream \(stream), which is idle") }
            if flags & 1 != 0 { self.ended(stream) }
        case 3:
            if stream > self.highest { self.violations.append("RST_STREAM of stream \(stream), which is idle") }
            self.open[stream] = nil
        case 4 where flags & 1 != 0:
            if self.unacknowledged.isEmpty {
                self.violations.append("acknowledged SETTINGS that were not sent")
            } else {
                self.acknowledgedLimit = self.unacknowledged.removeFirst()
            }
        case 4: self.due += Self.frame(4, 1, 0, [])
        case 6 where flags & 1 == 0: self.due += Self.frame(6, 1, 0, payload)
        default: break
        }
    }

    private mutating func opened(_ stream: UInt32) {
        guard stream % 2 == 1, stream > self.highest else {
            return self.violations.append("HEADERS on stream \(stream) after \(self.highest)")
        }
        self.highest = stream
        if self.clientKnowsGoAway { self.violations.append("stream \(stream) after GOAWAY") }
        // The client may use any limit that is in flight, so the most generous one counts.
        let bound = max(self.acknowledgedLimit, self.unacknowledged.max() ?? 0)
        if self.open.count >= bound { self.violations.append("stream \(stream) above the limit of \(bound)") }
        // Streams above the last one of GOAWAY are not processed.
        if stream <= self.lastStream ?? .max { self.open[stream] = Stream() }
    }

    private mutating func ended(_ stream: UInt32) {
        guard self.open[stream] != nil else { return }
        self.open[stream]?.hasEnded = true
        self.forgetIfOver(stream)
    }

    mutating func forgetIfOver(_ stream: UInt32) {
        if let state = self.open[stream], state.hasEnded, state.isAnswered { self.open[stream] = nil }
    }
}
