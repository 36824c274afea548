import Operations
import TestKit
import Testing

@testable import Checkout

@Suite struct CheckoutSettingsTests {
    /// The keys that all services read.
    private static func common() throws -> [String] {
        let settings = try Settings(environment: [:])
        _ = try CommonSettings(settings)
        return settings.effective.map(\.key.rawValue)
    }

    /// Of a list of many hosts, the entry at fault is named.
    @Test(arguments: [
        ("apple-pay-gateway-nc-pod6.apple.com:443:127.0.0.1:1", "names no host of Apple"),
        ("apple-pay-gateway.apple.com:443:localhost:1", "must be host:port:address:port"),
        ("apple-pay-gateway.apple.com:443:127.0.0.1", "must be host:port:address:port"),
    ])
    func aWrongStandInForAppleIsNamed(_ entry: String, _ problem: String) throws {
        let right = "apple-pay-gateway-cert.apple.com:443:127.0.0.1:1"
        let settings = try Settings(environment: ["WAYBILL_DEVELOPMENT_APPLE_PAY": "\(right),\(entry),\(right)"])
        let error = #expect(throws: SettingsError.self) { try CheckoutSettings.applePay(settings) }
        #expect(error?.description.contains(problem) == true, "\(error as Any)")
        #expect(error?.description.contains(entry) == true)
        #expect(error?.description.contains("-cert") == false)
    }

    @Test func theDefaultsOfTheCheckoutRoleAreThoseOfTheDocument() throws {
        let directory = try TemporaryDirectory("settings")
        try DevelopmentBrand.make(
            in: directory.path("brands/shop"), orderType: CheckoutFixture.orderType,
            certificates: try TLSSupport.made.get().first)
        let given = [
            "WAYBILL_TOKEN_SECRETS": try directory.write("secrets", String(repeating: "x", count: 32)),
            "WAYBILL_WEB_SERVICE_URL": "https://wallet.example", "WAYBILL_BRANDS": directory.path("brands"),
        ]
        let settings = try Settings(environment: given)
        _ = try CheckoutSettings(settings, common: try CommonSettings(settings))
        let defaults = settings.effective.map { ($0.key.rawValue, $0.value) }.filter { given[$0.0] == nil }
        #expect(defaults.contains { $0.0 == "WAYBILL_CONNECTION_LIMIT" })
        let differences = try ConfigurationTable().differences(from: defaults)
        #expect(differences == [])
        let used = try ConfigurationTable().differences(
            ofUseBy: "checkout", read: settings.effective.map(\.key.rawValue), common: try Self.common())
        #expect(used == [])
    }
}
