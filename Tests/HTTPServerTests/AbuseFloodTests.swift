import NIOCore
import TestKit
import TestTraits
import Testing

@testable import HTTPServer

/// Clients that are slow, greedy or gone, while a well-behaved client notices nothing.
@Suite(.server, .serialized, .timeLimit(.minutes(4))) struct AbuseFloodTests {
    typealias Fixture = ServerFixture

    /// The longest wait of a well-behaved client: generous for a busy machine, and far below the limits by which a slow
    /// client could delay it.
    static let patience = Duration.seconds(20)

    /// Fetches an order repeatedly while `abuse` runs.
    func besideAGoodClient(_ fixture: Fixture, _ abuse: @escaping @Sendable () async throws -> Void) async throws {
        try await fixture.put("good")
        let request = fixture.request(
            "GET", fixture.package("good"), token: Fixture.ownToken, ["If-None-Match: \"tag-1\""])
        let isOver = Flag()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                let good = try await RawConnection.open(port: fixture.port)
                var asked = 0
                repeat {
                    let started = ContinuousClock.now
                    let answer = try await good.exchange(request)
                    #expect(answer.status == 304)
                    #expect(ContinuousClock.now - started < Self.patience, "request \(asked) beside the abuse")
                    asked += 1
                    try await Task.sleep(for: .milliseconds(5))
                } while !isOver.isSet
                await good.close()
            }
            do {
                try await abuse()
                isOver.set()
            } catch {
                isOver.set()
                throw error
            }
            try await group.waitForAll()
        }
    }

    func packages(_ fixture: Fixture) -> Int {
        let line = fixture.metricsText.split(separator: "\n").first {
            $0.hasPrefix("waybill_responses_total{endpoint=\"package\",status=\"200\"}")
        }
        return line.flatMap { Int($0.split(separator: " ").last ?? "") } ?? 0
    }

    @Test func answersPauseForAClientThatDoesNotRead() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            let request = fixture.request("GET", fixture.package("1"), token: Fixture.ownToken)
            // The answers would be 3 GB if all were prepared.
            let flood = try await RawConnection.open(port: fixture.port, reads: false)
            try await self.besideAGoodClient(fixture) {
                flood.sendLater(String(repeating: request, count: 10_000))
                try await eventually("some answers") { self.packages(fixture) > 0 }
                try await Task.sleep(for: .milliseconds(500))
            }
            let made = self.packages(fixture)
            #expect(made < 100, "\(made) answers of 300 kB for nobody")
            // The requests are answered once the client reads again.
            try await flood.startReading()
            for _ in 0..<(made + 20) { #expect(try await flood.response().body.count == Fixture.package.count) }
            await flood.close()
        }
    }

    @Test func tenThousandPipelinedRequestsAreAnsweredInOrder() async throws {
        try await Fixture.with { fixture in
            let flood = try await RawConnection.open(port: fixture.port)
            try await self.besideAGoodClient(fixture) {
                let pair = fixture.request("POST", "/v1/log", body: "[]") + fixture.request("GET", "/nothing")
                flood.sendLater(String(repeating: pair, count: 5_000))
                for _ in 0..<5_000 {
                    try #require(try await flood.response().status == 200)
                    try #require(try await flood.response().status == 404)
                }
            }
            #expect(flood.isQuiet)
            await flood.close()
        }
    }

    @Test(arguments: [
        "GET /v1/log HTTP/1.1\r\nHost: a\r\nx: ", "POST /v1/log HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n",
        "POST /v1/log HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n",
    ])
    func aSlowlySentRequestTimesOutWith408(start: String) async throws {
        var options = Fixture.Options()
        options.idleLimit = .milliseconds(1500)
        try await Fixture.with(options) { fixture in
            try await self.besideAGoodClient(fixture) {
                let slow = try await RawConnection.open(port: fixture.port)
                try await slow.send(start)
                let started = ContinuousClock.now
                while !slow.hasEnded, ContinuousClock.now - started < .seconds(10) {
                    _ = try? await slow.send("x")
                    try await Task.sleep(for: .milliseconds(30))
                }
                #expect(slow.hasEnded)
                #expect(try await slow.response().status == 408)
                await slow.close()
            }
        }
    }

    @Test func aConnectionWithoutARequestIsClosedSilently() async throws {
        var options = Fixture.Options()
        options.idleLimit = .milliseconds(300)
        try await Fixture.with(options) { fixture in
            let silent = try await RawConnection.open(port: fixture.port)
            #expect(try await silent.isClosedByServer())
            await silent.close()
        }
    }

    @Test func aHalfClosedConnectionStillGetsItsAnswers() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            try await fixture.connected { connection in
                let request = fixture.request("GET", fixture.package("1"), token: Fixture.ownToken)
                try await connection.send(request + request)
                try await connection.closeOutput()
                #expect(try await connection.response().body == Fixture.package)
                #expect(try await connection.response().body == Fixture.package)
                #expect(try await connection.isClosedByServer())
            }
            try await fixture.connected { connection in
                try await connection.send("POST /v1/log HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n[")
                try await connection.closeOutput()
                #expect(try await connection.isClosedByServer(), "the rest can never come")
            }
        }
    }

    @Test func connectionsAboveTheLimitsAreClosedAndCounted() async throws {
        var options = Fixture.Options()
        options.edge = { edge in
            edge.limits = ConnectionLimits(total: 100, perAddress: 5)
            // No connection gives way.
            edge.idleGrace = .hours(1)
        }
        try await Fixture.with(options) { fixture in
            var open: [RawConnection] = []
            for _ in 0..<5 {
                let connection = try await RawConnection.open(port: fixture.port)
                #expect(try await connection.exchange(fixture.request("GET", "/nothing")).status == 404)
                open.append(connection)
            }
            #expect(fixture.metricsText.contains("waybill_connections 5.0\n"))
            for _ in 0..<20 {
                let refused = try await RawConnection.open(port: fixture.port)
                #expect(try await refused.isClosedByServer())
                await refused.close()
            }
            #expect(fixture.metricsText.contains("waybill_connections_refused_total{reason=\"address\"} 20\n"))
            #expect(try await open[0].exchange(fixture.request("GET", "/nothing")).status == 404, "the others go on")
            await open.removeLast().close()
            try await eventually("room again") { fixture.metricsText.contains("waybill_connections 4.0\n") }
            #expect(try await fixture.once("GET", "/nothing").status == 404)
            for connection in open { await connection.close() }
            try await eventually("all gone") { fixture.metricsText.contains("waybill_connections 0.0\n") }
        }
    }

    @Test func onlyTheTotalLimitAppliesToATrustedProxy() async throws {
        var options = Fixture.Options()
        options.edge = { edge in
            edge.limits = ConnectionLimits(total: 4, perAddress: 1)
            edge.idleGrace = .hours(1)
            edge.proxies = TrustedProxies("127.0.0.0/8") ?? .none
        }
        try await Fixture.with(options) { fixture in
            var open: [RawConnection] = []
            for _ in 0..<4 {
                let connection = try await RawConnection.open(port: fixture.port)
                #expect(try await connection.exchange(fixture.request("GET", "/nothing")).status == 404)
                open.append(connection)
            }
            let refused = try await RawConnection.open(port: fixture.port)
            #expect(try await refused.isClosedByServer())
            await refused.close()
            #expect(fixture.metricsText.contains("waybill_connections_refused_total{reason=\"total\"} 1\n"))
            for connection in open { await connection.close() }
        }
    }

    @Test func disconnectedClientsLeaveNoConnections() async throws {
        try await Fixture.with { fixture in
            try await self.besideAGoodClient(fixture) {
                for number in 0..<300 {
                    let connection = try await RawConnection.open(port: fixture.port)
                    let start = fixture.request(
                        "GET", fixture.package("\(number)"), token: try fixture.derived("\(number)"))
                    // Some clients disconnect in the middle of a request, some while their request is held.
                    try await connection.send(String(start.prefix(number % 2 == 0 ? 40 : 10_000)))
                    await connection.close()
                }
            }
            try await eventually("all gone") { fixture.metricsText.contains("waybill_connections 0.0\n") }
        }
    }
}
