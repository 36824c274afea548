import Foundation
import Model
import Redis
import TestKit
import TestTraits
import Testing
import Tokens

@testable import Gateway

/// Links in mails, with a real Redis. Serialized: each test has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct MailEndpointTests {
    typealias Fixture = GatewayFixture

    private static let shop = "https://shop.example/orders/1"
    private static let iPhone =
        "User-Agent: Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
        + "Version/18.5 Mobile/15E148 Safari/604.1"

    private func link(
        _ fixture: Fixture, _ order: String, in seconds: Int64 = 600, token: String = Fixture.ownToken
    ) throws -> String {
        let link = MailLink(key: try Fixture.key(order), expiresEpochSeconds: LinkTests.now + seconds)
        let signature = link.signature(try AuthenticationToken(token))
        return "\(fixture.package(order))/mail?expires=\(link.expiresEpochSeconds)&signature=\(signature)"
    }

    private func put(_ fixture: Fixture, _ order: String, version: Int64 = 1, token: String = Fixture.ownToken)
        async throws
    {
        try await fixture.put(
            order, version: version, token: token, isPackaged: false,
            document: ["orderNumber": "1", "orderManagementURL": .string(Self.shop)])
    }

    /// The target of a redirect, in the folder of the link.
    private func target(_ fixture: Fixture, _ order: String, _ answer: RawConnection.Response) throws -> String {
        "\(fixture.package(order))/\(try #require(answer["location"]))"
    }

    /// The calls of each command, and all that Redis has.
    private func redis(_ fixture: Fixture) async throws -> (commands: Set<String>, keys: Set<String>) {
        let info = try await fixture.redis.send(RedisCommand("INFO", "commandstats")).text ?? ""
        let lines = info.split(whereSeparator: \.isNewline).map { $0.prefix { $0 != "," } }
        // Reads, and the checks of the view, which come with time.
        let ignored = [
            "eval:", "cluster", "time", "exists", "info", "hello", "client", "auth", "ping", "keys", "role", "hmget",
            "get", "command",
        ]
        let keys = try await fixture.redis.send(RedisCommand("KEYS", "*")).array?.compactMap(\.text) ?? []
        return (
            Set(lines.filter { line in !ignored.contains { line.hasPrefix("cmdstat_\($0)") } }.map(String.init)),
            Set(keys)
        )
    }

    private func figures(_ fixture: Fixture) -> [String] {
        // Those of connections and of requests as such say what reached the server.
        fixture.metricsText.split(separator: "\n").map(String.init).filter { line in
            !line.contains("endpoint=\"mail\"")
                && !["#", "waybill_connection", "waybill_request", "waybill_redis", "waybill_event", "process_"]
                    .contains { line.hasPrefix($0) }
        }
    }

    @Test func aScannerThatOpensALinkTenTimesLeavesNoTrace() async throws {
        try await Fixture.with { fixture in
            try await self.put(fixture, "1")
            let path = try self.link(fixture, "1")
            _ = try await fixture.once("GET", path)
            let (before, figures) = (try await self.redis(fixture), self.figures(fixture))
            for method in ["GET", "HEAD"] {
                for _ in 0..<10 {
                    let answer = try await fixture.once(method, path, [Self.iPhone])
                    #expect(answer.status == 200)
                    #expect(answer["content-type"] == "text/html; charset=utf-8")
                    #expect(answer["location"] == nil)
                    #expect(!answer.text.contains("/package"), "no link to the package")
                    #expect(!answer.text.contains(Self.shop))
                }
            }
            let after = try await self.redis(fixture)
            #expect(after.commands == before.commands, "nothing but reads of fields and of the view")
            #expect(after.keys == before.keys, "no package was asked for")
            #expect(self.figures(fixture) == figures)
        }
    }

    @Test func onlyAButtonLeadsToThePackageOrToTheShop() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1", document: ["orderNumber": "1", "orderManagementURL": .string(Self.shop)])
            let path = try self.link(fixture, "1")
            let page = try await fixture.once("GET", path)
            #expect(page["cache-control"] == "private, no-store")
            #expect(page["referrer-policy"] == "no-referrer")
            #expect(page["content-security-policy"]?.hasPrefix("default-src 'none'; style-src 'sha256-") == true)
            let actions = page.text.matches(of: /action="(.*?)"/).map { String($0.1).replacing("&amp;", with: "&") }
            try #require(actions.count == 2)
            let base = "\(fixture.package("1"))/mail"
            let wallet = try await fixture.once("POST", base + actions[0])
            #expect(wallet.status == 303)
            #expect(wallet["cache-control"] == "private, no-store")
            let package = try self.target(fixture, "1", wallet)
            let package200 = try await fixture.once("GET", package)
            #expect(package200.status == 200)
            #expect(package200.body == Fixture.package)
            let expires = try #require(package.firstMatch(of: /expires=(\d+)/)?.1)
            #expect(abs((Int64(expires) ?? 0) - LinkTests.now - MailEndpoint.packageSeconds) <= 20)
            let shop = try await fixture.once("POST", base + actions[1])
            #expect(shop.status == 303)
            #expect(shop["location"] == Self.shop)
            let put = try await fixture.once("PUT", path)
            #expect(put.status == 405)
            #expect(put["allow"] == "GET, HEAD, POST")
            try await fixture.put("2")
            let elsewhere = try await fixture.once("POST", self.link(fixture, "2"))
            #expect(elsewhere.status == 404)
            #expect(elsewhere.text.contains("iPhone"))
        }
    }

    @Test func aPageSpeaksTheLanguageOfItsMail() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            let path = try self.link(fixture, "1")
            let german = try await fixture.once("GET", path + "&language=de-AT")
            #expect(german.text.contains("<html lang=\"de\">"))
            #expect(german.text.contains("Mit Apple Wallet verfolgen"))
            #expect(german.text.contains("language=de&amp;open=wallet"))
            for other in ["", "&language=xx", "&language=%22%3E%3Cscript%3E"] {
                let english = try await fixture.once("GET", path + other)
                #expect(english.text.contains("<html lang=\"en\">"))
                #expect(!english.text.contains("<script"))
            }
        }
    }

    @Test func aLinkEndsWithTheOrdersToken() async throws {
        try await Fixture.with { fixture in
            try await self.put(fixture, "1")
            let path = try self.link(fixture, "1")
            #expect(try await fixture.once("GET", path).status == 200)
            try await self.put(fixture, "1", version: 2, token: "another-token-of-the-order")
            for method in ["GET", "POST"] {
                let ended = try await fixture.once(method, path)
                #expect(ended.status == 403)
                #expect(ended.text.contains("the shop has ended it"))
                #expect(ended["location"] == nil)
            }
            let new = try self.link(fixture, "1", token: "another-token-of-the-order")
            #expect(try await fixture.once("GET", new).status == 200)
        }
    }

    @Test func aLinkThatCannotBeUsedSaysWhyToItsOwnerOnly() async throws {
        try await Fixture.with { fixture in
            try await self.put(fixture, "1")
            for seconds: Int64 in [-1, 61 * 86_400] {
                let old = try await fixture.once("GET", self.link(fixture, "1", in: seconds))
                #expect(old.status == 403)
                #expect(old.text.contains("has expired"))
            }
            // It is on its way, and its token is the derived one.
            let early = try await fixture.once("GET", self.link(fixture, "2", token: fixture.derived("2")))
            #expect(early.status == 200)
            let forged = [
                try self.link(fixture, "1", token: "a-token-of-somebody-else"),
                try self.link(fixture, "1").replacing("/1/", with: "/3/"),
                "\(fixture.package("1"))/mail", try self.link(fixture, "2"),
            ]
            var answers: [RawConnection.Response] = []
            for path in forged { answers.append(try await fixture.once("GET", path)) }
            for answer in answers {
                #expect(answer.status == 403)
                #expect(answer.body == answers[0].body)
            }
            try await fixture.put("1", version: 2, isRemoved: true)
            let removed = try await fixture.once("POST", self.link(fixture, "1"))
            #expect(removed.status == 404)
            #expect(removed.text.contains("no longer exists"))
        }
    }

    @Test func aGuesserIsSlowedDownAndALinkIsStillAnswered() async throws {
        try await Fixture.with { fixture in
            try await self.put(fixture, "1")
            let wrong = try self.link(fixture, "1", token: "a-token-of-somebody-else")
            try await fixture.connected { connection in
                var statuses: [Int] = []
                for _ in 0..<60 {
                    try await connection.send(fixture.request("GET", wrong))
                    statuses.append(try await connection.response().status)
                }
                #expect(statuses.prefix(50).allSatisfy { $0 == 403 })
                #expect(statuses.contains(429))
                try await connection.send(fixture.request("GET", self.link(fixture, "1")))
                #expect(try await connection.response().status == 200)
            }
        }
    }

    @Test func anIncompleteViewEndsNoLink() async throws {
        try await Fixture.with(.init(isComplete: false)) { fixture in
            let answer = try await fixture.once("GET", self.link(fixture, "1"))
            #expect(answer.status == 503)
            #expect(answer["retry-after"] != nil)
        }
    }
}
