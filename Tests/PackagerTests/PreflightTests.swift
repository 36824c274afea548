import Foundation
import Kafka
import Model
import NIOPosix
import Redis
import TestKit
import TestTraits
import Testing

@testable import Operations
@testable import Packager

/// The check before a start, in environments of which each has a fault.
@Suite struct PreflightTests {
    /// An environment without a fault, and what a case changes in it.
    final class World {
        let brand: RenewedBrand
        var variables: [String: String]
        var topics: [String: ScriptedKafka.Topic]

        init(kafka: String = "127.0.0.1:1", redis: String = "redis://127.0.0.1:1") throws {
            self.brand = try RenewedBrand()
            let secrets = try self.brand.directory.write("token-secrets", "b7c1d0a9e4f23586b7c1d0a9e4f23586\n")
            self.variables = [
                "WAYBILL_BRANDS": self.brand.brands, "WAYBILL_TOKEN_SECRETS": secrets,
                "WAYBILL_WEB_SERVICE_URL": BrandFixture.webServiceURL, "WAYBILL_KAFKA_BOOTSTRAP": kafka,
                "WAYBILL_REDIS_URL": redis,
            ]
            let common = ["min.insync.replicas": "2", "max.message.bytes": "4194304"]
            let (kept, deleted) = (["cleanup.policy": "compact"], ["cleanup.policy": "delete"])
            let topics = Topics()
            self.topics = [
                topics.orders: .init(settings: common.merging(kept) { $1 }),
                topics.registrations: .init(settings: common.merging(kept) { $1 }),
                topics.orderChanges: .init(settings: common.merging(deleted) { $1 }),
                topics.deadLetters: .init(settings: common.merging(deleted) { $1 }),
            ]
            for path in BrandFiles.keys(of: self.brand) + [secrets] { try Self.permit(path, 0o600) }
        }

        static func permit(_ path: String, _ rights: Int) throws {
            try FileManager.default.setAttributes([.posixPermissions: rights], ofItemAtPath: path)
        }

        func write(_ name: String, _ text: String) throws -> String { try self.brand.directory.write(name, text) }
    }

    /// One fault.
    struct Case {
        let area: String
        /// A part of its text, and a part of its fix.
        let text: String
        let fix: String
        var isWarning = false
        let change: (World) throws -> Void

        init(
            _ area: String, _ text: String, _ fix: String, isWarning: Bool = false,
            _ change: @escaping (World) throws -> Void
        ) {
            self.area = area
            self.text = text
            self.fix = fix
            self.isWarning = isWarning
            self.change = change
        }
    }

    private static func set(_ key: String, _ value: String?) -> (World) throws -> Void {
        { $0.variables["WAYBILL_\(key)"] = value }
    }

