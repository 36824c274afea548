import Foundation
import Kafka
import Logging
import Model
import TestKit
import Testing

@testable import Operations

@Suite struct SettingsTests {
    /// Returns settings with this file and environment.
    func settings(_ environment: [String: String] = [:], file: String) throws -> Settings {
        let directory = try TemporaryDirectory("settings")
        let path = try directory.write("waybill.json", file)
        return try Settings(environment: environment.merging(["WAYBILL_CONFIG": path]) { $1 })
    }

    @Test func theEnvironmentWinsOverTheFileAndTheFileOverTheDefault() throws {
        let settings = try settings(
            ["WAYBILL_TOPIC_PREFIX": "env."],
            file: #"{"WAYBILL_TOPIC_PREFIX": "file.", "WAYBILL_BRANDS": "/srv/brands", "WAYBILL_SHUTDOWN_SECONDS": 7}"#)
        let common = try CommonSettings(settings)
        #expect(common.topics == Topics(prefix: "env."))
        #expect(common.brands == "/srv/brands")
        #expect(common.shutdownLimit == .seconds(7))
        #expect(common.kafka.bootstrap == "127.0.0.1:9092")
        #expect(common.operationsListen == ListenAddress(host: "127.0.0.1", port: 9470))
        #expect(common.logLevel == .info)
        #expect(common.logFormat == .json)
    }

    @Test(arguments: [
        ("waybill.", "waybill-packager", "waybill-packager-0"), ("a.", "a.waybill-packager", "a.waybill-packager-0"),
        ("waybill-", "waybill-waybill-packager", "waybill-waybill-packager-0"),
    ])
    func groupsAndMembersCarryThePrefixOfTheTopics(prefix: String, group: String, member: String) throws {
        let common = try CommonSettings(
            Settings(environment: ["WAYBILL_TOPIC_PREFIX": prefix, "WAYBILL_GROUP_INSTANCE": "0"]))
        #expect(common.topics.group(of: "waybill-packager") == group)
        #expect(common.instance(of: group) == member)
    }

    @Test func changesMayComeFromSeveralTopics() throws {
        func topics(_ text: String?) throws -> Topics {
            try CommonSettings(
                Settings(environment: text.map { ["WAYBILL_ORDER_CHANGE_TOPICS": $0] } ?? [:])
            ).topics
        }
        #expect(try topics(nil) == Topics())
        #expect(try topics(nil).orderChangeSources == ["waybill.order-changes"])
        let several = try topics("orders.changed, ^[a-z]+\\.orders\\.changed$")
        #expect(several.orderChanges == "orders.changed")
        #expect(several.orderChangeSources == ["orders.changed", "^[a-z]+\\.orders\\.changed$"])
    }

    @Test(arguments: [
        ("^.*order-changes", "at least one name"), ("a,a", "each once"), ("a,,b", "not a topic name"),
        ("a b", "not a topic name"), ("waybill.orders", "what Waybill makes"), ("a,^(", "not a regular expression"),
        ("a,^waybill\\..*", "matches waybill.orders"), ("a,^.*push", "matches waybill.push-pending"),
    ])
    func topicsOfChangesThatCannotBeAreRefused(_ text: String, _ problem: String) {
        let error = #expect(throws: SettingsError.self) {
            _ = try CommonSettings(Settings(environment: ["WAYBILL_ORDER_CHANGE_TOPICS": text]))
        }
        #expect(error?.description.contains(problem) == true, "\(error?.description ?? "")")
    }

