import NIOCore
import NIOEmbedded
import NIOHTTP1
import Operations
import TestKit
import Testing

@testable import HTTPServer

@Suite struct ConnectionDeadlineTests {
    /// Seconds since the test began at which the deadline was hit.
    final class Hits {
        var seconds: [Int64] = []
        var then: (() -> Void)?
    }

    private static func made(_ loop: EmbeddedEventLoop) -> (ConnectionDeadline, Hits) {
        let hits = Hits()
        let deadline = ConnectionDeadline(on: loop) {
            hits.seconds.append(Int64(loop.now.uptimeNanoseconds / 1_000_000_000))
            hits.then?()
        }
        return (deadline, hits)
    }

    @Test func theLastMoveCounts() {
        let loop = EmbeddedEventLoop()
        let (deadline, hits) = Self.made(loop)
        for moment: Int64 in [60, 90, 5, 7] { deadline.move(to: .seconds(moment)) }
        loop.advanceTime(by: .seconds(6))
        #expect(hits.seconds.isEmpty)
        loop.advanceTime(by: .seconds(200))
        #expect(hits.seconds == [7])
        #expect(deadline.moment == nil)
    }

    @Test func itMayBeMovedWhenItIsHit() {
        let loop = EmbeddedEventLoop()
        let (deadline, hits) = Self.made(loop)
        hits.then = { deadline.move(to: loop.now + .seconds(30)) }
        deadline.move(to: .seconds(30))
        loop.advanceTime(by: .seconds(100))
        #expect(hits.seconds == [30, 60, 90])
        deadline.drop()
    }

    @Test func aDroppedOneIsNeitherHitNorKept() {
        let loop = EmbeddedEventLoop()
        weak var weakDeadline: ConnectionDeadline?
        weak var weakHits: Hits?
        do {
            let (deadline, hits) = Self.made(loop)
            (weakDeadline, weakHits) = (deadline, hits)
            deadline.move(to: .seconds(60))
            deadline.move(to: .seconds(1))
            deadline.drop()
            deadline.move(to: .seconds(2))
        }
        #expect(weakHits == nil)
        loop.advanceTime(by: ConnectionDeadline.span)
        #expect(weakDeadline == nil)
    }

    @Test(arguments: 0..<50) func itIsHitWheneverItsMomentComes(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let loop = EmbeddedEventLoop()
        let (deadline, hits) = Self.made(loop)
        var expected: [Int64] = []
        var now: Int64 = 0
        for _ in 0..<200 {
            let moment = now + .random(in: 1...40, using: &random)
            deadline.move(to: .seconds(moment))
            let step = Int64.random(in: 0...20, using: &random)
            loop.advanceTime(by: .seconds(step))
            now += step
            if moment <= now { expected.append(moment) }
        }
        #expect(hits.seconds == expected)
        deadline.drop()
    }
}

/// The time of a request on one connection of HTTP/1, on a loop whose clock the test moves.
@Suite struct RequestTimeTests {
    private final class Fine: Responder {
        let reading: ExtendedReading?

        init(arrivalLimit: TimeAmount?) {
            self.reading = arrivalLimit.map { ExtendedReading(bodyLimit: { _ in 10 }, bodies: 100, arrivalLimit: $0) }
        }

        func answer(_ request: Request, on eventLoop: any EventLoop) -> EventLoopFuture<Answer> {
            eventLoop.makeSucceededFuture(Answer(.ok))
        }

        func refusal(_ fault: RequestFault, of request: Request?, on eventLoop: any EventLoop) -> Answer {
            .failure(fault.status, fault.message)
        }
    }

    private static let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"

    private static func connection(_ loop: EmbeddedEventLoop, arrivalLimit: TimeAmount?) throws -> EmbeddedChannel {
        let channel = EmbeddedChannel(loop: loop)
        let metrics = TransportMetrics(factory: MetricsRegistry())
        try channel.pipeline.syncOperations.addHandler(
            HTTP1ConnectionHandler(
                endpoints: Fine(arrivalLimit: arrivalLimit),
                slot: ConnectionSlot(channel, client: nil, draining: Draining(), at: loop.now),
                peer: TrustedProxies.none.peer(nil), bodies: BodyAccount(.init(), metrics: metrics),
                pipelined: PipelinedRequests(loop), requestLimit: .seconds(75)))
        channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 1), promise: nil)
        return channel
    }

    /// Sends bytes; returns the first line of what came back.
    private static func answer(_ channel: EmbeddedChannel, to text: String = "") throws -> String? {
        if !text.isEmpty { try channel.writeInbound(ByteBuffer(string: text)) }
        var line: String?
        while let bytes = try channel.readOutbound(as: ByteBuffer.self) {
            line = line ?? String(buffer: bytes).split(separator: "\r\n").first.map(String.init)
        }
        return line
    }

    @Test(arguments: [(nil, 74), (10, 9)] as [(Int64?, Int64)])
    func aRequestAfterALongIdleTimeHasItsFullTime(_ arrival: Int64?, _ seconds: Int64) throws {
        let loop = EmbeddedEventLoop()
        let channel = try Self.connection(loop, arrivalLimit: arrival.map { .seconds($0) })
        for _ in 0..<2 {
            loop.advanceTime(by: .seconds(74))
            #expect(try Self.answer(channel, to: Self.head) == nil)
            loop.advanceTime(by: .seconds(seconds))
            #expect(try Self.answer(channel) == nil, "it may still arrive")
            #expect(try Self.answer(channel, to: "[]") == "HTTP/1.1 200 OK")
        }
        #expect(try Self.answer(channel, to: Self.head) == nil)
        // Each part of it begins no time of its own.
        loop.advanceTime(by: .seconds(seconds))
        #expect(try Self.answer(channel, to: "[") == nil)
        loop.advanceTime(by: .seconds(1))
        #expect(try Self.answer(channel) == "HTTP/1.1 408 Request Timeout")
        loop.advanceTime(by: HTTP1ConnectionHandler.lingering)
        #expect(!channel.isActive)
        _ = try? channel.finish()
    }
}

extension NIODeadline {
    fileprivate static func seconds(_ seconds: Int64) -> NIODeadline { .uptimeNanoseconds(0) + .seconds(seconds) }
}
