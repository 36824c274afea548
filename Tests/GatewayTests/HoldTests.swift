import NIOCore
import Redis
import TestKit
import TestTraits
import Testing

@testable import Gateway

/// The first fetch after a payment. Serialized: each test has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct HoldTests {
    typealias Fixture = GatewayFixture

    @Test func aHeldFetchIsAnsweredSoonAfterTheWrite() async throws {
        // No machine is so busy that a fetch is given up meanwhile.
        try await Fixture.with(.init(holding: .init(time: .seconds(60)))) { fixture in
            // Several tries, so that other load on the machine does not decide the result.
            var shortest = Duration.seconds(60)
            for order in ["1", "2", "3"] {
                let token = try fixture.derived(order)
                try await fixture.connected { connection in
                    try await connection.send(fixture.request("GET", fixture.package(order), token: token))
                    try await Task.sleep(for: .milliseconds(300))
                    #expect(connection.isQuiet)
                    try await fixture.put(order, token: token)
                    let written = ContinuousClock.now
                    let answer = try await connection.response()
                    shortest = min(shortest, .now - written)
                    #expect(answer.status == 200)
                    #expect(answer.body == Fixture.package)
                }
            }
            // Far above the delay of a busy machine.
            #expect(shortest < .seconds(2), "\(shortest)")
        }
    }

    @Test func aHeldRequestThatTimesOutGets503WithRetryAfter() async throws {
        try await Fixture.with(.init(holding: .init(time: .milliseconds(300), step: .milliseconds(20)))) { fixture in
            for method in ["GET", "HEAD"] {
                let answer = try await fixture.once(method, fixture.package("1"), token: try fixture.derived("1"))
                #expect(answer.status == 503)
                #expect(answer["retry-after"] == "1")
            }
        }
    }

    @Test func aClientThatHangsUpFreesItsPlace() async throws {
        let holding = PackageEndpoint.Hold(
            limits: .init(requests: 1), time: .seconds(60), step: .milliseconds(20))
        try await Fixture.with(.init(holding: holding)) { fixture in
            let token = try fixture.derived("1")
            let request = fixture.request("GET", fixture.package("1"), token: token)
            for _ in 0..<3 {
                try await fixture.connected { first in
                    try await self.held(first, request, fixture)
                    #expect(
                        try await fixture.once("GET", fixture.package("1"), token: token).status == 503,
                        "there is one place")
                }
            }
            // All clients have disconnected; the place is free within a step or two.
            try await fixture.connected { next in
                try await self.held(next, request, fixture)
                try await fixture.put("1", token: token)
                #expect(try await next.response().status == 200)
            }
        }
    }

    @Test func requestsForOneMissingOrderLeavePlacesForOthers() async throws {
        let holding = PackageEndpoint.Hold(limits: .init(requests: 20, perOrder: 2), time: .seconds(60))
        try await Fixture.with(.init(holding: holding)) { fixture in
            let gone = fixture.request("GET", fixture.package("gone"), token: try fixture.derived("gone"))
            var open: [RawConnection] = []
            for _ in 0..<25 { open.append(try await RawConnection.open(port: fixture.port)) }
            for connection in open { try await connection.send(gone) }
            try await fixture.connected { connection in
                for _ in 0..<975 {
                    let answer = try await connection.exchange(gone)
                    #expect(answer.status == 503)
                    #expect(answer["retry-after"] == "1")
                }
            }
            #expect(fixture.metricsText.contains("waybill_fetches_held_total 2\n"))
            let token = try fixture.derived("paid")
            try await fixture.connected { connection in
                try await self.held(connection, fixture.request("GET", fixture.package("paid"), token: token), fixture)
                try await fixture.put("paid", token: token)
                #expect(try await connection.response().status == 200)
            }
            for connection in open { await connection.close() }
        }
    }

    @Test func aRemovedOrderIsRefusedAfterItsTraceExpires() async throws {
        try await Fixture.with { fixture in
            let token = try fixture.derived("1")
            try await fixture.put("1", token: token)
            try await fixture.put("1", version: 2, token: token, isRemoved: true)
            // Redis expires the trace of a removed order after a week.
            _ = try await fixture.redis.send(RedisCommand("DEL", .string("waybill:1:order:{\(Fixture.orderType)/1}")))
            for _ in 0..<100 {
                #expect(
                    try await fixture.once("GET", fixture.package("1"), token: token).status == 401,
                    "right, and no guess")
            }
            #expect(try await fixture.once("DELETE", fixture.registration("d", "1"), token: token).status == 401)
            #expect(fixture.metricsText.contains("waybill_fetches_held_total 0\n"))
            try await fixture.put("1", token: token)
            #expect(
                try await fixture.once("GET", fixture.package("1"), token: token).status == 200,
                "an order may come back")
        }
    }

    /// Repeats the request until it is held rather than refused for lack of a place.
    private func held(_ connection: RawConnection, _ request: String, _ fixture: Fixture) async throws {
        let deadline = ContinuousClock.now + .seconds(10)
        func count() -> Substring? {
            fixture.metricsText.split(separator: "\n").first { $0.hasPrefix("waybill_fetches_held_total ") }
        }
        let before = count()
        while true {
            try await connection.send(request)
            while connection.isQuiet, count() == before {
                try #require(ContinuousClock.now < deadline, "no answer and no place")
                try await Task.sleep(for: .milliseconds(2))
            }
            if count() != before { return }
            #expect(try await connection.response().status == 503)
            try #require(ContinuousClock.now < deadline, "the place is never free")
        }
    }
}
