import Foundation
import NIOCore
import TestKit
import TestTraits
import Testing
import Tokens

@testable import Gateway
@testable import HTTPServer

/// Wrong tokens, many messages, many failures. Serialized: each test has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct GuessingTests {
    typealias Fixture = GatewayFixture

    @Test func aGuesserGets429AndARightTokenIsServedAtOnce() async throws {
        let limits = GatewayLimits(
            backoff: .init(free: 5, forgiveness: .seconds(60), longest: .minutes(10), clients: 64))
        try await Fixture.with(.init(limits: limits)) { fixture in
            try await fixture.put("1")
            try await fixture.connected { connection in
                var answers: [RawConnection.Response] = []
                let wrong = "not-the-token-of-it"
                for round in 0..<4 {
                    for request in [
                        fixture.request("GET", fixture.package("1"), token: wrong + "\(round)"),
                        fixture.request("GET", fixture.package("unknown"), token: wrong),
                        fixture.request("DELETE", fixture.registration("d", "1"), token: wrong),
                    ] { answers.append(try await connection.exchange(request)) }
                }
                #expect(answers.prefix(5).map(\.status) == Array(repeating: 401, count: 5))
                for answer in answers.dropFirst(5) {
                    #expect(answer.status == 429)
                    #expect(answer.text.contains("error"))
                    let seconds = answer["retry-after"].flatMap { Int($0) } ?? 0
                    #expect((1...600).contains(seconds), "a wait that a client can wait for")
                }
                let link = try await connection.exchange(fixture.request("GET", fixture.package("1") + "/package"))
                #expect(link.status == 429, "guessing links is guessing")

                let none = try await connection.exchange(fixture.request("GET", fixture.package("1")))
                #expect(none.status == 401, "who shows no token guesses nothing")
                #expect(none["www-authenticate"] != nil, "who shows no token guesses nothing")

                let right = try await connection.exchange(
                    fixture.request("GET", fixture.package("1"), token: Fixture.ownToken))
                #expect(right.status == 200)
                #expect(right.body == Fixture.package)
                let fresh = try await connection.exchange(
                    fixture.request("GET", fixture.package("1"), token: Fixture.ownToken, ["If-None-Match: \"tag-1\""]))
                #expect(fresh.status == 304)
                let registered = try await connection.exchange(
                    fixture.request(
                        "POST", fixture.registration("d", "1"), token: Fixture.ownToken, body: #"{"pushToken":"aa"}"#))
                #expect(registered.status == 201)
                #expect(try await connection.exchange(fixture.request("GET", fixture.list("d"))).status == 200)
            }
            #expect(fixture.metricsText.contains("waybill_responses_total{endpoint=\"package\",status=\"429\"}"))
        }
    }

    @Test func onlyAClientThatGuessedGets429() async throws {
        let limits = GatewayLimits(backoff: .init(free: 2, forgiveness: .hours(1), longest: .hours(2), clients: 64))
        try await Fixture.with(.init(limits: limits)) { fixture in
            try await fixture.put("1")
            try await fixture.put("1", version: 2, isRemoved: true)
            let expired = PackageLink(
                key: try Fixture.key("1"), expiresEpochSeconds: Int64(Date().timeIntervalSince1970) - 5)
            let query = "expires=\(expired.expiresEpochSeconds)&signature=\(expired.signature(fixture.secrets))"
            let link = "\(fixture.package("1"))/package?\(query)"
            for _ in 0..<5 {
                #expect(try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken).status == 401)
                let unregistered = try await fixture.once(
                    "DELETE", fixture.registration("d", "1"), token: Fixture.ownToken)
                #expect(unregistered.status == 401, "the right token of a removed order")
                #expect(try await fixture.once("GET", link).status == 403, "a link that has expired")
            }
            for status in [401, 401, 429] {
                #expect(
                    try await fixture.once("GET", fixture.package("1"), token: "not-the-token-of-it").status == status)
            }
            #expect(try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken).status == 401)
            #expect(
                try await fixture.once("GET", fixture.package("1") + "/package?expires=1&signature=ab").status == 429)
        }
    }

    @Test func deviceLogMessagesOverTheLimitAreDroppedAndAnsweredWith200() async throws {
        let journal = LogJournal()
        let limits = GatewayLimits(
            log: .init(burst: 10, interval: .hours(1), totalBurst: 1000, totalInterval: .hours(1), clients: 64))
        try await Fixture.with(.init(limits: limits, journal: journal)) { fixture in
            for _ in 0..<5 {
                let answer = try await fixture.once(
                    "POST", "/apple//v1/log", body: #"{"logs":["a\u0000b","c\r\nd","e"]}"#)
                #expect(answer.status == 200)
            }
            let many = "[" + Array(repeating: #""x""#, count: 5000).joined(separator: ",") + "]"
            #expect(try await fixture.once("POST", "/v1/log", body: many).status == 200)
            let texts = journal.lines.filter { $0.message == "message from a device" }.compactMap {
                $0.metadata["text"]
            }
            #expect(texts == ["a b", "c  d", "e", "a b", "c  d", "e", "a b", "c  d", "e", "a b"])
            #expect(fixture.metricsText.contains("waybill_device_log_messages_total 5015"))
            #expect(fixture.metricsText.contains("waybill_device_log_messages_dropped_total 5005"))
        }
    }

    @Test func aRedisOutageIsNotLoggedForEachRequest() async throws {
        let journal = LogJournal()
        let limits = GatewayLimits(failureLines: .seconds(2))
        try await Fixture.with(.init(limits: limits, journal: journal, redisDeadline: .milliseconds(100))) { fixture in
            await fixture.server.kill()
            try await fixture.connected { connection in
                for _ in 0..<20 {
                    let answer = try await connection.exchange(fixture.request("GET", fixture.list("device")))
                    #expect(answer.status == 503)
                }
            }
            func lines() -> [LogJournal.Line] { journal.lines.filter { $0.message.contains("failed") } }
            let deadline = ContinuousClock.now + .seconds(20)
            func counted() -> Int { lines().reduce(0) { $0 + (Int($1.metadata["count"] ?? "1") ?? 0) } }
            while counted() < 20 {
                try #require(ContinuousClock.now < deadline, "\(lines())")
                try await Task.sleep(for: .milliseconds(20))
            }
            #expect(counted() == 20)
            #expect(lines().first?.message == "request failed")
            #expect(lines().first?.metadata["endpoint"] == "changes")
            #expect(lines().count < 20)
        }
    }
}
