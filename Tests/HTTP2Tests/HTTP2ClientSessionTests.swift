import NIOCore
import TestKit
import Testing

@testable import HTTP2

@Suite struct HTTP2ClientSessionTests {
    @Test func theFirstBytesArePrefaceAndSettings() throws {
        let peer = try Peer()
        let bytes = try peer.written()
        #expect(bytes.starts(with: Frame.preface))
        let settings = try #require(Frame.read(bytes).first)
        #expect(settings == Frame(type: 4, flags: 0, stream: 0, payload: [0, 2, 0, 0, 0, 0]), "push is off")
        #expect(try peer.written().isEmpty, "nothing is written twice")
    }

    @Test func aRequestIsHeadersAndOneDataFrameThatEndsTheStream() throws {
        let peer = try Peer()
        _ = try peer.written()
        #expect(try peer.submit(tag: 7) == 1)
        #expect(try peer.submit(tag: 8) == 3)
        let frames = Frame.read(try peer.written())
        let headers = frames.filter { $0.type == 1 }
        let data = frames.filter { $0.type == 0 }
        #expect(headers.map(\.stream) == [1, 3])
        #expect(data.map(\.payload) == [Array("{}".utf8), Array("{}".utf8)])
        #expect(data.allSatisfy { $0.flags == 1 })
        // 0001 0100 is `:path` from the static table, never indexed (RFC 7541 §6.2.3, Appendix A).
        #expect(headers.allSatisfy { $0.payload.contains(0x14) })
        #expect(peer.session.openStreams == 2)
    }

    @Test func anAnswerIsTheSameHoweverItsBytesAreCut() throws {
        let answer = [
            Frame.settings(maxConcurrentStreams: 100),
            Frame.headers(1, [(":status", "410"), ("apns-id", "the-id"), ("other", "x")]),
            Frame.data(1, Array("{\"reason\":".utf8)), Frame.data(1, Array("\"Unregistered\"}".utf8), end: true),
            Frame.goAway(last: 1, code: 0, debug: Array("{}".utf8)),
        ].flatMap(\.bytes)
        for cut in 0...answer.count {
            let peer = try Peer()
            try peer.submit(tag: 7)
            _ = try peer.written()
            try peer.receive(Array(answer[..<cut]))
            try peer.receive(Array(answer[cut...]))
            let events = peer.events()
            try #require(events.count == 3, "cut at \(cut)")
            guard case .settings(100) = events[0], case .streamEnded(let end) = events[1],
                case .goAway(1, .noError, let debug) = events[2]
            else {
                Issue.record("cut at \(cut): \(events)")
                continue
            }
            #expect(end.tag == 7)
            #expect(end.stream == 1)
            #expect(end.status == 410)
            #expect(end.isComplete)
            #expect(end.errorCode == .noError)
            #expect(end.headers == [HTTP2Header(name: "apns-id", value: "the-id")])
            #expect(end.body == Array("{\"reason\":\"Unregistered\"}".utf8))
            #expect(debug == Array("{}".utf8))
        }
    }

    @Test func anAnswerThatEndsEarlyIsNeverReported() throws {
        let answer = [
            Frame.settings(), Frame.headers(1, [(":status", "200"), ("apns-id", "the-id")]),
            Frame.data(1, [1], end: true),
        ].flatMap(\.bytes)
        for length in 0..<answer.count {
            let peer = try Peer()
            try peer.submit(tag: 0)
            _ = try peer.written()
            try peer.receive(Array(answer[..<length]))
            #expect(peer.ends().isEmpty)
            #expect(peer.session.openStreams == 1)
        }
    }

    @Test func aLongBodyIsTruncatedAndItsWindowReplenished() throws {
        let peer = try Peer()
        try peer.submit(tag: 0)
        _ = try peer.written()
        try peer.receive(Frame.settings().bytes + Frame.headers(1, [(":status", "400")]).bytes)
        for _ in 0..<3 {
            try peer.receive(Frame.data(1, Array(repeating: 0x61, count: 16_000)).bytes)
        }
        let updates = Frame.read(try peer.written()).filter { $0.type == 8 }
        #expect(updates.contains { $0.stream == 0 })
        #expect(updates.contains { $0.stream == 1 })
        try peer.receive(Frame.data(1, [], end: true).bytes)
        let end = try #require(peer.ends().first)
        #expect(end.body == Array(repeating: 0x61, count: HTTP2ClientSession.keptBytes))
        #expect(end.isComplete)
    }

