import Foundation
import Model
import TestKit
import Testing

@testable import Devkit

/// The page that judges packages.
@Suite struct VerifierPageTests {
    private func ask(_ page: VerifierPage, _ method: String, _ path: String, _ body: JSON = .null) async throws
        -> FakeServer.Response
    {
        try #require(await page.response(to: method, path, body.serialized))
    }

    private func judge(_ page: VerifierPage, _ package: [UInt8], root: [UInt8]? = nil) async throws
        -> (status: Int, report: JSONObject)
    {
        var body: JSONObject = ["name": "a.order", "package": .string(Data(package).base64EncodedString())]
        if let root { body["root"] = .string(String(decoding: root, as: UTF8.self)) }
        let answer = try await self.ask(page, "POST", "/verifier/judge", .object(body))
        return (answer.status, try #require(try JSON(parsing: answer.body).object))
    }

    @Test func aPackageIsJudgedByTheRulesOfVerify() async throws {
        let fixture = try PackageFixture.shared.get()
        let root = try #require(fixture.pem["root"])
        let page = VerifierPage(rootsPEM: root, rootName: "the test's root")
        let good = try await self.judge(page, fixture.package)
        #expect(good.status == 200)
        #expect(good.report["valid"] == true, "\(good.report)")
        #expect(good.report["file"] == "a.order")
        let broken = try await self.judge(page, Array(fixture.package.dropLast(200)))
        #expect(broken.status == 200)
        #expect(broken.report["valid"] == false)
        #expect(broken.report["violations"]?.array?.isEmpty == false)
    }

    @Test func aRequestBringsItsRootIfThePageHasNone() async throws {
        let fixture = try PackageFixture.shared.get()
        let page = VerifierPage(rootsPEM: nil, rootName: "")
        let refused = try await self.judge(page, fixture.package)
        #expect(refused.status == 422)
        #expect(refused.report["error"]?.object?["message"]?.string?.contains("root certificate") == true)
        #expect(try await self.judge(page, fixture.package, root: fixture.pem["root"]).report["valid"] == true)
        #expect(try await self.judge(page, fixture.package, root: Array("no PEM".utf8)).status == 422)
        #expect(try await self.ask(page, "POST", "/verifier/judge").status == 422)
    }

    @Test func thePageLoadsNothingFromElsewhere() async throws {
        let page = VerifierPage(rootsPEM: nil, rootName: "")
        for path in ["/verifier", "/verifier/verifier.mjs", "/verifier/playground.css"] {
            let answer = try await self.ask(page, "GET", path)
            #expect(answer.status == 200)
            #expect(!String(decoding: answer.body, as: UTF8.self).contains("https://"), "\(path)")
            let policy = answer.headers.first { $0.0 == "content-security-policy" }?.1
            #expect(policy?.hasPrefix("default-src 'none'; script-src 'self'") == true)
        }
    }
}
