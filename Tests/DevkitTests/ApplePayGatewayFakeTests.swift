import Model
import NIOHTTP1
import TestKit
import TestTraits
import Testing

@testable import Devkit

/// The fake of Apple's gateway, over TLS with client certificates.
@Suite(.server) struct ApplePayGatewayFakeTests {
    private static let merchant = "merchant.com.example.shop"
    private static let path = "/paymentservices/paymentSession"

    private struct Fixture {
        let directory: TemporaryDirectory
        let fake: ApplePayGatewayFake
        let certificates: DevelopmentMerchant

        init() async throws {
            self.directory = try TemporaryDirectory("gateway")
            let authority = try DevelopmentCertificates.copy(to: directory.path("authority"))
            self.certificates = try DevelopmentMerchant.make(
                in: directory.path("merchant"), merchantIdentifier: ApplePayGatewayFakeTests.merchant,
                authority: authority)
            self.fake = try await ApplePayGatewayFake.start(
                ApplePayGatewayRules(domains: [ApplePayGatewayFakeTests.merchant: ["shop.example.com"]]),
                certificates: self.certificates)
        }

        func client(certificate: Bool = true) throws -> HTTPClient {
            try HTTPClient(
                roots: self.certificates.root,
                identity: certificate ? (self.certificates.certificate, self.certificates.key) : nil,
                reroutes: Dictionary(uniqueKeysWithValues: self.fake.ports.map { ($0.key.host, $0.value) }),
                deadline: .answer)
        }
    }

    private static func request(
        _ environment: ApplePayGatewayFake.Environment = .sandbox, path: String = Self.path,
        changes: [String: JSON?] = [:]
    ) -> HTTPRequest {
        var body: JSONObject = [
            "merchantIdentifier": .string(Self.merchant), "displayName": "Shop", "initiative": "web",
            "initiativeContext": "shop.example.com",
        ]
        for (name, value) in changes { body[name] = value }
        return HTTPRequest(
            method: .POST, url: "https://\(environment.host)\(path)", headers: [("content-type", "application/json")],
            body: JSON.object(body).serialized)
    }

    @Test func sessionsBelongToTheEnvironmentThatMadeThem() async throws {
        let fixture = try await Fixture()
        let http = try fixture.client()
        for environment in ApplePayGatewayFake.Environment.allCases {
            let response = try await http.send(Self.request(environment))
            #expect(response.status == 200)
            let session = try JSON(parsing: response.body).object
            #expect(session?["merchantSessionIdentifier"]?.string?.hasSuffix(environment.rawValue) == true)
            #expect(session?["domainName"]?.string == "shop.example.com")
        }
        await http.close()
        await fixture.fake.stop()
    }

    @Test func nothingIsAnsweredWithoutACertificate() async throws {
        let fixture = try await Fixture()
        let http = try fixture.client(certificate: false)
        await #expect(throws: ToolError.self) { _ = try await http.send(Self.request()) }
        await http.close()
        await fixture.fake.stop()
    }

    @Test func theFakeRefusesInvalidRequestsLikeApple() async throws {
        let fixture = try await Fixture()
        let http = try fixture.client()
        let hash = try JSON(parsing: try await http.send(Self.request()).body).object?["merchantIdentifier"]?.string
        let cases: [(HTTPRequest, Int)] = [
            (Self.request(changes: ["merchantIdentifier": .string(try #require(hash))]), 200),
            (Self.request(changes: ["merchantIdentifier": "merchant.other"]), 417),
            (Self.request(changes: ["initiativeContext": "evil.example"]), 417),
            (Self.request(changes: ["initiative": "in_app"]), 400), (Self.request(changes: ["unknown": 1]), 400),
            (Self.request(changes: ["displayName": .string(String(repeating: "x", count: 65))]), 400),
            (Self.request(path: "/paymentservices/startSession"), 404),
        ]
        for (request, status) in cases { #expect(try await http.send(request).status == status) }
        let refusal = try await http.send(Self.request(changes: ["initiativeContext": "evil.example"]))
        let message = try JSON(parsing: refusal.body).object?["statusMessage"]?.string
        #expect(message?.contains(try #require(hash)) == true)
        #expect(message?.contains("evil.example") == true)
        await http.close()
        await fixture.fake.stop()
    }

    @Test func theGatewayFakeFailsAsConfigured() async throws {
        let fixture = try await Fixture()
        let http = try fixture.client()
        for (fault, status) in [
            (ApplePayGatewayFake.Fault.malformed, 400), (.unregistered, 417), (.broken, 500), (.redirect, 302),
        ] {
            fixture.fake.conduct.fail(fault)
            #expect(try await http.send(Self.request()).status == status)
        }
        fixture.fake.conduct.fail(.cut)
        await #expect(throws: ToolError.self) { _ = try await http.send(Self.request()) }
        fixture.fake.conduct.fail(.huge)
        #expect(try await http.send(Self.request()).body.count > 65_536)
        fixture.fake.conduct.fail(.html)
        #expect(try await http.send(Self.request()).header("content-type") == "text/html")
        fixture.fake.conduct.fail(.slow)
        let start = ContinuousClock.now
        #expect(try await http.send(Self.request()).status == 200)
        #expect(.now - start >= .seconds(3))
        fixture.fake.conduct.fail(.silent)
        await #expect { _ = try await http.send(Self.request(), within: .seconds(2)) } throws: {
            ($0 as? ToolError)?.code == .timeout
        }
        #expect(try await http.send(Self.request()).status == 200)
        #expect(fixture.fake.conduct.requests.count == 10)
        await http.close()
        await fixture.fake.stop()
    }
}
