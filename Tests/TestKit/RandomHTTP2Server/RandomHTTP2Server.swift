/// Plays the server of an HTTP/2 connection by chance: bytes in, bytes out, no socket and no library of frames.
///
/// It says mostly what RFC 9113 allows, in any order and form, and if told so what it forbids. A seed repeats
/// everything it says to the same bytes. It notes what the client does that it must not.
public struct RandomHTTP2Server: Sendable {
    /// How often it does what is no answer, in thousandths of what it says.
    public struct Manner: Sendable {
        /// Breaks the protocol.
        public var broken = 0
        public var goAway = 5
        public var reset = 60
        public var settings = 60
        /// Never ends a stream.
        public var isSilent = false
        /// The limit of streams it begins with; nil: none is named.
        public var limit: UInt32? = 100

        public init() {}
    }

    /// A request as it stands here.
    struct Stream {
        /// The client has said all it wants to.
        var hasEnded = false
        /// The final status, once it was sent; the end may be still to come.
        var status: Int?
        /// The answer's end was sent.
        var isAnswered = false
    }

    /// What the client did that it must not do.
    public private(set) var violations: [String] = []
    /// The status of each stream whose answer was sent to its end.
    public internal(set) var answered: [UInt32: Int] = [:]
    /// It has broken the protocol; from then on nothing can be foretold.
    public internal(set) var isBroken = false

    let manner: Manner
    var random: SeededGenerator
    /// Streams that are neither answered and ended, nor reset.
    var open: [UInt32: Stream] = [:]
    var highest: UInt32 = 0
    /// Of the last GOAWAY; nil: none was said.
    var lastStream: UInt32?
    /// What must be said before anything else: acknowledgements.
    var due: [UInt8] = []
    var limit = UInt32.max
    /// One for each SETTINGS that the client has not acknowledged yet.
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

    /// The client has read a GOAWAY: a new stream is a violation from now on.
    public mutating func goAwayWasRead() { self.clientKnowsGoAway = true }

    /// Takes what the client sent.
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
        // The client may go by any limit that is on its way; the most generous one counts.
        let bound = max(self.acknowledgedLimit, self.unacknowledged.max() ?? 0)
        if self.open.count >= bound { self.violations.append("stream \(stream) above the limit of \(bound)") }
        // What comes above the last stream of GOAWAY is not processed.
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