    @Test func onlyTheHeadersOfTheFinalResponseAreKept() throws {
        let peer = try Peer()
        try peer.submit(tag: 0)
        _ = try peer.written()
        try peer.receive(Frame.settings().bytes)
        try peer.receive(Frame.headers(1, [(":status", "103"), ("apns-id", "early")]).bytes)
        try peer.receive(Frame.headers(1, [(":status", "200"), ("apns-id", "final")]).bytes)
        try peer.receive(Frame.headers(1, [("apns-id", "trailer")], end: true).bytes)
        let end = try #require(peer.ends().first)
        #expect(end.status == 200)
        #expect(end.isComplete)
        #expect(end.headers == [HTTP2Header(name: "apns-id", value: "final")])
    }

    @Test func goAwayRefusesTheStreamsAboveItsLastAndKeepsTheOthers() throws {
        let peer = try Peer()
        for tag in 0..<3 { try peer.submit(tag: tag) }
        _ = try peer.written()
        let debug = Array("{\"reason\":\"Shutdown\"}".utf8)
        try peer.receive(Frame.settings().bytes + Frame.goAway(last: 3, code: 0, debug: debug).bytes)
        let events = peer.events()
        guard case .goAway(3, .noError, debug)? = events.dropFirst().first, events.count == 3,
            case .streamEnded(let refused) = events[2]
        else {
            Issue.record("\(events)")
            return
        }
        #expect(refused.tag == 2)
        #expect(refused.errorCode == .refusedStream)
        #expect(!refused.isComplete)
        #expect(peer.session.openStreams == 2)
        try peer.receive(Frame.headers(1, [(":status", "200")], end: true).bytes)
        try peer.receive(Frame.headers(3, [(":status", "200")], end: true).bytes)
        #expect(peer.ends().map(\.tag) == [0, 1])
        _ = try peer.written()
        #expect(peer.session.isFinished)
    }

    @Test func aRequestAfterGoAwayEndsRefused() throws {
        let peer = try Peer()
        try peer.submit(tag: 0)
        _ = try peer.written()
        try peer.receive(Frame.settings().bytes + Frame.goAway(last: 1, code: 0, debug: []).bytes)
        _ = peer.events()
        _ = try? peer.submit(tag: 1)  // nghttp2 may accept or refuse it immediately; it must not be lost.
        _ = try peer.written()
        let ends = peer.ends()
        #expect(ends.allSatisfy { $0.tag == 1 && $0.errorCode == .refusedStream })
        #expect(peer.session.openStreams == 1)
    }

    @Test func aStreamThatThePeerResetsEndsWithItsCode() throws {
        let peer = try Peer()
        for tag in 0..<2 { try peer.submit(tag: tag) }
        _ = try peer.written()
        try peer.receive(Frame.settings().bytes + Frame.reset(1, 7).bytes + Frame.reset(3, 0xB).bytes)
        let ends = peer.ends()
        #expect(ends.map(\.errorCode) == [.refusedStream, HTTP2ErrorCode(rawValue: 0xB)])
        #expect(ends[1].errorCode.description == "ENHANCE_YOUR_CALM")
    }

    @Test func lateFramesOfAResetStreamAreIgnored() throws {
        let peer = try Peer()
        let stream = try peer.submit(tag: 5)
        _ = try peer.written()
        try peer.receive(Frame.settings().bytes)
        try peer.session.reset(stream, .cancel)
        #expect(Frame.read(try peer.written()).contains(.reset(1, 8)))
        try peer.receive(Frame.headers(1, [(":status", "200")], end: true).bytes)
        #expect(peer.ends().map(\.tag) == [5])
        #expect(peer.session.openStreams == 0)
    }

    @Test func aRequestAboveThePeersLimitWaitsAndCanBeCancelled() throws {
        let peer = try Peer()
        _ = try peer.written()
        try peer.receive(Frame.settings(maxConcurrentStreams: 1).bytes)
        try peer.submit(tag: 0)
        let second = try peer.submit(tag: 1)
        #expect(Frame.read(try peer.written()).filter { $0.type == 1 }.map(\.stream) == [1])
        try peer.session.reset(second, .cancel)
        try peer.receive(Frame.headers(1, [(":status", "200")], end: true).bytes)
        #expect(Frame.read(try peer.written()).filter { $0.type == 1 }.isEmpty)
        #expect(Set(peer.ends().map(\.tag)) == [0, 1])
        #expect(peer.session.openStreams == 0)
    }

    @Test func theLimitIsReportedWithEachSettings() throws {
        let peer = try Peer()
        for limit in [UInt32(1), 500, 0] { try peer.receive(Frame.settings(maxConcurrentStreams: limit).bytes) }
        let limits = peer.events().compactMap { if case .settings(let limit) = $0 { limit } else { nil } }
        #expect(limits == [1, 500, 0])
        let quiet = try Peer()
        try quiet.receive(Frame.settings().bytes)
        guard case .settings(.max)? = quiet.events().first else {
            Issue.record("a peer that names no limit has none")
            return
        }
    }

