import Model
import NIOCore
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Gateway
@testable import HTTPServer

/// The gateway's answers about data that Redis lacks while the view may be incomplete.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct IncompleteViewTests {
    typealias Fixture = GatewayFixture

    @Test func requestsForMissingDataGet503DuringARestore() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            #expect(try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken).status == 200)
            let view = MaterializedView(redis: fixture.redis)
            _ = try await view.begin("test", seen: try await view.look())
            let derived = try fixture.derived("2")
            let requests = [
                ("GET", fixture.package("2"), "not-the-token-of-it"), ("GET", fixture.package("2"), derived),
                ("HEAD", fixture.package("2"), derived), ("GET", fixture.package("1"), "not-the-token-of-it"),
                ("POST", fixture.registration("d", "2"), derived), ("DELETE", fixture.registration("d", "2"), derived),
                ("GET", fixture.list("d"), "not-the-token-of-it"),
            ]
            for (method, path, token) in requests {
                let body = method == "POST" ? #"{"pushToken":"aa"}"# : nil
                let answer = try await fixture.once(method, path, token: token, body: body)
                #expect(answer.status == 503, "\(method) \(path): \(answer.status)")
                #expect(answer["retry-after"] == "10", "\(method) \(path): \(answer.status)")
                #expect(method == "HEAD" || answer.text.contains("restored"))
            }
            // An order that Redis has is served as usual, since Redis is the same server as before.
            #expect(try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken).status == 200)
            let registered = try await fixture.once(
                "POST", fixture.registration("d", "1"), token: Fixture.ownToken, body: #"{"pushToken":"aa"}"#)
            #expect(registered.status == 201)
            #expect(try await fixture.once("GET", fixture.list("d")).status == 200)
            // A request without a token is refused before anything else.
            #expect(try await fixture.once("GET", fixture.package("2")).status == 401)

            try await fixture.redis.completeView()
            #expect(try await fixture.once("GET", fixture.package("2"), token: "not-the-token-of-it").status == 401)
            #expect(try await fixture.once("GET", fixture.package("1"), token: "not-the-token-of-it").status == 401)
            #expect(try await fixture.once("GET", fixture.list("e")).status == 204)
            _ = try await fixture.redis.send(RedisCommand("FLUSHALL"))
            #expect(try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken).status == 503)
        }
    }

    @Test func noOrderIsServedBeforeTheViewIsComplete() async throws {
        try await Fixture.with(.init(isComplete: false)) { fixture in
            try await fixture.put("1")
            let answers = [
                try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken),
                try await fixture.once(
                    "GET", fixture.package("1"), token: Fixture.ownToken, [#"If-None-Match: "tag-1""#]),
                try await fixture.once(
                    "POST", fixture.registration("d", "1"), token: Fixture.ownToken, body: #"{"pushToken":"aa"}"#),
                try await fixture.once("DELETE", fixture.registration("d", "1"), token: Fixture.ownToken),
                try await fixture.once("GET", fixture.list("d")),
            ]
            for answer in answers {
                #expect(answer.status == 503)
                #expect(answer["retry-after"] == "10")
                #expect(answer.text.contains("restored"))
                #expect(answer["content-type"] == "application/json")
            }
            #expect(try await fixture.once("GET", fixture.package("1")).status == 401, "no token, nothing to find out")
            #expect(try await fixture.isAlive())
            try await fixture.redis.completeView()
            #expect(try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken).status == 200)
        }
    }

    @Test func aWrongTokenDuringARestoreCountsAsNoGuess() async throws {
        let limits = GatewayLimits(
            backoff: .init(free: 3, forgiveness: .seconds(60), longest: .minutes(10), clients: 64))
        try await Fixture.with(.init(limits: limits, isComplete: false)) { fixture in
            for _ in 0..<10 {
                #expect(try await fixture.once("GET", fixture.package("1"), token: "not-the-token-of-it").status == 503)
            }
            try await fixture.redis.completeView()
            #expect(try await fixture.once("GET", fixture.package("1"), token: "not-the-token-of-it").status == 401)
        }
    }
}
