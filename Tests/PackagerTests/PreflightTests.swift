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
    /// The factor of the check's time limits: other tests keep the machine busy.
    static let patience = 10

    static var servers: [CheckFault] {
        [
            CheckFault.noBroker,
            CheckFault("pictures", "127.0.0.1:1 cannot be reached", "pictures.hosts", isWarning: true) {
                let path = "brands/shop/brand.json"
                let text = String(decoding: try $0.directory.read(path), as: UTF8.self)
                let brace = text.lastIndex(of: "}") ?? text.endIndex
                try $0.write(path, text[..<brace] + ",\"pictures\":{\"hosts\":[\"127.0.0.1:1\"]}}")
            },
        ] + CheckFault.topic("waybill.orders", isCompacted: true)
            + CheckFault.topic("waybill.order-changes", isCompacted: false)
            + CheckFault.topic("waybill.registrations", isCompacted: true, isLarge: false) + [
                CheckFault(
                    "kafka", "topic waybill.order-changes: compression.type=gzip lets a batch of",
                    "compression.type=uncompressed", isWarning: true
                ) { $0.topics["waybill.order-changes"]?.settings?["compression.type"] = "gzip" }
            ]
    }

    /// Gives the role `ingest` a source.
    private static func source(_ environment: CheckedEnvironment) throws {
        try environment.write(
            "sources/shop/source.json",
            """
            {"topics": ["shop.orders", "^oms"], "format": "json", "name": "/shop",
             "orderType": "order.com.example.shop"}
            """)
        try environment.write("sources/shop/map.lua", "function map(event) end")
        environment.variables["WAYBILL_SOURCES"] = environment.directory.path("sources")
        environment.topics["shop.orders"] = environment.topics["waybill.order-changes"]
    }

    /// Faults of the role `ingest`.
    private static var sources: [CheckFault] {
        [
            CheckFault("kafka", "topic shop.orders does not exist", "create it") {
                try source($0)
                $0.topics["shop.orders"] = nil
            },
            CheckFault("kafka", "topic shop.orders is refused", "grant Read on topic shop.orders") {
                try source($0)
                $0.topics["shop.orders"]?.error = 29
            },
            CheckFault(
                "kafka", "topic shop.orders: compression.type=producer lets a batch", "compression.type=uncompressed",
                isWarning: true
            ) {
                try source($0)
                $0.topics["shop.orders"]?.settings?["compression.type"] = "producer"
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

    @Test(.server) func eachFaultOfFilesIsNamedWithItsFixWithoutANetwork() async throws {
        for fault in CheckFault.files + CheckFault.tokens {
            let world = try CheckedEnvironment()
            try await fault.cause(in: world)
            let report = await Packager.preflight(world.variables, isOffline: true, program: SourceFixture.program)
            #expect(fault.difference(from: report.json, exitCode: report.exitCode) == nil)
            #expect(report.unchecked.contains { $0.area == .kafka })
        }
    }

    @Test(.server, .timeLimit(.minutes(3)))
    func eachFaultOfServersIsNamedWithItsFix() async throws {
        let redis = try await RedisServer.startAlone(["--maxmemory", "100mb"])
        let kafka = try await ScriptedKafka.start([:])
        for fault in Self.servers + CheckFault.redis(redis) {
            let world = try CheckedEnvironment(kafka: kafka.bootstrap, redis: redis.url)
            try await CheckFault.reset(redis)
            try await fault.cause(in: world)
            try kafka.tell(world.topics)
            let report = await Packager.preflight(
                world.variables, isOffline: false, patience: Self.patience, program: SourceFixture.program)
            #expect(fault.difference(from: report.json, exitCode: report.exitCode) == nil)
        }
        await kafka.stop()
        await redis.stop()
    }

    @Test(.server, .timeLimit(.minutes(1)))
    func eachFaultOfServersOfIngestIsNamedWithItsFix() async throws {
        let redis = try await RedisServer.startAlone(["--maxmemory", "100mb"])
        let kafka = try await ScriptedKafka.start([:])
        for fault in Self.sources {
            let world = try CheckedEnvironment(kafka: kafka.bootstrap, redis: redis.url)
            try await fault.cause(in: world)
            try kafka.tell(world.topics)
            let report = await Ingest.preflight(
                world.variables, isOffline: false, patience: Self.patience, program: SourceFixture.program)
            #expect(fault.difference(from: report.json, exitCode: report.exitCode) == nil)
        }
        await kafka.stop()
        await redis.stop()
    }

    /// API key 10 is FindCoordinator, and 30 the refusal of a group.
    @Test(.server, .timeLimit(.minutes(1))) func aRefusedGroupOfIngestIsNamedWithItsFix() async throws {
        let redis = try await RedisServer.startAlone(["--maxmemory", "100mb"])
        let broker = try KafkaBroker(
            topics: ["shop.orders", "waybill.order-changes", "waybill.dead-letters"].map { .init($0, partitions: 1) })
        try broker.fail(apiKey: 10, with: Array(repeating: 30, count: 200))
        let world = try CheckedEnvironment(kafka: broker.bootstrap, redis: redis.url)
        let fault = CheckFault("kafka", "group waybill-ingest is refused", "grant Read on group waybill-ingest") {
            try Self.source($0)
        }
        try await fault.cause(in: world)
        let report = await Ingest.preflight(
            world.variables, isOffline: false, patience: Self.patience, program: SourceFixture.program)
        #expect(fault.difference(from: report.json, exitCode: report.exitCode) == nil)
        await redis.stop()
    }

    @Test(.server) func allFaultsOfAllSourcesAreNamedWithoutANetwork() async throws {
        let world = try CheckedEnvironment()
        let fixture = try SourceFixture()
        world.variables["WAYBILL_SOURCES"] = fixture.path
        func faults() async -> [(area: String, text: String, fix: String)] {
            self.findings(
                await Packager.preflight(world.variables, isOffline: true, program: SourceFixture.program), "faults")
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

    @Test(.server, .timeLimit(.minutes(1)))
    func aGoodEnvironmentPassesAndOneWithFiveFaultsNamesAll() async throws {
        let redis = try await RedisServer.startAlone(["--maxmemory", "100mb"])
        let kafka = try await ScriptedKafka.start([:])
        let world = try CheckedEnvironment(kafka: kafka.bootstrap, redis: redis.url)
        try kafka.tell(world.topics)
        let report = await Packager.preflight(
            world.variables, isOffline: false, patience: Self.patience, program: SourceFixture.program)
        #expect(report.faults.isEmpty, "\(report.text)")
        #expect(report.exitCode == 0)
        #expect(report.checked.map(\.rawValue).contains("kafka"))

        world.variables["WAYBILL_LOG_LEVEL"] = "loud"
        world.variables["WAYBILL_SHUTDOWN_SECONDS"] = "0"
        world.variables["WAYBILL_WEB_SERVICE_URL"] = nil
        world.topics["waybill.orders"] = nil
        try kafka.tell(world.topics)
        try world.write("brands/shop/key.pem", "nonsense")
        let five = await Packager.preflight(
            world.variables, isOffline: false, patience: Self.patience, program: SourceFixture.program)
        #expect(self.findings(five, "faults").count == 5, "\(five.text)")
        #expect(self.findings(five, "faults").allSatisfy { !$0.fix.isEmpty })
        #expect(five.exitCode == 78)
        await kafka.stop()
        await redis.stop()
    }

    @Test func theTableOfRightsHasWhatIngestChecks() {
        let topics = Topics()
        let role = KafkaRole.ingest(topics, sources: ["shop.orders"])
        let needs = Ingest.needs(topics, ["shop.orders"])
        #expect(needs.filter(\.isRead).map(\.name) == role.reads)
        #expect(needs.filter(\.isWritten).map(\.name) == role.writes)
        #expect(role.groups == [topics.group(of: Ingest.group)])
    }

    @Test func theTopicsOfWebhooksAreThoseOfMerchants() throws {
        let directory = try TemporaryDirectory("merchants")
        for (name, webhooks) in [("b", #"{"x": {"topic": "stripe"}}"#), ("a", #"{"y": {"topic": "shop"}, "z": {}}"#)] {
            try FileManager.default.createDirectory(atPath: directory.path(name), withIntermediateDirectories: true)
            try directory.write("\(name)/merchant.json", #"{"webhooks": \#(webhooks)}"#)
        }
        try directory.write("README", "text")
        let path = directory.path("")
        #expect(try AccessListsCommand.webhookTopics(path) == ["shop", "stripe"])
        try directory.write("a/merchant.json", "{")
        #expect(throws: SettingsError.self) { try AccessListsCommand.webhookTopics(path) }
        #expect(throws: SettingsError.self) { try AccessListsCommand.webhookTopics("\(path)/none") }
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
