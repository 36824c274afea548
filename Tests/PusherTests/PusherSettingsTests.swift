import APNS
import Kafka
import Model
import TestKit
import Testing

@testable import Operations
@testable import Pusher

@Suite struct PusherSettingsTests {
    /// The keys that all services read.
    private static func common() throws -> [String] {
        let settings = try Settings(environment: [:])
        _ = try CommonSettings(settings)
        return settings.effective.map(\.key.rawValue)
    }

    /// Returns the settings with these values and a brand.
    private func settings(_ environment: [String: String]) throws -> (PusherSettings, Settings) {
        let directory = try TemporaryDirectory("pusher-settings")
        let brands = try PusherBrandFixture.shared.get().write(into: directory)
        let settings = try Settings(environment: environment.merging(["WAYBILL_BRANDS": brands]) { first, _ in first })
        return (try PusherSettings(settings, common: try CommonSettings(settings)), settings)
    }

    @Test func theDefaultsMatchTheDocumentationAndUseProductionAPNs() throws {
        let (settings, all) = try self.settings([:])
        let defaults = all.effective.map { ($0.key.rawValue, $0.value) }.filter { $0.0 != "WAYBILL_BRANDS" }
        let differences = try ConfigurationTable().differences(from: defaults)
        #expect(differences == [])
        let used = try ConfigurationTable().differences(
            ofUseBy: "pusher", read: all.effective.map(\.key.rawValue), common: try Self.common())
        #expect(used == [])
        #expect(settings.endpoint.description == "api.push.apple.com:443")
        #expect(settings.proxy == nil)
        #expect(settings.roots == nil)
        #expect(settings.connections == 2...8)
        #expect(settings.limits.window == .seconds(1))
        #expect(settings.limits.hold == .seconds(300))
        #expect(settings.limits.hourlyLimit == 60)
        #expect(settings.limits.attempts == 8)
        #expect(settings.limits.inFlight == 10_000)
    }

    @Test func everyTopicIsNeededAlsoThePendingOne() {
        let topics = Topics()
        let faults = Pusher.needs(topics).flatMap {
            $0.faults(.failure(KafkaError(.unknownTopic, "")), settings: nil)
        }
        let names = [topics.orders, topics.registrations, topics.pushPending, topics.deadLetters]
        #expect(faults == names.map { .init(kind: .refused, problem: "topic \($0) does not exist", fix: "create it") })
    }

    @Test func givenSettingsOverrideTheDefaults() throws {
        let (settings, _) = try self.settings([
            "WAYBILL_APNS_URL": "https://api.push.apple.com:2197", "WAYBILL_APNS_CONNECTIONS": "1-100",
            "WAYBILL_APNS_PROXY": "http://proxy.example:3128", "WAYBILL_PUSH_WINDOW_MILLISECONDS": "0",
            "WAYBILL_PUSH_HOURLY_LIMIT": "0", "WAYBILL_PUSH_HOLD_SECONDS": "10", "WAYBILL_PUSH_ATTEMPTS": "1",
            "WAYBILL_PUSH_IN_FLIGHT": "100000",
        ])
        #expect(settings.endpoint.port == 2197)
        #expect(settings.connections == 1...100)
        #expect(settings.proxy?.description == "proxy.example:3128")
        #expect(settings.limits.window == .zero)
        #expect(settings.limits.hourlyLimit == 0)
        #expect(settings.limits.hold == .seconds(10))
        #expect(settings.limits.attempts == 1)
        #expect(settings.limits.inFlight == 100_000)
        #expect(try self.settings(["WAYBILL_APNS_CONNECTIONS": "3-3"]).0.connections == 3...3)
    }

    private static let bad: [(String, [String])] = [
        (
            "WAYBILL_APNS_URL",
            [
                "http://api.push.apple.com", "api.push.apple.com", "https://", "https://api.push.apple.com:8443",
                "https://API.sandbox.push.apple.com:80",
            ]
        ),
        ("WAYBILL_APNS_ROOTS", ["/nowhere/roots.pem"]),
        ("WAYBILL_APNS_PROXY", ["proxy:3128", "https://proxy:3128", "http://proxy", "http://:3128", "http://proxy:0"]),
        (
            "WAYBILL_APNS_CONNECTIONS",
            [
                "2", "0-8", "8-2", "2-101", "2-", "-8", "-", "2-8-9", "2 - 8", "+2-8", "a-b", "2–8",
                "99999999999999999999-8",
            ]
        ),
        ("WAYBILL_PUSH_WINDOW_MILLISECONDS", ["-1", "60001", "1s", "1.5"]),
        ("WAYBILL_PUSH_HOURLY_LIMIT", ["-1", "3601", "many"]),
        ("WAYBILL_PUSH_HOLD_SECONDS", ["0", "9", "86401", "5m"]),
        ("WAYBILL_PUSH_ATTEMPTS", ["0", "101", "-1", "x"]),
        ("WAYBILL_PUSH_IN_FLIGHT", ["0", "99", "100001", "10k"]),
    ]

