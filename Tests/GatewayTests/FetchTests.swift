import HTTPServer
import Model
import NIOCore
import Redis
import Store
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Gateway
@testable import Operations

/// Fetches of packages. Serialized: each test has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct FetchTests {
    typealias Fixture = GatewayFixture

    @Test func aFetchOfASampledTraceIsASpan() async throws {
        let spans = Mutex<[TraceSpan]>([])
        var options = Fixture.Options()
        options.onSpan = { span in spans.withLock { $0.append(span) } }
        try await Fixture.with(options) { fixture in
            try await fixture.put("1")
            let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
            let header = "traceparent: \(parent)"
            func fetch(_ headers: [String], token: String = Fixture.ownToken) async throws -> Int {
                try await fixture.once("GET", fixture.package("1"), token: token, headers).status
            }
            for headers in [[], ["traceparent: \(parent.dropLast())0"], ["traceparent: x"], [header, header]] {
                #expect(try await fetch(headers) == 200)
            }
            #expect(try await fetch([header], token: "the token of nobody") == 401)
            let list = try await fixture.once("GET", fixture.list("device"), [header])
            #expect(list.status == 204)
            #expect(spans.withLock { $0.isEmpty })
            #expect(try await fetch([header, "tracestate: a=1"]) == 200)
            #expect(try await fetch([header, "If-None-Match: \"tag-1\""]) == 304)
            let found = spans.withLock { $0 }
            #expect(found.map(\.name) == ["waybill.fetch", "waybill.fetch"])
            #expect(found.map { $0.attributes[0].value } == ["200", "304"])
            #expect(found.allSatisfy { $0.contexts.map(\.traceparent) == [parent] && $0.start <= $0.end })
            #expect(found.allSatisfy { !$0.isError })
            #expect(found.first?.contexts.first?.tracestate == "a=1")
        }
    }

    /// A request that is refused before its body has its path in its head.
    @Test func aRefusalBeforeTheBodyCountsForItsEndpoint() async throws {
        try await Fixture.with { fixture in
            for (path, endpoint) in [
                ("/apple/v1/log", "log"), (fixture.list("device") + "/1", "register"), ("/nothing", "none"),
            ] {
                let answer = try await fixture.once(
                    "POST", path, body: String(repeating: "x", count: RequestLimits.body + 1))
                #expect(answer.status == 413)
                let counter = #"waybill_responses_total{endpoint="\#(endpoint)",status="413"} 1"#
                #expect(fixture.metricsText.contains(counter + "\n"), "\(endpoint)")
            }
        }
    }

    /// Nobody is known to have a right token while the view is incomplete.
    @Test func aFailureIsNoSpanForAnybodyWithoutARightToken() async throws {
        let spans = Mutex<[TraceSpan]>([])
        var options = Fixture.Options()
        options.isComplete = false
        options.onSpan = { span in spans.withLock { $0.append(span) } }
        options.holding.time = .milliseconds(200)
        try await Fixture.with(options) { fixture in
            let header = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
            func fetch(_ token: String) async throws -> Int {
                try await fixture.once("GET", fixture.package("1"), token: token, [header]).status
            }
            #expect(try await fetch("the token of nobody") == 503)
            #expect(spans.withLock { $0.isEmpty })
            try await fixture.redis.completeView()
            #expect(try await fetch(try fixture.derived("1")) == 503, "it is on its way")
            #expect(spans.withLock { $0.map(\.isError) } == [true])
        }
    }

    @Test func aPackageComesOutByteForByteWithItsHeaders() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            try await fixture.connected { connection in
                // The second time, the assets are served from memory.
                for _ in 0..<2 {
                    let answer = try await connection.exchange(
                        fixture.request("GET", fixture.package("1"), token: Fixture.ownToken))
                    #expect(answer.status == 200)
                    #expect(answer.body == Fixture.package)
                    #expect(answer["content-length"] == "\(Fixture.package.count)")
                    #expect(answer["content-type"] == "application/vnd.apple.finance.order")
                    #expect(answer["last-modified"] == "Sun, 06 Nov 1994 08:49:37 GMT")
                    #expect(answer["etag"] == "\"tag-1\"")
                    #expect(answer["cache-control"] == "private, no-cache")
                    #expect(answer["vary"] == "Authorization")
                    #expect(answer["connection"] == nil)
                    #expect(answer["transfer-encoding"] == nil)
                }
                let head = try await connection.exchange(
                    fixture.request("HEAD", fixture.package("1"), token: Fixture.ownToken))
                #expect(head.status == 200)
                #expect(head["content-length"] == "\(Fixture.package.count)")
                let bare = try await connection.exchange(
                    fixture.request("GET", "/v1/orders/\(Fixture.orderType)/%31", token: Fixture.ownToken))
                #expect(bare.body == Fixture.package, "nothing of the HEAD's body came in between")
            }
        }
    }

    @Test func concurrentRequestsReadTheAssetsOnce() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            let request = fixture.request("GET", fixture.package("1"), token: Fixture.ownToken)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<40 {
                    group.addTask {
                        let body = try await fixture.connected { try await $0.exchange(request).body }
                        #expect(body == Fixture.package)
                    }
                }
                try await group.waitForAll()
            }
            let replies = try await fixture.redis.pipeline([RedisCommand("INFO", "stats")])
            let sent = replies.first?.text?.split(separator: "\r\n").first { $0.hasPrefix("total_net_output_bytes:") }
            let bytes = try #require(sent.flatMap { Int($0.split(separator: ":")[1]) })
            #expect(bytes < 2 * Fixture.package.count, "\(bytes) bytes read for a package of \(Fixture.package.count)")
        }
    }

    @Test func anUnknownOrderAndAWrongTokenLookTheSame() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            let wrong = try await fixture.once("GET", fixture.package("1"), token: "not-the-token-of-it")
            let unknown = try await fixture.once("GET", fixture.package("2"), token: "not-the-token-of-it")
            let bare = try await fixture.once("GET", fixture.package("1"))
            let conditional = try await fixture.once(
                "GET", fixture.package("1"), token: "not-the-token-of-it", ["If-None-Match: \"tag-1\""])
            for answer in [wrong, unknown, bare, conditional] {
                #expect(answer.status == 401)
                #expect(answer.body == wrong.body)
                #expect(!answer.body.isEmpty)
                #expect(answer.headers.map(\.name) == wrong.headers.map(\.name))
                #expect(answer["www-authenticate"] == "AppleOrder")
            }
            // The derived token does not open an order that has its own token.
            let derived = try fixture.derived("1")
            #expect(try await fixture.once("GET", fixture.package("1"), token: derived).status == 401)
            #expect(try await fixture.once("GET", "/v1/orders/order.com.other/1", token: derived).status == 404)
        }
    }

    @Test func aDeviceWithTheNewestVersionGets304WithoutPackageReads() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            // From here on, reading the package fails.
            _ = try await fixture.redis.send(
                RedisCommand("HDEL", .string("waybill:1:order:{\(Fixture.orderType)/1}"), "head", "assets", "tail"))
            for condition in ["If-None-Match: \"tag-1\"", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"] {
                let answer = try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken, [condition])
                #expect(answer.status == 304)
                #expect(answer.body.isEmpty)
                #expect(answer["etag"] == "\"tag-1\"")
                #expect(answer["last-modified"] == "Sun, 06 Nov 1994 08:49:37 GMT")
                #expect(answer["content-length"] == nil)
                #expect(answer["content-type"] == nil)
            }
            let full = try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken)
            #expect(full.status == 503, "damage is no 200")
            #expect(full["retry-after"] == "5", "damage is no 200")
        }
    }

    @Test func aDeviceWithAnOlderVersionGetsTheNewOne() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            try await fixture.put("1", version: 2)
            for condition in ["If-None-Match: \"tag-1\"", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"] {
                let answer = try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken, [condition])
                #expect(answer.status == 200)
                #expect(answer.body == Fixture.package)
                #expect(answer["last-modified"] == "Sun, 06 Nov 1994 08:49:38 GMT")
            }
        }
    }

    @Test func aFetchBeforeThePackageIsHeldUntilItIsWritten() async throws {
        try await Fixture.with { fixture in
            let token = try fixture.derived("1")
            try await fixture.connected { connection in
                try await connection.send(fixture.request("GET", fixture.package("1"), token: token))
                try await Task.sleep(for: .milliseconds(300))
                #expect(connection.isQuiet)
                try await fixture.put("1", token: token)
                let answer = try await connection.response()
                #expect(answer.status == 200)
                #expect(answer.body == Fixture.package)
            }
            #expect(fixture.metricsText.contains("waybill_fetches_held_total 1"))
        }
    }

    @Test func theHoldIsBoundedInTimeAndNumber() async throws {
        let holding = PackageEndpoint.Hold(
            limits: .init(requests: 2), time: .milliseconds(600), step: .milliseconds(20))
        try await Fixture.with(.init(holding: holding)) { fixture in
            func token(_ order: String) throws -> String { try fixture.derived(order) }
            for _ in 0..<2 {
                let started = ContinuousClock.now
                try await fixture.connected { first in
                    try await fixture.connected { second in
                        try await first.send(fixture.request("GET", fixture.package("1"), token: token("1")))
                        try await second.send(
                            fixture.request("GET", fixture.package("2"), token: token("2"), ["If-None-Match: *"]))
                        // The third request finds no room while the two are held.
                        var third = try await fixture.once("GET", fixture.package("3"), token: token("3"))
                        if ContinuousClock.now - started >= .milliseconds(600) {
                            third = try await fixture.once("GET", fixture.package("3"), token: token("3"))
                        }
                        for answer in [third, try await first.response(), try await second.response()] {
                            #expect(answer.status == 503)
                            #expect(answer["retry-after"] == "1")
                        }
                        let took = ContinuousClock.now - started
                        #expect(took >= .milliseconds(600))
                        #expect(took < .seconds(5))
                    }
                }
            }
            try await fixture.put("1", token: token("1"))
            #expect(try await fixture.once("GET", fixture.package("1"), token: token("1")).status == 200)
        }
    }

    @Test func aFetchOfARemovedOrderIsNotHeld() async throws {
        try await Fixture.with { fixture in
            let token = try fixture.derived("1")
            try await fixture.put("1", token: token)
            try await fixture.put("1", version: 2, token: token, isRemoved: true)
            let started = ContinuousClock.now
            for headers in [[], ["If-None-Match: \"tag-1\""]] {
                #expect(try await fixture.once("GET", fixture.package("1"), token: token, headers).status == 401)
            }
            #expect(ContinuousClock.now - started < .seconds(4), "and is not waited for")
            #expect(
                try await fixture.once(
                    "POST", fixture.registration("d", "1"), token: token, body: #"{"pushToken":"aa"}"#
                )
                .status
                    == 401)
        }
    }

    @Test func requestsThatNeedRedisGet503UntilItRestarts() async throws {
        try await Fixture.with(.init(redisDeadline: .seconds(2))) { fixture in
            try await fixture.put("1")
            await fixture.server.kill()
            try await fixture.connected { connection in
                let requests = [
                    fixture.request("GET", fixture.package("1"), token: Fixture.ownToken),
                    fixture.request("GET", fixture.list("device")),
                    fixture.request("DELETE", fixture.registration("device", "1"), token: Fixture.ownToken),
                ]
                for request in requests {
                    let answer = try await connection.exchange(request)
                    #expect(answer.status == 503)
                    #expect(answer["retry-after"] == "5")
                    #expect(answer["content-type"] == "application/json")
                    #expect(try JSON(parsing: answer.body).object?["error"]?.object?["message"]?.string != nil)
                }
                #expect(try await connection.exchange(fixture.request("POST", "/v1/log", body: "[]")).status == 200)
            }
            try await fixture.server.restart()
            let deadline = ContinuousClock.now + .seconds(20)
            while try await fixture.once("GET", fixture.list("device")).status != 204 {
                try #require(ContinuousClock.now < deadline)
                try? await fixture.redis.completeView()
            }
            while (try? await fixture.put("1")) == nil { try #require(ContinuousClock.now < deadline) }
            #expect(
                try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken).body == Fixture.package)
        }
    }

    @Test func anErrorReplyFromRedisGives503() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            try await fixture.server.everywhere("ACL", "SETUSER", "default", "-hmget")
            #expect(try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken).status == 503)
        }
    }

    @Test func aDamagedEntityTagInRedisGives503() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            _ = try await fixture.redis.send(
                RedisCommand("HSET", .string("waybill:1:order:{\(Fixture.orderType)/1}"), "etag", "a\r\nSet-Cookie: x"))
            let answer = try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken)
            #expect(answer.status == 503)
            #expect(answer["set-cookie"] == nil)
        }
    }
}
