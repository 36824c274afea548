import NIOCore
import TestKit
import Testing

@testable import HTTP2

/// The session against a random server that writes pieces of any size. A failure names its seed; see `fuzzSeeds`.
@Suite struct HTTP2SessionFuzzTests {
    @Test(arguments: fuzzSeeds(60)) func eachRequestEndsOnceAndAsTheServerSaid(_ seed: UInt64) throws {
        var life = try SessionLife(seed: seed, brokenPerMille: 0)
        while life.isGoing { try life.step() }
        try life.drain()
        #expect(life.failure == nil, "seed \(seed): what is allowed ends no connection")
        life.check(seed)
        for (stream, status) in life.server.answered where life.tags[Int32(stream)] != nil {
            guard let end = life.ends[Int32(stream)], !life.cancelled.contains(Int32(stream)) else { continue }
            #expect(end.isComplete, "seed \(seed): stream \(stream) was answered")
            #expect(end.status == status, "seed \(seed): stream \(stream) was answered")
        }
    }

    @Test(arguments: fuzzSeeds(60)) func aMisbehavingServerNeverCausesATrap(_ seed: UInt64) throws {
        var life = try SessionLife(seed: seed, brokenPerMille: 10)
        while life.isGoing, life.failure == nil { try life.step() }
        life.check(seed)
    }
}

/// One connection's life, with random actions of its user too.
private struct SessionLife {
    let session: HTTP2ClientSession
    var server: RandomHTTP2Server
    /// The tags of the submitted requests, by stream.
    var tags: [Int32: Int] = [:]
    var ends: [Int32: HTTP2StreamEnd] = [:]
    var cancelled: Set<Int32> = []
    var failure: HTTP2Error?
    private var steps = 0
    private var random: SeededRandom
    private var block = HTTP2HeaderBlock()
    private var events: [HTTP2Event] = []
    private var surprises: [String] = []

    init(seed: UInt64, brokenPerMille: Int) throws {
        var manner = RandomHTTP2Server.Manner()
        manner.broken = brokenPerMille
        manner.goAway = [0, 2, 10][Int(seed % 3)]
        manner.limit = [nil, 0, 1, 3, 100][Int(seed % 5)]
        self.server = RandomHTTP2Server(seed: seed, manner: manner)
        self.random = SeededRandom(seed: ~seed)
        self.session = try HTTP2ClientSession(keptHeaders: ["apns-id", "retry-after"])
        _ = self.block.append(":method", "POST")
        _ = self.block.append(":scheme", "https")
        _ = self.block.append(":authority", "localhost")
        _ = self.block.append(":path", "/3/device/0123456789", isIndexed: false)
    }

    var isGoing: Bool { self.steps < 400 && !self.session.isFinished }

    mutating func step() throws {
        self.steps += 1
        for _ in 0..<Int.random(in: 0...4, using: &self.random) where self.session.openStreams < 50 {
            do throws(HTTP2Error) {
                let tag = self.tags.count
                let stream = try self.session.submit(self.block, body: Array("{}".utf8), tag: tag)
                self.tags[stream] = tag
            } catch {
                if error.code != .noNewStreams { self.surprises.append("\(error)") }
            }
        }
        if Int.random(in: 0..<30, using: &self.random) == 0 { try self.session.ping(UInt64(self.steps)) }
        if Int.random(in: 0..<20, using: &self.random) == 0,
            let stream = self.tags.keys.filter({ self.ends[$0] == nil }).sorted().randomElement(using: &self.random)
        {
            self.cancelled.insert(stream)
            try self.session.reset(stream, .cancel)
        }
        if Bool.random(using: &self.random) { try self.write() }
        var said: [UInt8] = []
        for _ in 0..<Int.random(in: 0...6, using: &self.random) { said += self.server.speak() }
        try self.deliver(said)
    }

    /// Delivers the bytes in flight.
    mutating func drain() throws {
        for _ in 0..<3 { try self.write() }
    }

    func check(_ seed: UInt64) {
        #expect(self.server.violations == [], "seed \(seed)")
        #expect(self.surprises == [], "seed \(seed)")
        #expect(self.session.openStreams + self.ends.count == self.tags.count, "seed \(seed): each ends once")
    }

    private mutating func deliver(_ said: [UInt8]) throws {
        var rest = said[...]
        while !rest.isEmpty, self.failure == nil {
            let piece = rest.prefix(Int.random(in: 1...200, using: &self.random))
            rest = rest.dropFirst(piece.count)
            do throws(HTTP2Error) {
                try self.session.receive(ByteBuffer(bytes: piece))
            } catch {
                if error.code != .connection { self.surprises.append("\(error)") }
                self.failure = error
            }
            self.takeEvents()
            if Bool.random(using: &self.random) { try self.write() }
        }
    }

    private mutating func write() throws {
        var buffer = ByteBuffer()
        try self.session.write(into: &buffer)
        self.server.receive(buffer.readableBytesView)
        self.takeEvents()
    }

    private mutating func takeEvents() {
        while self.session.hasEvents {
            self.session.takeEvents(into: &self.events)
            for event in self.events { self.take(event) }
        }
    }

    private mutating func take(_ event: HTTP2Event) {
        switch event {
        case .streamEnded(let end):
            if self.ends[end.stream] != nil { self.surprises.append("stream \(end.stream) ended twice") }
            if self.tags[end.stream] != end.tag { self.surprises.append("stream \(end.stream) has a wrong tag") }
            self.ends[end.stream] = end
            guard !self.server.isBroken else { return }
            let answer = self.server.answered[UInt32(end.stream)]
            if end.isComplete, answer != end.status {
                self.surprises.append("stream \(end.stream): \(end.status ?? 0), not \(answer ?? 0)")
            }
            // A request reported as unprocessed will be sent again, so it must not have been answered.
            if end.errorCode == .refusedStream, !end.isComplete, answer != nil {
                self.surprises.append("stream \(end.stream) was answered and is called refused")
            }
        case .goAway: self.server.goAwayWasRead()
        case .settings, .pingAcknowledged: break
        }
    }
}