    @Test func anIPAddressWithAProxyIsRejected() throws {
        let proxy = ["WAYBILL_APNS_PROXY": "http://proxy.example:3128"]
        _ = try self.settings(proxy)
        let error = #expect(throws: SettingsError.self) {
            _ = try self.settings(proxy.merging(["WAYBILL_APNS_URL": "https://17.188.1.1:443"]) { $1 })
        }
        #expect(error?.description.hasPrefix("WAYBILL_APNS_URL=17.188.1.1:443: cannot be verified") == true)
    }

    @Test(arguments: Self.bad.flatMap { key, values in values.map { (key, $0) } })
    func aBadValueNamesKeyAndValue(key: String, value: String) throws {
        let error = #expect(throws: SettingsError.self) { _ = try self.settings([key: value]) }
        #expect(error?.description.hasPrefix("\(key)=\(value): ") == true, "\(error?.description ?? "")")
    }

    /// With 24 an hour a notification may wait 300 s.
    @Test func aWaitLongerThanTheHoldLimitIsRefused() throws {
        #expect(try self.settings(["WAYBILL_PUSH_HOURLY_LIMIT": "24"]).0.limits.hourlyLimit == 24)
        let error = #expect(throws: SettingsError.self) { _ = try self.settings(["WAYBILL_PUSH_HOURLY_LIMIT": "23"]) }
        #expect(
            error?.description
                == "WAYBILL_PUSH_HOURLY_LIMIT=23: a notification could wait 314 s for its turn, longer than "
                + "WAYBILL_PUSH_HOLD_SECONDS=300: allow at least 24 an hour, or hold longer")
        #expect(throws: SettingsError.self) { _ = try self.settings(["WAYBILL_PUSH_HOLD_SECONDS": "119"]) }
        #expect(try self.settings(["WAYBILL_PUSH_HOLD_SECONDS": "120"]).0.limits.hold == .seconds(120))
        let window = #expect(throws: SettingsError.self) {
            _ = try self.settings([
                "WAYBILL_PUSH_HOURLY_LIMIT": "0", "WAYBILL_PUSH_HOLD_SECONDS": "10",
                "WAYBILL_PUSH_WINDOW_MILLISECONDS": "10001",
            ])
        }
        #expect(
            window?.description
                == "WAYBILL_PUSH_WINDOW_MILLISECONDS=10001: is longer than WAYBILL_PUSH_HOLD_SECONDS=10")
    }

    @Test func theInFlightLimitIsBoundedByTheNumberOfBrands() throws {
        try PusherSettings.check(inFlight: 10_000, brands: 200)
        let error = #expect(throws: SettingsError.self) { try PusherSettings.check(inFlight: 10_000, brands: 250) }
        #expect(error?.description.hasPrefix("WAYBILL_PUSH_IN_FLIGHT=10000: with 250 brands") == true)
        #expect(error?.description.hasSuffix("allow at most 8000") == true)
        #expect(throws: SettingsError.self) { try PusherSettings.check(inFlight: 100_000, brands: .max) }
    }

    @Test func theProxyPasswordIsNeverShown() throws {
        let (settings, all) = try self.settings(["WAYBILL_APNS_PROXY": "http://me:hunter%402@proxy.example:3128"])
        #expect(settings.proxy?.description == "proxy.example:3128")
        #expect(!"\(all.effective) \(settings.proxy.map { "\($0)" } ?? "")".contains("hunter"))
        #expect(
            all.effective.contains { $0.key == .apnsProxy && $0.value == "http://(redacted)@proxy.example:3128" })
        // It is not shown for any kind of invalid value either.
        for url in [
            "http://me:hunter2@proxy", "me:hunter2@proxy:1", "http://me:hunter2@x@proxy:y", "http://hunter2@proxy:3128",
            "https://me:hunter2@proxy:3128", "http://me:hunter2%zz@proxy:1",
        ] {
            let error = #expect(throws: SettingsError.self) { _ = try self.settings(["WAYBILL_APNS_PROXY": url]) }
            #expect(error?.description.contains("hunter2") == false, "\(error?.description ?? "")")
            #expect(error?.description.hasPrefix("WAYBILL_APNS_PROXY=") == true)
        }
    }
}
