import NIOCore
import TestKit
import TestTraits
import Testing

@testable import HTTPServer

/// Clients that behave as Wallet never would. Serialized: each test has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct ConnectionTests {
    typealias Fixture = ServerFixture

    @Test func pipelinedRequestsAreAnsweredInOrder() async throws {
        try await Fixture.with { fixture in
            let token = try fixture.derived("1")
            try await fixture.connected { connection in
                // The first request is held; the others could be answered immediately.
                try await connection.send(
                    fixture.request("GET", fixture.package("1"), token: token)
                        + fixture.request("POST", "/v1/log", body: "[]") + fixture.request("GET", "/nothing"))
                try await Task.sleep(for: .milliseconds(100))
                #expect(connection.isQuiet)
                try await fixture.put("1", token: token)
                #expect(try await connection.response().body == Fixture.package)
                #expect(try await connection.response().status == 200)
                #expect(try await connection.response().status == 404)
            }
        }
    }

    @Test func manyRequestsOnManyConnectionsGetOneAnswerEach() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<12 {
                    group.addTask {
                        try await fixture.connected { connection in
                            let requests = (0..<10).map { index in
                                index % 3 == number % 3
                                    ? fixture.request(
                                        "GET", fixture.package("1"), token: Fixture.ownToken, ["If-None-Match: *"])
                                    : fixture.request("GET", fixture.list("device-\(index)"))
                            }
                            try await connection.send(requests.joined())
                            for index in 0..<10 {
                                let status = try await connection.response().status
                                #expect(status == (index % 3 == number % 3 ? 304 : 204))
                            }
                            #expect(connection.isQuiet)
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    @Test func aBodyThatIsTooLargeIsRefusedAndTheConnectionClosed() async throws {
        try await Fixture.with { fixture in
            let limit = RequestLimits.body
            let exact = "[" + String(repeating: " ", count: limit - 2) + "]"
            #expect(try await fixture.once("POST", "/v1/log", body: exact).status == 200)
            let large = String(repeating: "x", count: 3 * limit)
            let requests = [
                fixture.request("POST", "/v1/log", ["Content-Length: \(limit + 1)"]),
                fixture.request("POST", "/v1/log", body: large),
                fixture.request("POST", "/v1/log", ["Transfer-Encoding: chunked"])
                    + "\(String(large.utf8.count, radix: 16))\r\n\(large)\r\n0\r\n\r\n",
                fixture.request("POST", "/v1/log", ["Content-Length: 9223372036854775807"]),
                fixture.request("POST", "/v1/log", ["Expect: 100-continue", "Content-Length: 100000"]),
            ]
            for request in requests {
                try await fixture.connected { connection in
                    try await connection.send(request + (request == requests[1] ? fixture.request("GET", "/x") : ""))
                    let answer = try await connection.response()
                    #expect(answer.status == 413)
                    #expect(answer["connection"] == "close")
                    #expect(try await connection.isClosedByServer(), "nothing more is answered")
                }
            }
            #expect(fixture.metricsText.contains("waybill_responses_total{endpoint=\"none\",status=\"413\"} 5"))
            #expect(try await fixture.isAlive())
        }
    }

    static let malformed: [(request: String, status: Int)] = [
        ("\u{0}\u{1}\u{2}\r\n\r\n", 400), ("GET\r\n\r\n", 400), ("GET / HTTP/9.9\r\n\r\n", 505),
        ("GET / HTTP/1.1\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nA B: c\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: a\r\nA : c\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nb: c\r\n d\r\n\r\n", 400), ("GET / HTTP/1.1\r\nHost: a\nb: c\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\rb: c\r\n\r\n", 400), ("GET /\u{0} HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400), ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
        (post + "Content-Length: -1\r\n\r\n", 400), (post + "Content-Length: x\r\n\r\n", 400),
        (post + "Content-Length: +2\r\n\r\n[]", 400), (post + "Content-Length: 2, 2\r\n\r\n[]", 400),
        (post + "Content-Length: 99999999999999999999\r\n\r\n", 413),
        (post + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n[]", 400),
        (post + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n", 400),
        (post + "Transfer-Encoding: chunked\r\n\r\nZZ\r\n", 400),
        (post + "Transfer-Encoding: chunked\r\n\r\n2\r\n[]x\r\n0\r\n\r\n", 400),
        (post + "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF1\r\n", 400),
        (post + "Transfer-Encoding: chunked\r\n\r\n2\n[]\r\n0\r\n\r\n", 400),
        (post + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501), (post + "Expect: tea\r\n\r\n", 417),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        ("GET / HTTP/1.1\r\nx: " + String(repeating: "y", count: 200_000) + "\r\n\r\n", 431),
        ("GET / HTTP/1.1\r\nHost: a\r\n" + String(repeating: "x:\r\n", count: 101) + "\r\n", 431),
        ("GET /" + String(repeating: "y", count: 200_000) + " HTTP/1.1\r\n\r\n", 414),
        ("GET /" + String(repeating: "y", count: 9_000) + " HTTP/1.1\r\nHost: a\r\n\r\n", 414),
    ]
    private static let post = "POST /v1/log HTTP/1.1\r\nHost: a\r\n"

    @Test func malformedHTTPIsRefusedAndItsConnectionClosed() async throws {
        try await Fixture.with { fixture in
            for (request, status) in Self.malformed {
                try await fixture.connected { connection in
                    try await connection.send(request)
                    let answer = try await connection.response()
                    #expect(answer.status == status, "\(request.prefix(100))")
                    #expect(answer["connection"] == "close", "\(request.prefix(100))")
                    #expect(answer.text.hasPrefix("{\"error\""))
                    #expect(answer["x-content-type-options"] == "nosniff")
                    #expect(try await connection.isClosedByServer())
                }
            }
            #expect(try await fixture.isAlive())
        }
    }

    @Test func aRequestMayComeInPiecesOfAnySize() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            let chunked =
                fixture.request("POST", "/v1/log", ["Transfer-Encoding: chunked"])
                + "1\r\n[\r\n1;x=y\r\n]\r\n0\r\nt: u\r\n\r\n"
            let get = fixture.request("GET", fixture.package("1"), token: Fixture.ownToken)
            let stream = Array(
                ("\r\n" + get + fixture.request("POST", "/v1/log", body: "[]") + "\r\n" + chunked + get).utf8)
            for size in [1, 2, 3, 7, 100] {
                try await fixture.connected { connection in
                    for start in stride(from: 0, to: stream.count, by: size) {
                        try await connection.send(Array(stream[start..<min(start + size, stream.count)]))
                    }
                    #expect(try await connection.response().body == Fixture.package)
                    #expect(try await connection.response().status == 200)
                    #expect(try await connection.response().status == 200)
                    #expect(try await connection.response().body == Fixture.package)
                }
            }
        }
    }

    @Test func junkAfterARequestDoesNotLoseItsAnswer() async throws {
        try await Fixture.with { fixture in
            let token = try fixture.derived("1")
            try await fixture.connected { connection in
                try await connection.send(
                    fixture.request("GET", fixture.package("1"), token: token) + "\u{1}junk\r\n\r\n")
                try await fixture.put("1", token: token)
                #expect(try await connection.response().body == Fixture.package)
                #expect(try await connection.response().status == 400)
                #expect(try await connection.isClosedByServer())
            }
        }
    }

    @Test func anAuthorizationHeaderOfAnyBytesGets401() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            for bytes: [UInt8] in [[0xFF, 0xFE], [0xC3], [0xF0, 0x9F, 0x91, 0xA9], [0x09, 0x20, 0x41]] {
                try await fixture.connected { connection in
                    let head = "GET \(fixture.package("1")) HTTP/1.1\r\nHost: a\r\nAuthorization: AppleOrder "
                    try await connection.send(
                        Array(head.utf8) + bytes + Array("\r\nIf-None-Match: ".utf8) + bytes + [13, 10, 13, 10])
                    #expect(try await connection.response().status == 401)
                }
            }
        }
    }

    @Test func anExpectContinueRequestGets100BeforeItsBody() async throws {
        try await Fixture.with { fixture in
            try await fixture.connected { connection in
                for _ in 0..<2 {
                    try await connection.send(
                        fixture.request("POST", "/v1/log", ["Expect: 100-Continue", "Content-Length: 5"]))
                    #expect(try await connection.response().status == 100)
                    try await connection.send("[\"a\"]")
                    #expect(try await connection.response().status == 200)
                }
            }
        }
    }

    @Test func aPipelinedExpectContinueRequestGets100InOrder() async throws {
        try await Fixture.with { fixture in
            let token = try fixture.derived("1")
            try await fixture.connected { connection in
                // The first request is held until more than the limit has arrived, so that reading pauses.
                let one = fixture.request("GET", "/nothing", ["x: \(String(repeating: "y", count: 1000))"])
                let count = 2 * HTTP1ConnectionHandler.readAheadLimit / one.utf8.count
                try await connection.send(
                    fixture.request("GET", fixture.package("1"), token: token) + String(repeating: one, count: count)
                        + fixture.request("POST", "/v1/log", ["Expect: 100-Continue", "Content-Length: 5"]))
                try await fixture.put("1", token: token)
                #expect(try await connection.response().status == 200)
                for _ in 0..<count { #expect(try await connection.response().status == 404) }
                #expect(try await connection.response().status == 100)
                try await connection.send("[\"a\"]")
                #expect(try await connection.response().status == 200)
            }
        }
    }

    @Test func anUpgradeOrCONNECTRequestIsAnsweredInHTTP1() async throws {
        try await Fixture.with { fixture in
            let upgrade = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"]
            try await fixture.connected { connection in
                let answer = try await connection.exchange(fixture.request("GET", fixture.list("device"), upgrade))
                #expect(answer.status == 204)
                #expect(try await connection.exchange(fixture.request("GET", "/nothing")).status == 404)
            }
            try await fixture.connected { connection in
                let answer = try await connection.exchange("CONNECT a.example:443 HTTP/1.1\r\nHost: a\r\n\r\n")
                #expect(answer.status == 404)
            }
        }
    }

    @Test func theConnectionHeaderOfTheClientIsObeyed() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            try await fixture.connected { connection in
                try await connection.send(
                    fixture.request("GET", fixture.package("1"), token: Fixture.ownToken, ["Connection: close"])
                        + fixture.request("GET", "/ignored"))
                let answer = try await connection.response()
                #expect(answer["connection"] == "close", "the whole of it")
                #expect(answer.body == Fixture.package, "the whole of it")
                #expect(try await connection.isClosedByServer())
            }
            try await fixture.connected { connection in
                let stays = try await connection.exchange("GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
                #expect(stays["connection"] == "keep-alive")
                let closes = try await connection.exchange("GET /x HTTP/1.0\r\n\r\n")
                #expect(closes.status == 404)
                #expect(try await connection.isClosedByServer())
            }
        }
    }

    @Test func aRequestSentByteByByteTimesOut() async throws {
        try await Fixture.with(.init(idleLimit: .milliseconds(600))) { fixture in
            try await fixture.connected { connection in
                #expect(try await connection.exchange(fixture.request("POST", "/v1/log", body: "[]")).status == 200)
                let started = ContinuousClock.now
                var isOpen = true
                while isOpen && ContinuousClock.now - started < .seconds(10) {
                    isOpen = (try? await connection.send("G")) != nil
                    if isOpen { isOpen = try await !connection.isClosedByServer(within: .milliseconds(50)) }
                }
                #expect(!isOpen)
            }
            #expect(try await fixture.isAlive())
        }
    }

    @Test func aGracefulStopAnswersHeldRequests() async throws {
        try await Fixture.with { fixture in
            let token = try fixture.derived("1")
            try await fixture.connected { held in
                try await fixture.connected { idle in
                    #expect(try await idle.exchange(fixture.request("POST", "/v1/log", body: "[]")).status == 200)
                    try await held.send(fixture.request("GET", fixture.package("1"), token: token))
                    try await Task.sleep(for: .milliseconds(100))
                    #expect(fixture.reasons.isEmpty)
                    fixture.stop()
                    #expect(try await idle.isClosedByServer())
                    #expect(fixture.reasons == ["\(HTTPListener.stopping): connections end with their next answer"])
                    // The listening socket closes on its own event loop, perhaps a moment later.
                    let deadline = ContinuousClock.now + .seconds(10)
                    while let stranger = try? await RawConnection.open(port: fixture.port) {
                        await stranger.close()
                        try #require(ContinuousClock.now < deadline, "it goes on listening")
                    }
                    try await fixture.put("1", token: token)
                    let answer = try await held.response()
                    #expect(answer.status == 200)
                    #expect(answer.body == Fixture.package)
                    #expect(answer["connection"] == "close")
                    #expect(try await held.isClosedByServer())
                }
            }
        }
    }

    @Test func cancellationStopsTheServerDespiteOpenRequests() async throws {
        let (clients, continuation) = AsyncStream.makeStream(of: RawConnection.self)
        try await Fixture.with(.init(isCancelled: true)) { fixture in
            let connection = try await RawConnection.open(port: fixture.port)
            continuation.yield(connection)
            // The rest of this request never arrives.
            try await connection.send("POST /v1/log HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n[")
            #expect(try await fixture.isAlive())
            fixture.stop()
        }
        await clients.first { _ in true }?.close()
    }
}