    static var files: [Case] {
        [
            Case(
                "configuration", "WEB_SERVICE_URL: is required", "WEB_SERVICE_URL", set("WEB_SERVICE_URL", nil)),
            Case(
                "configuration", "must start with https", "WEB_SERVICE_URL", set("WEB_SERVICE_URL", "http://a")),
            Case("configuration", "TOKEN_SECRETS: is required", "TOKEN_SECRETS", set("TOKEN_SECRETS", nil)),
            Case("configuration", "cannot read the file", "TOKEN_SECRETS", set("TOKEN_SECRETS", "/nowhere/secrets")),
            Case("configuration", "at least 16 bytes", "TOKEN_SECRETS") {
                $0.variables["WAYBILL_TOKEN_SECRETS"] = try $0.write("short", "short\n")
            },
            Case("secrets", "every user of this machine can read", "chmod o-r") {
                try World.permit($0.variables["WAYBILL_TOKEN_SECRETS"] ?? "", 0o644)
            },
            Case("configuration", "can be guessed", "correct it", isWarning: true) {
                $0.variables["WAYBILL_TOKEN_SECRETS"] = try $0.write("weak", "passwordpassword\n")
                try World.permit($0.brand.directory.path("weak"), 0o600)
            },
            Case("brands", "there is no brand", "WAYBILL_BRANDS", set("BRANDS", "/nowhere/brands")),
            Case("brands", "brand.json", "correct the file in") {
                try $0.brand.directory.write("brands/shop/brand.json", "{")
            },
            Case("brands", "certificate", "correct the file in") {
                try $0.brand.directory.write("brands/shop/certificate.pem", "nonsense")
            },
            Case("configuration", "must be a whole number", "SHUTDOWN_SECONDS", set("SHUTDOWN_SECONDS", "soon")),
            Case("configuration", "must be one of", "LOG_LEVEL", set("LOG_LEVEL", "loud")),
            Case("configuration", "must be host:port", "OPERATIONS_LISTEN", set("OPERATIONS_LISTEN", "9090")),
            Case("configuration", "letters, digits", "GROUP_INSTANCE", set("GROUP_INSTANCE", "a b")),
            Case(
                "configuration", "has what Waybill makes", "ORDER_CHANGE_TOPICS",
                set("ORDER_CHANGE_TOPICS", "x,^waybill")),
            Case("configuration", "no.such.property", "KAFKA_PROPERTIES") {
                $0.variables["WAYBILL_KAFKA_PROPERTIES"] = try $0.write("kafka.properties", "no.such.property=1\n")
            },
            Case("configuration", "Redis URL", "REDIS_URL", set("REDIS_URL", "http://localhost")),
            Case("configuration", "unknown key", "correct the file") {
                $0.variables["WAYBILL_CONFIG"] = try $0.write("waybill.json", "{\"WAYBILL_BRAND\": \"x\"}")
            },
            Case("configuration", "did you mean WAYBILL_BRANDS", "remove", isWarning: true, set("BRAND", "x")),
        ]
    }

    private static func topic(
        _ name: String, _ change: @escaping (inout ScriptedKafka.Topic) -> Void
    ) -> (World) throws -> Void {
        { world in
            guard var topic = world.topics[name] else { return }
            change(&topic)
            world.topics[name] = topic
        }
    }

    static var servers: [Case] {
        [
            Case("kafka", "no broker answers at 127.0.0.1:1", "start Kafka", set("KAFKA_BOOTSTRAP", "127.0.0.1:1")),
            Case("kafka", "waybill.dead-letters does not exist", "create it") {
                $0.topics["waybill.dead-letters"] = nil
            },
            Case("kafka", "waybill.orders is refused", "grant", topic("waybill.orders") { $0.error = 29 }),
            Case(
                "kafka", "waybill.orders: cleanup.policy=delete", "cleanup.policy=compact",
                topic("waybill.orders") { $0.settings?["cleanup.policy"] = "delete" }),
            Case(
                "kafka", "waybill.order-changes: cleanup.policy=compact", "cleanup.policy=delete",
                topic("waybill.order-changes") { $0.settings?["cleanup.policy"] = "compact" }),
            Case(
                "kafka", "unclean.leader.election.enable=true", "unclean.leader.election.enable=false",
                topic("waybill.orders") { $0.settings?["unclean.leader.election.enable"] = "true" }),
            Case(
                "kafka", "min.insync.replicas=2, but 1 of 1", "add replicas",
                topic("waybill.orders") { $0.partitions = [(1, 1)] }),
            Case(
                "kafka", "fewer replicas in sync", "bring the brokers back",
                topic("waybill.registrations") { $0.partitions = [(3, 1)] }),
            Case(
                "kafka", "max.message.bytes=1048588", "max.message.bytes=4194304", isWarning: true,
                topic("waybill.orders") { $0.settings?["max.message.bytes"] = "1048588" }),
            Case(
                "kafka", "settings of waybill.orders are not checked", "DescribeConfigs", isWarning: true,
                topic("waybill.orders") { $0.settings = nil }),
            Case("redis", "127.0.0.1:1", "start Redis", set("REDIS_URL", "redis://127.0.0.1:1")),
            Case("redis", "WRONGPASS", "the password") {
                let url = $0.variables["WAYBILL_REDIS_URL"] ?? ""
                $0.variables["WAYBILL_REDIS_URL"] = url.replacing("redis://", with: "redis://no:pass@")
            },
            Case("pictures", "127.0.0.1:1 cannot be reached", "pictures.hosts", isWarning: true) {
                let path = "brands/shop/brand.json"
                let text = String(decoding: try $0.brand.directory.read(path), as: UTF8.self)
                let brace = text.lastIndex(of: "}") ?? text.endIndex
                try $0.brand.directory.write(path, text[..<brace] + ",\"pictures\":{\"hosts\":[\"127.0.0.1:1\"]}}")
            },
        ]
    }

