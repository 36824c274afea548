import Foundation
import Model
import NIOCore
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Gateway
@testable import HTTPServer

/// The work that refused requests cause in Redis. Serialized: each test has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct RefusalCostTests {
    typealias Fixture = GatewayFixture

    private static let limits: @Sendable () -> GatewayLimits = {
        GatewayLimits(
            backoff: .init(free: 3, forgiveness: .minutes(1), longest: .minutes(10), clients: 64),
            lists: .init(free: 3, forgiveness: .minutes(1), longest: .minutes(10), clients: 64))
    }

    /// The work that Redis did on all masters together.
    private struct Cost {
        let calls: [String: Int]
        let sentBytes: Int
        /// The number of checks of the servers' histories that may have become due meanwhile.
        let looks: Int

        subscript(command: String) -> Int { self.calls[command, default: 0] }
    }

    /// Measures the work that Redis does while `body` runs.
    private func cost(_ fixture: Fixture, _ body: () async throws -> Void) async throws -> Cost {
        func sent() async throws -> Int {
            try await fixture.server.everywhere("INFO", "stats").reduce(0) { sum, text in
                sum + (text.firstMatch(of: /total_net_output_bytes:(\d+)/).flatMap { Int($0.output.1) } ?? 0)
            }
        }
        try await fixture.server.everywhere("CONFIG", "RESETSTAT")
        let before = try await sent()
        let start = ContinuousClock.now
        try await body()
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        let bytes = try await sent() - before
        var calls: [String: Int] = [:]
        for text in try await fixture.server.everywhere("INFO", "commandstats") {
            for match in text.matches(of: /cmdstat_(\w+):calls=(\d+)/) {
                calls[String(match.output.1), default: 0] += Int(match.output.2) ?? 0
            }
        }
        return Cost(calls: calls, sentBytes: bytes, looks: Int(seconds) + 1)
    }

    /// Stores an order whose package is large enough to show in the bytes sent.
    private func put(_ fixture: Fixture) async throws {
        try await fixture.put("1")
        let large = RedisArgument.bytes([UInt8](repeating: 1, count: 100_000))
        _ = try await fixture.redis.send(
            RedisCommand("HSET", .string("waybill:1:order:{\(try Fixture.key("1"))}"), "head", large))
    }

    @Test func anAuthorizedFetchCostsOneRedisCommand() async throws {
        try await Fixture.with(.init(limits: Self.limits())) { fixture in
            try await self.put(fixture)
            try await fixture.connected { connection in
                let fetch = fixture.request("GET", fixture.package("1"), token: Fixture.ownToken)
                let condition = fixture.request(
                    "GET", fixture.package("1"), token: Fixture.ownToken, ["If-None-Match: \"tag-1\""])
                #expect(try await connection.exchange(fetch).status == 200)
                func ask(_ request: String, _ status: Int, times: Int = 1) async throws {
                    for _ in 0..<times {
                        let answer = try await connection.exchange(request)
                        #expect(answer.status == status)
                    }
                }
                let whole = try await self.cost(fixture) { try await ask(fetch, 200, times: 20) }
                #expect(whole["hmget"] == 20, "\(whole.calls)")
                #expect(whole["get"] == 0, "\(whole.calls)")
                #expect(whole["eval"] == 0, "\(whole.calls)")
                let fresh = try await self.cost(fixture) { try await ask(condition, 304, times: 20) }
                #expect(fresh["hmget"] == 20, "\(fresh.calls)")
                #expect(fresh["get"] == 0, "\(fresh.calls)")
                #expect(fresh["eval"] == 0, "\(fresh.calls)")
            }
        }
    }

    @Test(arguments: [false, true]) func aGuesserIsRefusedForTwoSmallReads(isCluster: Bool) async throws {
        try await Fixture.with(.init(limits: Self.limits(), isCluster: isCluster)) { fixture in
            try await self.put(fixture)
            try await fixture.connected { connection in
                func guess(_ order: String) async throws -> Int {
                    try await connection.exchange(
                        fixture.request("GET", fixture.package(order), token: "not-the-token-of-it")
                    ).status
                }
                for _ in 0..<3 { #expect(try await guess("1") == 401) }
                let masters = isCluster ? 3 : 1
                for order in ["1", "unknown"] {
                    let cost = try await self.cost(fixture) {
                        for _ in 0..<30 {
                            let status = try await guess(order)
                            #expect(status == 429)
                        }
                    }
                    // Commands of scripts count too. Each check runs one script before and one after, on each master.
                    let scripts = cost["eval"]
                    #expect(scripts <= cost.looks * 2 * masters, "\(cost.calls), \(cost.looks)")
                    #expect(cost["hmget"] == 30)
                    #expect(cost["get"] == 30 - scripts / 2 / masters + scripts, "one master is asked: \(cost.calls)")
                    #expect(cost.sentBytes < 30_000, "no package is read")
                }
                let right = fixture.request("GET", fixture.package("1"), token: Fixture.ownToken)
                let cost = try await self.cost(fixture) {
                    let answer = try await connection.exchange(right)
                    #expect(answer.status == 200)
                }
                #expect(cost["hmget"] == 2, "its package was read behind its token")
                let condition = fixture.request(
                    "GET", fixture.package("1"), token: Fixture.ownToken, ["If-None-Match: \"tag-1\""])
                #expect(try await connection.exchange(condition).status == 304)
                let derived = fixture.request("GET", fixture.package("2"), token: try fixture.derived("2"))
                try await connection.send(derived)
                try await fixture.put("2", token: try fixture.derived("2"))
                #expect(try await connection.response().status == 200, "a right token waits for its order as ever")
            }
        }
    }

    @Test(arguments: [false, true]) func listsOfUnknownDevicesAreRefusedForTwoSmallReads(isCluster: Bool) async throws {
        try await Fixture.with(.init(limits: Self.limits(), isCluster: isCluster)) { fixture in
            try await fixture.put("1")
            try await Registrations(redis: fixture.redis).register(
                .init(device: .init("known"), order: try Fixture.key("1")),
                .init(pushToken: .init("aa"), registeredEpochMilliseconds: 1))
            let masters = isCluster ? 3 : 1
            try await fixture.connected { connection in
                func list(_ device: String) async throws -> Int {
                    try await connection.exchange(fixture.request("GET", fixture.list(device))).status
                }
                // The first request establishes that the view is complete.
                #expect(try await list("none") == 204)
                let first = try await self.cost(fixture) {
                    let status = try await list("nobody")
                    #expect(status == 204)
                }
                #expect(first["smembers"] == 1)
                #expect(first["hgetall"] == 1)
                #expect(first["time"] == masters)
                #expect(first["eval"] == 0 ? first["get"] == 1 : first["eval"] == 2 * masters, "\(first.calls)")
                #expect(try await list("none") == 204)
                let cost = try await self.cost(fixture) {
                    for number in 0..<30 {
                        let status = try await list("stranger-\(number)")
                        #expect(status == 429)
                    }
                }
                let scripts = cost["eval"]
                let looks = scripts / 2 / masters
                #expect(looks <= cost.looks, "\(cost.calls)")
                #expect(cost["scard"] == 30 - looks, "\(cost.calls)")
                #expect(cost["smembers"] == looks, "\(cost.calls)")
                #expect(cost["get"] == 30 - looks + scripts, "\(cost.calls)")
                #expect(cost["time"] == looks * masters, "\(cost.calls)")
                #expect(try await list("known") == 200, "what changed is told to everybody")
            }
        }
    }

    /// The second during which a check remains valid must not hide a loss.
    @Test func aFlushedRedisIsNoticedAtTheNextRefusal() async throws {
        try await Fixture.with { fixture in
            for _ in 0..<20 {
                #expect(try await fixture.once("GET", fixture.list("d")).status == 204)
                #expect(try await fixture.once("GET", fixture.package("1"), token: "not-the-token-of-it").status == 401)
                _ = try await fixture.redis.send(RedisCommand("FLUSHALL"))
                #expect(try await fixture.once("GET", fixture.list("d")).status == 503)
                #expect(try await fixture.once("GET", fixture.package("1"), token: "not-the-token-of-it").status == 503)
                try await fixture.redis.completeView()
                #expect(try await fixture.once("GET", fixture.list("d")).status == 204)
            }
        }
    }
}
