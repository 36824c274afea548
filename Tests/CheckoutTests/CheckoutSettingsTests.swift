import Operations
import TestKit
import Testing

@testable import Checkout

@Suite struct CheckoutSettingsTests {
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
    }
}