    @Test func aMistypedVariableIsReportedWithASuggestion() {
        let found = UnknownVariable.all(in: [
            "WAYBILL_LOG_LEVL": "debug", "WAYBILL_SOMETHING_ELSE_ALTOGETHER": "1", "WAYBILL_CONFIG": "", "HOME": "/",
            "WAYBILL_BRANDS": "b", "WAYBILL_GATEWAY_SERVICE_HOST": "10.0.0.1", "WAYBILL_GATEWAY_PORT_80_TCP_ADDR": "",
        ])
        #expect(
            found.map(\.description) == [
                "WAYBILL_LOG_LEVL is not a known key and is ignored: did you mean WAYBILL_LOG_LEVEL?",
                "WAYBILL_SOMETHING_ELSE_ALTOGETHER is not a known key and is ignored",
            ])
    }

    @Test func anEmptyVariableIsAbsentAndDoesNotHideTheFile() throws {
        let settings = try settings(["WAYBILL_BRANDS": ""], file: #"{"WAYBILL_BRANDS": "/srv/brands"}"#)
        #expect(settings.text(.brands) == "/srv/brands")
        #expect(try Settings(environment: ["WAYBILL_BRANDS": "", "WAYBILL_CONFIG": ""]).text(.brands) == nil)
        #expect(try self.settings(file: #"{"WAYBILL_BRANDS": ""}"#).text(.brands, default: "d") == "d")
    }

    @Test(arguments: [
        (#"{"WAYBILL_BRAND": "x"}"#, "WAYBILL_BRAND"), (#"{"waybill_brands": "x"}"#, "waybill_brands"),
        (#"{"WAYBILL_BRANDS": true}"#, "a string or a number"), (#"{"WAYBILL_BRANDS": null}"#, "a string or a number"),
        (#"{"WAYBILL_BRANDS": ["x"]}"#, "a string or a number"), (#"{"WAYBILL_BRANDS": {}}"#, "a string or a number"),
        (#"["WAYBILL_BRANDS"]"#, "an object"), (#""x""#, "object"), ("WAYBILL_BRANDS=x", "JSON"), ("", "JSON"),
        (#"{"WAYBILL_BRANDS": "a", "WAYBILL_BRANDS": "b"}"#, "JSON"), (#"{"WAYBILL_BRANDS": "x"#, "JSON"),
    ])
    func anInvalidSettingsFileStopsTheStart(file: String, said: String) throws {
        let error = #expect(throws: SettingsError.self) { _ = try self.settings(file: file) }
        #expect(error?.description.contains("waybill.json") == true)
        #expect(error?.description.contains(said) == true || said == "an object", "\(error?.description ?? "")")
    }

    @Test func aMissingFileStopsTheStart() throws {
        let error = #expect(throws: SettingsError.self) {
            _ = try Settings(environment: ["WAYBILL_CONFIG": "/nowhere/waybill.json"])
        }
        #expect(error?.description.contains("/nowhere/waybill.json") == true)
    }

    @Test(arguments: [
        ("WAYBILL_SHUTDOWN_SECONDS", "0"), ("WAYBILL_SHUTDOWN_SECONDS", "601"), ("WAYBILL_SHUTDOWN_SECONDS", "soon"),
        ("WAYBILL_SHUTDOWN_SECONDS", "1.5"), ("WAYBILL_SHUTDOWN_SECONDS", "99999999999999999999"),
        ("WAYBILL_LOG_LEVEL", "loud"), ("WAYBILL_LOG_FORMAT", "xml"), ("WAYBILL_OPERATIONS_LISTEN", "9090"),
        ("WAYBILL_TOPIC_PREFIX", "way bill"), ("WAYBILL_TOPIC_PREFIX", String(repeating: "x", count: 201)),
        ("WAYBILL_KAFKA_PROPERTIES", "/nowhere/kafka.properties"), ("WAYBILL_REDIS_PASSWORD_FILE", "/nowhere/password"),
    ])
    func aBadValueNamesKeyAndValue(key: String, value: String) throws {
        let error = #expect(throws: SettingsError.self) {
            _ = try CommonSettings(Settings(environment: [key: value]))
        }
        #expect(error?.description.hasPrefix("\(key)=\(value): ") == true, "\(error?.description ?? "")")
    }

    @Test func requiredKeysAreNamedWithTheirMeaning() throws {
        let settings = try Settings(environment: [:])
        let error = #expect(throws: SettingsError.self) { _ = try settings.webServiceURL() }
        #expect(error?.description == "WAYBILL_WEB_SERVICE_URL: is required: https://… as Wallet will call the gateway")
        for url in ["http://a.example", "https://", "https://a example"] {
            let error = #expect(throws: SettingsError.self) {
                _ = try Settings(environment: ["WAYBILL_WEB_SERVICE_URL": url]).webServiceURL()
            }
            #expect(error?.description.contains(url) == true)
        }
    }

    @Test func secretsAreNeverShown() throws {
        let environment = ["WAYBILL_REDIS_URL": "redis://:hunter2@127.0.0.1:1/0", "WAYBILL_BRANDS": "b"]
        let settings = try Settings(environment: environment)
        _ = try CommonSettings(settings)
        #expect(!"\(settings.effective)".contains("hunter2"))
        #expect(settings.effective.contains { $0.key == .redisURL && $0.value == "(redacted)" })
        #expect(settings.effective.contains { $0.key == .brands && $0.value == "b" })
        #expect(settings.effective.contains { $0.key == .kafkaProperties && $0.value == "(none)" })
        #expect(Set(settings.effective.map(\.key)).count == settings.effective.count)
        let error = #expect(throws: SettingsError.self) {
            _ = try CommonSettings(Settings(environment: ["WAYBILL_REDIS_URL": "http://:hunter2@x"]))
        }
        #expect(error?.description.contains("hunter2") == false)
    }

    @Test func thePasswordFileGivesItsFirstLine() throws {
        let directory = try TemporaryDirectory("settings")
        let environment = ["WAYBILL_REDIS_PASSWORD_FILE": try directory.write("password", "hunter2\r\nrest\n")]
        let settings = try Settings(environment: environment)
        _ = try settings.redis()
        #expect(!"\(settings.effective)".contains("hunter2"))
        let empty = try Settings(environment: ["WAYBILL_REDIS_PASSWORD_FILE": try directory.write("empty", "\n")])
        #expect(throws: SettingsError.self) { _ = try empty.redis() }
        let large = try directory.write("large", String(repeating: "x", count: 5000))
        #expect(throws: SettingsError.self) {
            _ = try Settings(environment: ["WAYBILL_REDIS_PASSWORD_FILE": large]).redis()
        }
    }

    @Test func aWorldReadableSecretCausesAWarning() throws {
        let directory = try TemporaryDirectory("settings")
        let path = try directory.write("password", "hunter2\n")
        for (mode, isSafe) in [(0o600, true), (0o640, true), (0o644, false), (0o604, false)] {
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
            let settings = try Settings(environment: ["WAYBILL_REDIS_PASSWORD_FILE": path])
            _ = try settings.redis()
            #expect(settings.warnings.isEmpty == isSafe, "\(String(mode, radix: 8))")
            #expect(settings.warnings.allSatisfy { $0.hasPrefix("\(path): ") && !$0.contains("hunter2") })
        }
    }

    @Test func loopbackAddressesAreKnown() {
        for host in ["127.0.0.1", "127.0.0.53", "localhost", "::1"] {
            #expect(ListenAddress(host: host, port: 1).isLoopback, "\(host)")
        }
        for host in ["0.0.0.0", "::", "10.0.0.1", "wallet.example"] {
            #expect(!ListenAddress(host: host, port: 1).isLoopback, "\(host)")
        }
    }

    @Test func listenAddressesAreHostAndPort() {
        #expect(ListenAddress("127.0.0.1:8080") == ListenAddress(host: "127.0.0.1", port: 8080))
        #expect(ListenAddress("[::1]:0") == ListenAddress(host: "::1", port: 0))
        #expect(ListenAddress("localhost:65535")?.description == "localhost:65535")
        #expect(ListenAddress("[::1]:80")?.description == "[::1]:80")
        for text in [
            "", ":", "80", ":80", "a:", "a:65536", "a:-1", "a:x", "::1:80", "[::1:80", "[]:80", "a:80:", "a: 80",
        ] {
            #expect(ListenAddress(text) == nil, "\(text)")
        }
    }
}
