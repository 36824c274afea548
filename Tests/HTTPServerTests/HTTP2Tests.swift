import NIOHPACK
import TestKit
import TestTraits
import Testing

@testable import HTTPServer

/// HTTP/2 requests, valid and invalid.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct HTTP2Tests {
    typealias Fixture = ServerFixture
    typealias Wire = HTTP2Wire

    @Test func aHeldRequestDelaysNoOtherStreamOfItsConnection() async throws {
        try await Fixture.with(try TLSSupport.options()) { fixture in
            try await fixture.put("1")
            let token = try fixture.derived("2")
            try await fixture.http2 { wire in
                var bytes = try wire.request(1, Wire.fields("GET", fixture.package("2"), token: token))
                for stream in stride(from: UInt32(3), to: 200, by: 2) {
                    bytes += try wire.request(
                        stream,
                        Wire.fields("GET", fixture.package("1"), token: Fixture.ownToken, [("if-none-match", "*")]))
                }
                try await wire.connection.send(bytes)
                for stream in stride(from: UInt32(3), to: 200, by: 2) where stream % 20 == 19 || stream == 199 {
                    #expect(try await wire.response(stream).status == 304)
                }
                try await fixture.put("2", token: token)
                #expect(try await wire.response(1).body == Fixture.package)
            }
        }
    }

    @Test func bodiesAreBoundedPerRequestAndPerConnection() async throws {
        try await Fixture.with(try TLSSupport.options()) { fixture in
            let limit = RequestLimits.body
            let log = Wire.fields("POST", "/v1/log")
            func open(_ wire: HTTP2Wire, _ stream: UInt32, _ fields: [(String, String)]) async throws {
                let block = try wire.block(fields)
                try await wire.connection.send(Wire.bytes(Wire.headers, flags: Wire.endHeaders, stream: stream, block))
            }
            try await fixture.http2 { wire in
                try await open(wire, 1, log)
                try await wire.send(body: limit, of: 32, on: 1, isComplete: true)
                #expect(try await wire.response(1).status == 400, "taken, though no log")
                try await open(wire, 3, log + [("content-length", String(limit + 1))])
                #expect(try await wire.response(3).status == 413)
                #expect(try await wire.frame(Wire.reset).errorCode == 0, "the rest is not wanted")
            }
            try await fixture.http2 { wire in
                try await open(wire, 1, log)
                try await wire.send(body: limit, of: 32, on: 1, isComplete: false)
                try await wire.connection.send(Wire.bytes(Wire.data, stream: 1, [32]))
                #expect(try await wire.response(1).status == 413)
                #expect(
                    try await wire.exchange(3, Wire.fields("GET", "/nothing")).status == 404, "the connection goes on")
            }
            try await fixture.http2 { wire in
                // Unfinished bodies of 60 kB, as many as the connection may hold.
                for number in 0..<8 {
                    try await open(wire, UInt32(2 * number + 1), log)
                    try await wire.send(body: 60_000, of: 32, on: UInt32(2 * number + 1), isComplete: false)
                }
                try await open(wire, 17, log)
                for _ in 0..<3 {
                    try await wire.connection.send(
                        Wire.bytes(Wire.data, stream: 17, [UInt8](repeating: 32, count: 16_000)))
                }
                #expect(try await wire.frame(Wire.reset).errorCode == 0xB, "ENHANCE_YOUR_CALM")
            }
            #expect(try await self.isAlive(fixture))
        }
    }

    static let malformed: [[(String, String)]] = [
        [(":method", "GET"), (":scheme", "https")], [(":scheme", "https"), (":path", "/")],
        [(":method", "GET"), (":path", "/")],
        [(":method", "GET"), (":scheme", "https"), (":path", "")], Wire.fields("GET", "/") + [(":path", "/x")],
        Wire.fields("GET", "/") + [("x", "y"), (":authority", "z")], Wire.fields("GET", "/") + [(":status", "200")],
        Wire.fields("GET", "/", [("connection", "close")]), Wire.fields("GET", "/", [("transfer-encoding", "chunked")]),
        Wire.fields("GET", "/", [("upgrade", "h2c")]), Wire.fields("GET", "/", [("keep-alive", "1")]),
        Wire.fields("GET", "/", [("proxy-connection", "x")]), Wire.fields("GET", "/", [("te", "gzip")]),
        Wire.fields("GET", "/", [("X-Upper", "y")]), Wire.fields("GET", "/", [("x", "a\r\nb: c")]),
        Wire.fields("GET", "/", [("x", "a\u{0}b")]), Wire.fields("GET", "/", [("a b", "c")]),
        Wire.fields("POST", "/v1/log", [("content-length", "5")]),
        Wire.fields("POST", "/v1/log", [("content-length", "x")]),
    ]

    @Test func aMalformedHTTP2RequestResetsOnlyItsStream() async throws {
        try await Fixture.with(try TLSSupport.options()) { fixture in
            try await fixture.http2 { wire in
                var stream: UInt32 = 1
                for fields in Self.malformed {
                    try await wire.connection.send(try wire.request(stream, fields))
                    guard let frame = try? await wire.frame(Wire.reset) else {
                        Issue.record("no reset: \(fields)")
                        return
                    }
                    #expect(frame.stream == stream, "\(fields)")
                    #expect(frame.errorCode == 1, "\(fields)")
                    stream += 2
                }
                #expect(try await wire.exchange(stream, Wire.fields("GET", "/nothing")).status == 404)
            }
        }
    }

    @Test func refusedHTTP2RequestsGetAnErrorStatus() async throws {
        try await Fixture.with(try TLSSupport.options()) { fixture in
            let requests: [([(String, String)], Int)] = [
                (Wire.fields("GET", "*"), 404),
                (Wire.fields("GET", "/" + String(repeating: "x", count: 9000)), 414),
                (Wire.fields("GET", "/", (0..<110).map { ("x\($0)", "y") }), 431),
                (Wire.fields("GET", "/", [("authorization", "a"), ("authorization", "b")]), 400),
                (Wire.fields("GET", "/", [("expect", "tea")]), 417),
                ([(":method", "CONNECT"), (":authority", "a:443")], 400),
                (Wire.fields("GET", fixture.package("%00")), 400), (Wire.fields("GET", "/v1/../v1/log"), 404),
            ]
            try await fixture.http2 { wire in
                var stream: UInt32 = 1
                for (fields, status) in requests {
                    let answer = try await wire.exchange(stream, fields)
                    #expect(answer.status == status, "\(fields)")
                    stream += 2
                }
            }
        }
    }

    /// Floods and broken frames, each on its own connection, and the GOAWAY codes that may answer them.
    @Test func aFloodOrBrokenFrameClosesOnlyItsConnection() async throws {
        try await Fixture.with(try TLSSupport.options()) { fixture in
            let log = Wire.fields("POST", "/v1/log")
            let floods: [(what: String, codes: Set<UInt32>, make: (HTTP2Wire) throws -> [UInt8])] = [
                (
                    "pings", [0xB],
                    { _ in Array((0..<500).map { _ in Wire.bytes(Wire.ping, [UInt8](repeating: 0, count: 8)) }.joined())
                    }
                ),
                ("settings", [0xB], { _ in Array((0..<500).map { _ in Wire.bytes(Wire.settings) }.joined()) }),
                (
                    "resets", [0xB],
                    { wire in
                        try (0..<500).flatMap { number -> [UInt8] in
                            let stream = UInt32(2 * number + 1)
                            return try wire.request(stream, Wire.fields("GET", "/v1/log"))
                                + Wire.bytes(Wire.reset, stream: stream, [0, 0, 0, 8])
                        }
                    }
                ),
                (
                    "empty data", [0xB],
                    { wire in
                        Wire.bytes(Wire.headers, flags: Wire.endHeaders, stream: 1, try wire.block(log))
                            + (0..<500).flatMap { _ in Wire.bytes(Wire.data, stream: 1) }
                    }
                ),
                (
                    "continuations", [1, 0xB],
                    { wire in
                        Wire.bytes(Wire.headers, flags: Wire.endStream, stream: 1, try wire.block(log))
                            + (0..<500).flatMap { _ in
                                Wire.bytes(Wire.continuation, stream: 1, [0x40, 1, 0x78, 1, 0x79])
                            }
                    }
                ),
                (
                    "a large header list", [1, 9, 0xB],
                    { wire in
                        try wire.request(
                            1, Wire.fields("GET", "/", (0..<60).map { _ in ("x", String(repeating: "y", count: 400)) }))
                    }
                ),
                (
                    "malformed requests", [1, 0xB],
                    { wire in
                        try (0..<300).flatMap {
                            try wire.request(UInt32(2 * $0 + 1), Wire.fields("GET", "/", [("connection", "x")]))
                        }
                    }
                ),
                (
                    "a broken header block", [9],
                    { _ in Wire.bytes(Wire.headers, flags: 5, stream: 1, [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]) }
                ),
                (
                    "a field without a name", [1, 9],
                    { wire in try wire.request(1, Wire.fields("GET", "/", [("", "c")])) }
                ),
                ("a huge frame", [6], { _ in [0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 1] }),
                ("an even stream", [1], { wire in try wire.request(2, Wire.fields("GET", "/")) }),
                ("a window that overflows", [3], { _ in Wire.bytes(Wire.windowUpdate, [0x7F, 0xFF, 0xFF, 0xFF]) }),
                ("data for nobody", [1], { _ in Wire.bytes(Wire.data, stream: 1, [1]) }),
            ]
            for (what, codes, make) in floods {
                try await fixture.http2 { wire in
                    // The server may close the connection while the client is still sending.
                    try? await wire.connection.send(try make(wire))
                    let code = try await wire.frame(Wire.goAway).errorCode
                    #expect(codes.contains(code), "\(what): \(code)")
                    #expect(try await self.ends(wire), "\(what)")
                }
            }
            #expect(try await self.isAlive(fixture))
        }
    }

    @Test func onlyTheStreamOfAnIncompleteRequestTimesOut() async throws {
        try await Fixture.with(try TLSSupport.options(requestLimit: .milliseconds(1500))) { fixture in
            try await fixture.http2 { wire in
                try await wire.connection.send(
                    Wire.bytes(
                        Wire.headers, flags: Wire.endHeaders, stream: 1, try wire.block(Wire.fields("POST", "/v1/log")))
                )
                #expect(try await wire.response(1).status == 408)
                #expect(try await wire.exchange(3, Wire.fields("GET", "/nothing")).status == 404)
            }
        }
    }

    @Test func anIdleHTTP2ConnectionGetsGoAwayAndIsClosed() async throws {
        try await Fixture.with(try TLSSupport.options(requestLimit: .milliseconds(1500))) { fixture in
            try await fixture.http2 { wire in
                #expect(try await wire.exchange(1, Wire.fields("GET", "/nothing")).status == 404)
                let frame = try await wire.frame(Wire.goAway)
                #expect(frame.errorCode == 0)
                #expect(try await self.ends(wire), "though its ping is not answered")
            }
        }
    }

    @Test func aGracefulStopAnswersHTTP2RequestsInFlight() async throws {
        try await Fixture.with(try TLSSupport.options()) { fixture in
            let token = try fixture.derived("1")
            try await fixture.http2 { wire in
                try await wire.connection.send(
                    try wire.request(1, Wire.fields("GET", fixture.package("1"), token: token)))
                try await Task.sleep(for: .milliseconds(200))
                fixture.stop()
                #expect(try await wire.frame(Wire.goAway).errorCode == 0)
                try await fixture.put("1", token: token)
                let answer = try await wire.response(1)
                #expect(answer.status == 200)
                #expect(answer.body == Fixture.package)
                #expect(try await self.ends(wire))
            }
        }
    }

    @Test func preparedResponsesAreLimitedWhenAClientDoesNotRead() async throws {
        try await Fixture.with(try TLSSupport.options()) { fixture in
            try await fixture.put("1")
            try await fixture.http2(streamWindow: 65_535) { wire in
                func ask(_ numbers: Range<Int>) async throws {
                    for number in numbers {
                        let fields = Wire.fields("GET", fixture.package("1"), token: Fixture.ownToken)
                        try await wire.connection.send(try wire.request(UInt32(2 * number + 1), fields))
                    }
                }
                // Ten packages of 300 kB each, of which the client accepts the first 64 kB.
                try await ask(0..<10)
                let deadline = ContinuousClock.now + .seconds(10)
                while self.packages(fixture) < 4, deadline > .now { try await Task.sleep(for: .milliseconds(5)) }
                try await ask(10..<100)
                try await Task.sleep(for: .milliseconds(500))
                #expect((4...20).contains(self.packages(fixture)), "\(self.packages(fixture))")
            }
            #expect(try await self.isAlive(fixture))
        }
    }

    @Test func requestsSentAtOnceAreAnsweredUpToTheUnwrittenLimit() async throws {
        try await Fixture.with(try TLSSupport.options()) { fixture in
            try await fixture.put("1")
            try await fixture.http2(streamWindow: 0) { wire in
                let fields = Wire.fields("GET", fixture.package("1"), token: Fixture.ownToken)
                let requests = try (0..<100).flatMap { try wire.request(UInt32(2 * $0 + 1), fields) }
                try await wire.connection.send(requests)
                let most = HTTP2Limits().unwritten / HTTP2Limits().estimate
                let deadline = ContinuousClock.now + .seconds(10)
                while self.packages(fixture) < most, deadline > .now { try await Task.sleep(for: .milliseconds(5)) }
                try await Task.sleep(for: .milliseconds(300))
                #expect(self.packages(fixture) == most)
            }
            #expect(try await self.isAlive(fixture))
        }
    }

    @Test func queuedRequestBodiesCountUntilTheirStreamIsReset() async throws {
        try await Fixture.with(try TLSSupport.options()) { fixture in
            try await fixture.put("1")
            try await fixture.http2(streamWindow: 0) { wire in
                for number in 0..<40 {
                    let fields = Wire.fields("GET", fixture.package("1"), token: Fixture.ownToken)
                    try await wire.connection.send(try wire.request(UInt32(2 * number + 1), fields))
                }
                let deadline = ContinuousClock.now + .seconds(10)
                while self.packages(fixture) < 10, deadline > .now { try await Task.sleep(for: .milliseconds(5)) }
                var stream: UInt32 = 101
                func post() async throws {
                    let head = try wire.block(Wire.fields("POST", "/v1/log"))
                    try await wire.connection.send(
                        Wire.bytes(Wire.headers, flags: Wire.endHeaders, stream: stream, head))
                    try await wire.send(body: 60_000, of: 0x20, on: stream, isComplete: true)
                    stream += 2
                }
                // Up to 512 KiB of bodies may be queued.
                for _ in 0..<9 { try await post() }
                let refused = try await wire.frame(Wire.reset)
                #expect(refused.stream == stream - 2)
                #expect(refused.errorCode == 0xB)
                for number in 101..<(stream - 2) where number % 2 == 1 {
                    try await wire.connection.send(Wire.bytes(Wire.reset, stream: number, [0, 0, 0, 8]))
                }
                for _ in 0..<8 { try await post() }
                try await wire.connection.send(Wire.bytes(Wire.ping, [1, 2, 3, 4, 5, 6, 7, 8]))
                while true {
                    let frame = try await wire.frame()
                    #expect(frame.type != Wire.reset, "what was reset does not count any more")
                    if frame.type == Wire.ping { break }
                }
                try await post()
                #expect(try await wire.frame(Wire.reset).stream == stream - 2)
            }
        }
    }

    func packages(_ fixture: Fixture) -> Int {
        let line = fixture.metricsText.split(separator: "\n").first {
            $0.hasPrefix("waybill_responses_total{endpoint=\"package\",status=\"200\"}")
        }
        return line.flatMap { Int($0.split(separator: " ").last ?? "") } ?? 0
    }

    func isAlive(_ fixture: Fixture) async throws -> Bool {
        var status = 0
        try await fixture.http2 { status = try await $0.exchange(1, Wire.fields("GET", "/nothing")).status }
        return status == 404
    }

    func ends(_ wire: HTTP2Wire) async throws -> Bool {
        let deadline = ContinuousClock.now + .seconds(15)
        while !wire.connection.hasEnded, deadline > .now { try await Task.sleep(for: .milliseconds(5)) }
        return wire.connection.hasEnded
    }
}
