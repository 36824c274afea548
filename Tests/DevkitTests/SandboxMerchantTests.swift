import Model
import TestKit
import TestTraits
import Testing

@testable import Devkit

/// A merchant of Apple's sandbox as the playground takes it, with its public address.
@Suite struct SandboxMerchantTests {
    private static let members: JSONObject = [
        "merchantIdentifier": "merchant.com.example.shop", "displayName": "Shop", "certificate": "identity.pem",
        "key": "key.pem", "environments": ["sandbox"], "origins": ["https://shop.example.com": [:]],
        "upstream": ["url": "https://shop.example.com", "secret": "secret"],
        "keys": [["name": "theirs", "sha256": "00"]],
    ]

    private static func merchant(
        _ changes: JSONObject = [:], at url: String = "https://Play.example.com/"
    ) throws(ToolError) -> SandboxMerchant {
        try SandboxMerchant(Self.members.merging(changes), directory: "merchants/shop", publicURL: url)
    }

    @Test func aMerchantOfTheSandboxGetsThePagesOriginAndItsKey() throws {
        let merchant = try Self.merchant()
        #expect(merchant.publicURL == "https://play.example.com")
        #expect(merchant.identifier == "merchant.com.example.shop")
        let members = merchant.members(for: [
            "keys": [["name": "playground"]], "capabilities": ["order_tracking"],
            "orderTypeIdentifiers": ["order.com.example"], "origins": ["https://play.example.com": [:]],
        ])
        #expect(members["keys"] == [["name": "playground"]])
        #expect(members["upstream"] == nil, "nothing goes to the shop")
        let origins = Set((members["origins"]?.object?.members ?? []).map(\.name))
        #expect(origins == ["https://shop.example.com", "https://play.example.com"])
    }

    @Test(
        arguments: [
            (["environments": ["production"]], "$.environments"),
            (["environments": ["sandbox", "production"]], "$.environments"),
            (["environments": .null], "$.environments"), (["certificate": .null], "$.certificate"),
            (["key": 1], "$.key"),
        ] as [(JSONObject, String)])
    func aMerchantOfProductionAndOneWithoutACertificateAreRefused(changes: JSONObject, place: String) {
        let error = #expect(throws: ToolError.self) { try Self.merchant(changes) }
        #expect(
            error?.message.hasPrefix("--merchant merchants/shop: \(place) ") == true, "\(String(describing: error))")
    }

    @Test(arguments: [
        "http://play.example.com", "play.example.com", "https://", "https://play.example.com/shop",
        "https://a@b.example",
        "https://play.example.com?x", "",
    ])
    func anAddressThatIsNoOriginWithHTTPSIsRefused(url: String) {
        let error = #expect(throws: ToolError.self) { try Self.merchant(at: url) }
        #expect(error?.message.hasPrefix("--public-url \(url): ") == true)
    }

    @Test func aPublicAddressServesThePageTheCheckoutRoleAndWallet() async throws {
        let http = try HTTPClient()
        let forwarding = PlaygroundForwarding(checkout: "checkout", gateway: "gateway", http: http)
        for (path, service) in [
            ("/applepay/validate", "checkout"),
            ("/.well-known/apple-developer-merchantid-domain-association", "checkout"),
            ("/v1/orders/a/b", "gateway"), ("/v1/devices/a/registrations/b/c", "gateway"), ("/v1/log", "gateway"),
            ("/playground", nil), ("/v1/checkout/order-details", nil), ("/metrics", nil),
        ] {
            #expect(forwarding.service(of: path) == service, "\(path)")
        }
        await http.close()
    }
}

@Suite(.server) struct PlaygroundPortTests {
    @Test func aPortThatIsTakenIsNamedWithItsOption() async throws {
        let listener = try await FakeServer.start { _ in .response(FakeServer.Response(200)) }
        let port = listener.port
        let error = #expect(throws: ToolError.self) { try PlaygroundCommand.requireFree(port, "--port") }
        #expect(error?.message.hasPrefix("--port \(port): a program listens on this port") == true)
        let wrong = #expect(throws: ToolError.self) { try PlaygroundCommand.requireFree(70_000, "--port") }
        #expect(wrong?.message.hasPrefix("--port 70000: ") == true)
        await listener.stop()
        try PlaygroundCommand.requireFree(port, "--port")
        try PlaygroundCommand.requireFree(0, "--port")
    }
}