    @Test func aPingIsAnsweredInBothDirections() throws {
        let peer = try Peer()
        _ = try peer.written()
        try peer.receive(Frame.settings().bytes + Frame.ping([1, 2, 3, 4, 5, 6, 7, 8], acknowledged: false).bytes)
        #expect(Frame.read(try peer.written()).contains(.ping([1, 2, 3, 4, 5, 6, 7, 8], acknowledged: true)))
        try peer.session.ping(0x0102)
        #expect(Frame.read(try peer.written()).contains(.ping([0, 0, 0, 0, 0, 0, 1, 2], acknowledged: false)))
        _ = peer.events()
        try peer.receive(Frame.ping([0, 0, 0, 0, 0, 0, 1, 2], acknowledged: true).bytes)
        guard case .pingAcknowledged(0x0102)? = peer.events().first else {
            Issue.record("no acknowledgement")
            return
        }
    }

    @Test func cancellationOfAnUnsentRequestSendsNoFrame() throws {
        let peer = try Peer()
        _ = try peer.written()
        let stream = try peer.submit(tag: 5)
        for _ in 0..<2 { try peer.session.reset(stream, .cancel) }
        #expect(Frame.read(try peer.written()).isEmpty, "RST_STREAM of an idle stream would end the connection")
        #expect(peer.ends().map(\.tag) == [5])
        try peer.session.reset(stream, .cancel)
        #expect(try peer.written().isEmpty, "it is over")
    }

    @Test func terminatingSaysGoAwayAndFinishes() throws {
        let peer = try Peer()
        try peer.receive(Frame.settings().bytes)
        _ = try peer.written()
        try peer.session.terminate()
        #expect(Frame.read(try peer.written()).contains { $0.type == 7 })
        #expect(peer.session.isFinished)
    }

    @Test func corruptedFramesNeverTrapAndEndNoStreamTwice() throws {
        var generator = SeededGenerator(seed: 42)
        let whole = [
            Frame.settings(maxConcurrentStreams: 10), Frame.headers(1, [(":status", "200"), ("apns-id", "x")]),
            Frame.data(1, Array("{}".utf8), end: true), Frame.reset(3, 7),
            Frame.goAway(last: 3, code: 0, debug: [1, 2]),
            Frame.ping([1, 2, 3, 4, 5, 6, 7, 8], acknowledged: true),
        ].flatMap(\.bytes)
        for _ in 0..<2_000 {
            let peer = try Peer()
            for tag in 0..<3 { try peer.submit(tag: tag) }
            _ = try peer.written()
            var bytes = whole
            for _ in 0..<Int.random(in: 1...6, using: &generator) {
                bytes[Int.random(in: bytes.indices, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
            }
            do { try peer.receive(bytes) } catch { #expect(error.code == .connection) }
            _ = try? peer.written()
            let tags = peer.ends().map(\.tag)
            #expect(tags.count == Set(tags).count)
            #expect(peer.session.openStreams + tags.count == 3)
        }
    }

    @Test func nghttp2ReportsItsVersion() {
        #expect(nghttp2Version().hasPrefix("1."))
    }
}

/// A session whose peer is controlled by the test.
private final class Peer {
    let session: HTTP2ClientSession
    private var block = HTTP2HeaderBlock()
    private let path: Int
    private var pending: [HTTP2Event] = []

    init() throws {
        self.session = try HTTP2ClientSession(keptHeaders: ["apns-id"])
        _ = self.block.append(":method", "POST")
        _ = self.block.append(":scheme", "https")
        _ = self.block.append(":authority", "localhost")
        self.path = self.block.append(":path", "", isIndexed: false)
    }

    @discardableResult
    func submit(tag: Int) throws -> Int32 {
        self.block.replace(self.path, "/3/device/", "0123456789")
        return try self.session.submit(self.block, body: Array("{}".utf8), tag: tag)
    }

    func receive(_ bytes: [UInt8]) throws(HTTP2Error) { try self.session.receive(ByteBuffer(bytes: bytes)) }

    func written() throws -> [UInt8] {
        var buffer = ByteBuffer()
        try self.session.write(into: &buffer)
        return Array(buffer.readableBytesView)
    }

    func events() -> [HTTP2Event] {
        self.session.takeEvents(into: &self.pending)
        return self.pending
    }

    func ends() -> [HTTP2StreamEnd] {
        self.events().compactMap { if case .streamEnded(let end) = $0 { end } else { nil } }
    }
}
