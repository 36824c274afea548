import Foundation
import Model
import NIOCore
import TestKit
import TestTraits
import Testing
import Tokens

@testable import Gateway

/// Links for browsers. Serialized: each test has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct LinkTests {
    typealias Fixture = GatewayFixture

    static var now: Int64 { Int64(Date().timeIntervalSince1970) }

    func link(_ fixture: Fixture, _ order: String, in seconds: Int64 = 600, _ secrets: TokenSecrets? = nil) throws
        -> String
    {
        let link = PackageLink(key: try Fixture.key(order), expiresEpochSeconds: Self.now + seconds)
        let signature = link.signature(secrets ?? fixture.secrets)
        return "\(fixture.package(order))/package?expires=\(link.expiresEpochSeconds)&signature=\(signature)"
    }

    @Test func aSignedLinkGivesABrowserThePackage() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            let path = try self.link(fixture, "1")
            for method in ["GET", "HEAD"] {
                // A browser may send unrelated conditions and authorization headers; they are ignored here.
                let answer = try await fixture.once(method, path, ["If-None-Match: *", "Authorization: Basic eDp5"])
                #expect(answer.status == 200)
                #expect(answer["content-length"] == "\(Fixture.package.count)")
                #expect(answer.body == (method == "GET" ? Fixture.package : []))
                #expect(answer["content-type"] == "application/vnd.apple.finance.order")
                #expect(answer["content-disposition"] == "inline; filename=\"1.order\"")
                #expect(answer["x-content-type-options"] == "nosniff")
                #expect(answer["cache-control"] == "private, no-store")
                #expect(answer["etag"] == nil)
                #expect(answer["last-modified"] == nil)
            }
            let swapped = path.split(separator: "?")[1].split(separator: "&").reversed().joined(separator: "&")
            let other = "/apple//v1/orders/\(Fixture.orderType)/%31/package?\(swapped)&utm=x"
            #expect(try await fixture.once("GET", other).status == 200)
            let post = try await fixture.once("POST", path)
            #expect(post.status == 405)
            #expect(post["allow"] == "GET, HEAD")
            let old = try TokenSecrets(file: Array("the second secret\n".utf8))
            #expect(try await fixture.once("GET", self.link(fixture, "1", old)).status == 200, "all secrets are taken")
        }
    }

    @Test func invalidLinksGetIdentical403Responses() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            try await fixture.put("3")
            try await fixture.put("3", version: 2, isRemoved: true)
            let stranger = try TokenSecrets(file: Array("a secret of somebody else\n".utf8))
            var answers: [RawConnection.Response] = []
            for order in ["1", "2", "3"] {
                answers.append(try await fixture.once("GET", self.link(fixture, order, stranger)))
                answers.append(try await fixture.once("GET", self.link(fixture, order, in: -600, stranger)))
            }
            let good = try self.link(fixture, "1")
            answers.append(try await fixture.once("GET", "\(fixture.package("1"))/package"))
            answers.append(try await fixture.once("GET", "\(fixture.package("1"))/package", token: Fixture.ownToken))
            answers.append(
                try await fixture.once(
                    "GET",
                    good.replacing("expires=", with: "expires=0")
                        .replacing("=01", with: "=1").replacing("signature=", with: "signature=x")))
            answers.append(try await fixture.once("GET", good.replacing("expires=", with: "expires=+")))
            answers.append(try await fixture.once("GET", good.replacing("/1/", with: "/2/")))
            for answer in answers {
                #expect(answer.status == 403)
                #expect(answer.body == answers[0].body)
                #expect(answer.headers.map(\.name) == answers[0].headers.map(\.name))
            }
            #expect(try JSON(parsing: answers[0].body).object?["error"]?.object?["message"]?.string != nil)
        }
    }

    @Test func aSignedLinkThatCannotBeServedSaysWhy() async throws {
        try await Fixture.with(.init(holding: .init(time: .milliseconds(200)))) { fixture in
            try await fixture.put("1")
            let expired = try await fixture.once("GET", self.link(fixture, "1", in: -1))
            #expect(expired.status == 403)
            #expect(expired.text.contains("expired"))
            let long = try await fixture.once("GET", self.link(fixture, "1", in: 25 * 3600))
            #expect(long.status == 403)
            #expect(long.text.contains("24 hours"))
            let early = try await fixture.once("GET", self.link(fixture, "2"))
            #expect(early.status == 503, "it is on its way")
            #expect(early["retry-after"] == "1", "it is on its way")
            try await fixture.put("1", version: 2, isRemoved: true)
            #expect(try await fixture.once("GET", self.link(fixture, "1")).status == 404)
        }
    }

    @Test func aBrowserThatIsFasterThanThePackagerWaits() async throws {
        try await Fixture.with { fixture in
            try await fixture.connected { connection in
                try await connection.send(fixture.request("GET", self.link(fixture, "1")))
                try await Task.sleep(for: .milliseconds(200))
                #expect(connection.isQuiet)
                try await fixture.put("1")
                let answer = try await connection.response()
                #expect(answer.status == 200)
                #expect(answer.body == Fixture.package)
                #expect(answer["content-disposition"] == "inline; filename=\"1.order\"")
            }
        }
    }

    /// Runs the commands in the gateway's README as they are written there.
    @Test func theREADMECommandsMintValidTokensAndLinks() async throws {
        let readme = try String(
            contentsOf: Repository.root.appending(path: "Services/Gateway/README.md"), encoding: .utf8)
        let lines = readme.split(separator: "\n").filter { $0.hasPrefix("python3 -c 'import hashlib") }.map(String.init)
        try #require(lines.count == 2, "one line for the token, one for the link")
        #expect(!readme.contains("-hmac"), "an argument is seen by ps")
        let directory = try TemporaryDirectory("readme")
        _ = try directory.write("token-secrets", "the first secret of the test\nthe second secret\n")
        try await Fixture.with { fixture in
            func run(_ line: String) async throws -> String {
                let script =
                    "cd '\(directory.path("."))' && export WAYBILL_WEB_SERVICE_URL='https://wallet.example/apple' && \(line)"
                let printed = try Program.run("sh", ["-c", script])
                #expect(printed.hasSuffix("\n"))
                #expect(printed.split(separator: "\n").count == 1)
                return String(printed.dropLast())
            }
            let token = try await run(lines[0])
            #expect(try token == fixture.derived("1234"))
            try await fixture.put("1234", token: token)
            #expect(try await fixture.once("GET", fixture.package("1234"), token: token).status == 200)
            let link = try await run(lines[1])
            #expect(link.hasPrefix("https://wallet.example/apple/v1/orders/\(Fixture.orderType)/1234/package?"))
            #expect(try await fixture.once("GET", link).body == Fixture.package)
        }
    }
}