    /// Returns the findings of a report, as its JSON has them.
    private func findings(_ report: PreflightReport, _ severity: String) -> [(area: String, text: String, fix: String)]
    {
        (report.json.object?[severity]?.array ?? []).map { finding in
            func member(_ name: String) -> String { finding.object?[name]?.string ?? "" }
            return (member("area"), member("text"), member("fix"))
        }
    }

    private func expect(_ fault: Case, in report: PreflightReport) {
        let found = self.findings(report, fault.isWarning ? "warnings" : "faults")
        #expect(
            found.contains { $0.area == fault.area && $0.text.contains(fault.text) && $0.fix.contains(fault.fix) },
            "\(fault.text) in \(report.text)")
        let faults = self.findings(report, "faults").count
        #expect(faults == (fault.isWarning ? 0 : 1), "\(fault.text) alone in \(report.text)")
        let isConfiguration = ["configuration", "brands"].contains(fault.area)
        #expect(report.exitCode == (fault.isWarning ? 0 : isConfiguration ? 78 : 1), "\(fault.text)")
    }

    @Test(.server) func eachFaultOfFilesIsNamedWithItsFixWithoutANetwork() async throws {
        for fault in Self.files {
            let world = try World()
            try fault.change(world)
            let began = ContinuousClock.now
            let report = await Packager.preflight(world.variables, isOffline: true)
            #expect(.now - began < .seconds(5), "a busy machine")
            self.expect(fault, in: report)
            #expect(report.unchecked.contains { $0.area == .kafka })
        }
    }

    @Test(.server, .timeLimit(.minutes(3)))
    func eachFaultOfServersIsNamedWithItsFix() async throws {
        let redis = try await RedisServer.start(["--maxmemory", "100mb"])
        let kafka = try await ScriptedKafka.start([:])
        for fault in Self.servers {
            let world = try World(kafka: kafka.bootstrap, redis: redis.url)
            try fault.change(world)
            try kafka.tell(world.topics)
            self.expect(fault, in: await Packager.preflight(world.variables, isOffline: false))
        }
        await kafka.stop()
        await redis.stop()
    }

    @Test(.server) func allFaultsOfAllSourcesAreNamedWithoutANetwork() async throws {
        let world = try World()
        let fixture = try SourceFixture()
        world.variables["WAYBILL_SOURCES"] = fixture.path
        func faults() async -> [(area: String, text: String, fix: String)] {
            self.findings(await Packager.preflight(world.variables, isOffline: true), "faults")
        }
        let none = await faults()
        #expect(none.map(\.area) == ["sources"])
        #expect(none.first?.fix.contains("WAYBILL_SOURCES") == true)
        let program = "function map(e) end"
        try fixture.write("a", topics: ["events"], extra: #""start": "yesterday""#, "function map(")
        try fixture.write("b", topics: ["events"], program)
        try fixture.write("c", topics: ["events", "^waybill"], "function map(e) return evnt end")
        let found = await faults()
        let expected = [
            ("a: source.json: $.start", "/a"), ("a: map.lua:1:", "/a"),
            ("c: source.json: $.topics: source b reads events already", "/c/source.json"),
            ("c: source.json: $.topics: waybill.", "/c/source.json"),
            ("c: map.lua:1: there is no global evnt", "/c/map.lua"),
        ]
        #expect(found.count == expected.count, "\(found)")
        for (fault, expected) in zip(found, expected) {
            #expect(fault.area == "sources" && fault.text.hasPrefix(expected.0), "\(fault)")
            #expect(fault.fix.hasSuffix(expected.1), "\(fault)")
        }
        for name in ["a", "c"] { try fixture.write(name, topics: [name], program) }
        #expect(await faults().isEmpty)
    }

    @Test(.server, .timeLimit(.minutes(2)))
    func aRedisThatEvictsOrRefusesScriptsIsFound() async throws {
        let redis = try await RedisServer.start(["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"])
        let kafka = try await ScriptedKafka.start([:])
        let world = try World(kafka: kafka.bootstrap, redis: redis.url)
        try kafka.tell(world.topics)
        let evicting = await Packager.preflight(world.variables, isOffline: false)
        #expect(self.findings(evicting, "faults").map(\.area) == ["redis"])
        #expect(self.findings(evicting, "faults").first?.fix.contains("noeviction") == true)
        let client = RedisClient(
            try RedisConfiguration(url: redis.url), eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        _ = try await client.send(RedisCommand("CONFIG", "SET", "maxmemory-policy", "noeviction"))
        _ = try await client.send(RedisCommand("ACL", "SETUSER", "weak", "on", ">pass", "~*", "+@all", "-eval"))
        await client.close()
        world.variables["WAYBILL_REDIS_URL"] = redis.url.replacing("redis://", with: "redis://weak:pass@")
        let refused = await Packager.preflight(world.variables, isOffline: false)
        #expect(self.findings(refused, "faults").map(\.fix) == ["allow the user +eval +evalsha +script|load"])
        await kafka.stop()
        await redis.stop()
    }

    @Test(.server, .timeLimit(.minutes(1)))
    func aGoodEnvironmentPassesAndOneWithFiveFaultsNamesAll() async throws {
        let redis = try await RedisServer.start(["--maxmemory", "100mb"])
        let kafka = try await ScriptedKafka.start([:])
        let world = try World(kafka: kafka.bootstrap, redis: redis.url)
        try kafka.tell(world.topics)
        let began = ContinuousClock.now
        let report = await Packager.preflight(world.variables, isOffline: false)
        #expect(.now - began < .seconds(15), "a busy machine")
        #expect(report.faults.isEmpty, "\(report.text)")
        #expect(report.exitCode == 0)
        #expect(report.checked.map(\.rawValue).contains("kafka"))

        world.variables["WAYBILL_LOG_LEVEL"] = "loud"
        world.variables["WAYBILL_SHUTDOWN_SECONDS"] = "0"
        world.variables["WAYBILL_WEB_SERVICE_URL"] = nil
        world.topics["waybill.orders"] = nil
        try kafka.tell(world.topics)
        try world.brand.directory.write("brands/shop/key.pem", "nonsense")
        try World.permit(world.brand.directory.path("brands/shop/key.pem"), 0o600)
        let five = await Packager.preflight(world.variables, isOffline: false)
        #expect(self.findings(five, "faults").count == 5, "\(five.text)")
        #expect(self.findings(five, "faults").allSatisfy { !$0.fix.isEmpty })
        #expect(five.exitCode == 78)
        await kafka.stop()
        await redis.stop()
    }

    @Test func theTableOfRightsHasWhatTheServiceChecks() {
        let topics = Topics()
        let role = KafkaRole.packager(topics)
        for need in Packager.needs(topics) {
            #expect(role.reads.contains(need.name) == need.isRead, "\(need.name)")
            #expect(role.writes.contains(need.name) == need.isWritten, "\(need.name)")
        }
        #expect(role.groups == [topics.group(of: Packager.group)])
    }
}

/// The files of a brand that have secrets.
private enum BrandFiles {
    static func keys(of brand: RenewedBrand) -> [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: brand.path)) ?? []
        return names.filter { $0.hasSuffix(".pem") || $0.hasSuffix(".p8") }.map { "\(brand.path)/\($0)" }
    }
}
