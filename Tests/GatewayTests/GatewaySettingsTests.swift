import Operations
import TestKit
import Testing

@testable import Gateway

@Suite struct GatewaySettingsTests {
    /// The keys that all services read.
    private static func common() throws -> [String] {
        let settings = try Settings(environment: [:])
        _ = try CommonSettings(settings)
        return settings.effective.map(\.key.rawValue)
    }

    /// Returns settings with these values and the required ones, and the names of all given settings.
    private func settings(
        _ values: [String: String] = [:], in directory: TemporaryDirectory
    ) throws -> (all: Settings, given: Set<String>) {
        let made = try TLSSupport.made.get().first
        try DevelopmentBrand.make(
            in: directory.path("brands/shop"), orderType: GatewayFixture.orderType, certificates: made)
        var environment = values
        if environment.removeValue(forKey: "tls") != nil {
            environment["WAYBILL_TLS_CERTIFICATE"] = made.serverCertificate
            environment["WAYBILL_TLS_KEY"] = made.serverKey
        }
        environment["WAYBILL_TOKEN_SECRETS"] = try directory.write("secrets", String(repeating: "x", count: 32))
        environment["WAYBILL_WEB_SERVICE_URL"] = "https://wallet.example"
        environment["WAYBILL_BRANDS"] = directory.path("brands")
        return (try Settings(environment: environment), Set(environment.keys))
    }

    private func differences(_ settings: Settings, given: Set<String>) throws -> [String] {
        let defaults = settings.effective.map { ($0.key.rawValue, $0.value) }.filter { !given.contains($0.0) }
        #expect(defaults.contains { $0.0 == "WAYBILL_CONNECTION_LIMIT" })
        return try ConfigurationTable().differences(from: defaults)
    }

    @Test func theDefaultsAreThoseOfTheDocument() throws {
        let directory = try TemporaryDirectory("settings")
        let (settings, given) = try self.settings(in: directory)
        _ = try GatewaySettings(settings, common: try CommonSettings(settings))
        let differences = try self.differences(settings, given: given)
        #expect(differences == [])
        let used = try ConfigurationTable().differences(
            ofUseBy: "gateway", read: settings.effective.map(\.key.rawValue), common: try Self.common())
        #expect(used == [])
    }

    @Test(arguments: [
        (["WAYBILL_LISTEN": "0.0.0.0:8080"], true), (["WAYBILL_LISTEN": "[::]:8080"], true),
        (["WAYBILL_LISTEN": "127.0.0.1:8080"], false), ([:], false),
        (["WAYBILL_LISTEN": "0.0.0.0:8080", "WAYBILL_TRUSTED_PROXIES": "10.0.0.0/8"], false),
        (["WAYBILL_LISTEN": "0.0.0.0:8080", "tls": "yes"], false),
    ])
    func anUnencryptedListenerGivesAWarning(values: [String: String], isWarned: Bool) throws {
        let directory = try TemporaryDirectory("settings")
        let settings = try self.settings(values, in: directory).all
        _ = try GatewaySettings(settings, common: try CommonSettings(settings))
        #expect(settings.warnings.contains { $0.contains("unencrypted") } == isWarned)
    }
}
