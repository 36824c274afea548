import Kafka
import Model
import TestKit
import TestTraits
import Testing

@testable import Operations

@Suite struct TopicSetupTests {
    private static func run(
        _ bootstrap: String, replication: Int = 3, topics: Topics = Topics()
    ) async throws -> TopicSetup.Report {
        let admin = try KafkaAdmin(KafkaConfiguration(bootstrap: bootstrap))
        let setup = TopicSetup(topics, partitions: 5, replication: replication)
        let report: Result<TopicSetup.Report, KafkaError>
        do { report = .success(try await setup.run(admin)) } catch { report = .failure(error) }
        await admin.close()
        return try report.get()
    }

    @Test(.server, .timeLimit(.minutes(1)))
    func missingTopicsAreCreatedWithTheSettingsThatTheServicesNeed() async throws {
        let server = try await ScriptedKafka.start([:])
        let first = try await Self.run(server.bootstrap)
        #expect(first.isWell)
        #expect(
            first.text == """
                waybill.order-changes: created with 5 partitions
                waybill.dead-letters: created with 5 partitions
                waybill.orders: created with 5 partitions
                waybill.registrations: created with 5 partitions
                waybill.push-pending: created with 5 partitions

                """)
        let admin = try KafkaAdmin(KafkaConfiguration(bootstrap: server.bootstrap))
        let large = ["max.message.bytes": "4194304", "min.insync.replicas": "2"]
        let kept = ["cleanup.policy": "compact", "max.compaction.lag.ms": "86400000"]
        let settings = try await admin.settings(of: ["waybill.order-changes", "waybill.orders", "waybill.push-pending"])
        #expect(try settings["waybill.order-changes"]?.get() == large.merging(["cleanup.policy": "delete"]) { $1 })
        #expect(try settings["waybill.orders"]?.get() == large.merging(kept) { $1 })
        #expect(
            try settings["waybill.push-pending"]?.get() == kept.merging(["min.insync.replicas": "2"]) { $1 })
        let states = try await admin.partitionStates("waybill.orders")
        #expect(states.map(\.replicas) == [3, 3, 3, 3, 3])
        await admin.close()

        let second = try await Self.run(server.bootstrap)
        #expect(second.isWell)
        #expect(second.hasDeadlines)
        #expect(second.unchecked == nil)
        #expect(second.topics.allSatisfy { $0.outcome == .found(partitions: 5) }, "a second run changes nothing")
        await server.stop()
    }

    @Test(.server, .timeLimit(.minutes(1)))
    func aTopicWithOtherSettingsIsReportedAndLeftAsItIs() async throws {
        let wrong = ["cleanup.policy": "delete", "max.message.bytes": "1048588"]
        let server = try await ScriptedKafka.start(["waybill.orders": .init(settings: wrong)])
        let report = try await Self.run(server.bootstrap)
        #expect(!report.isWell)
        #expect(report.text.contains("waybill.orders: exists with 1 partitions\n"))
        #expect(report.text.contains("--entity-name waybill.orders --add-config cleanup.policy=compact"))
        #expect(report.text.contains("--add-config max.message.bytes=4194304"))
        #expect(report.faults.count == 2, "the new topics are right")
        let admin = try KafkaAdmin(KafkaConfiguration(bootstrap: server.bootstrap))
        #expect(try await admin.settings(of: ["waybill.orders"])["waybill.orders"]?.get() == wrong)
        await admin.close()
        await server.stop()
    }

    /// Source: compose/operate/privacy.md, "Settings that make a deadline"
    @Test(arguments: [
        ("waybill.order-changes", "retention.ms", "-1", "604800000"),
        ("waybill.dead-letters", "retention.ms", "9223372036854775807", "604800000"),
        ("waybill.order-changes", "segment.ms", "9223372036854775807", "86400000"),
        ("waybill.orders", "max.compaction.lag.ms", "9223372036854775807", "86400000"),
        ("waybill.registrations", "delete.retention.ms", "9223372036854775807", "86400000"),
        ("waybill.push-pending", "delete.retention.ms", "60000", "86400000"),
    ])
    func aSettingWithoutADeadlineIsNamed(topic: String, setting: String, value: String, suggestion: String) throws {
        let need = try #require(KafkaTopicNeed.installation(Topics()).first { $0.name == topic })
        let faults = need.deadlines([setting: value])
        #expect(faults.count == 1)
        #expect(faults[0].problem.hasPrefix("topic \(topic): \(setting)=\(value) "))
        #expect(faults[0].fix.hasSuffix("--entity-name \(topic) --add-config \(setting)=\(suggestion)"))
        #expect(need.deadlines([setting: suggestion]).isEmpty)
        #expect(need.deadlines([:]).isEmpty, "what is not reported is not judged")
    }

    @Test(.server, .timeLimit(.minutes(1))) func aTopicWithoutADeadlineIsReportedAndWorks() async throws {
        let endless = ["cleanup.policy": "compact", "max.compaction.lag.ms": "9223372036854775807"]
        let server = try await ScriptedKafka.start(["waybill.registrations": .init(settings: endless)])
        let report = try await Self.run(server.bootstrap)
        #expect(report.isWell)
        #expect(!report.hasDeadlines)
        #expect(report.text.contains("--entity-name waybill.registrations --add-config max.compaction.lag.ms=86400000"))
        await server.stop()
    }

    /// A batch of other programs is unpacked by a broker alone, which holds it to a size, if it is stored unpacked.
    @Test(.server, .timeLimit(.minutes(1))) func aTopicOfOthersThatTakesCompressedBatchesIsAWarning() async throws {
        let setting = ["compression.type": "producer", "max.message.bytes": "4194304"]
        let server = try await ScriptedKafka.start(
            ["waybill.order-changes": .init(settings: setting), "waybill.dead-letters": .init(settings: setting)])
        #expect(try await Self.run(server.bootstrap).warnings.isEmpty, "a topic of this command is as it should be")
        let admin = try KafkaAdmin(KafkaConfiguration(bootstrap: server.bootstrap))
        let setup = TopicSetup(Topics(), partitions: 5, replication: 3)
        let report = try await setup.run(admin, creates: false)
        #expect(report.isWell && report.hasDeadlines)
        #expect(report.warnings.count == 1, "others do not write to the topic of dead letters")
        let lines = report.text.split(separator: "\n").filter { $0.hasPrefix("warning: ") }
        #expect(lines.count == 1)
        #expect(lines[0].contains("waybill.order-changes: compression.type=producer lets a batch of 4194304 bytes"))
        #expect(lines[0].hasSuffix("--entity-name waybill.order-changes --add-config compression.type=uncompressed"))
        try server.tell(["waybill.order-changes": .init(settings: ["compression.type": "uncompressed"])])
        #expect(try await setup.run(admin, creates: false).warnings.isEmpty)
        await admin.close()
        await server.stop()
    }

    @Test(.server, .timeLimit(.minutes(1))) func settingsThatTheBrokerHidesAreNotAFault() async throws {
        let server = try await ScriptedKafka.start(["waybill.orders": .init(settings: nil)])
        let report = try await Self.run(server.bootstrap)
        #expect(report.isWell)
        #expect(report.text.contains("settings of existing topics are not checked: "))
        await server.stop()
    }

    @Test(.server, .timeLimit(.minutes(1))) func aBrokerThatCreatesTopicsOnFirstUseIsEnough() async throws {
        let broker = try KafkaBroker()
        let report = try await Self.run(broker.bootstrap)
        #expect(report.isWell)
        #expect(report.topics.count == 5)
    }

    @Test func theTopicsAreThoseOfTheInstallation() {
        let topics = Topics(prefix: "eu.", orderChanges: ["shop.changes", "^east\\..*", "erp.changes"])
        #expect(
            TopicSetup(topics, partitions: 1, replication: -1).needs.map(\.name) == [
                "shop.changes", "erp.changes", "eu.dead-letters", "eu.orders", "eu.registrations", "eu.push-pending",
            ])
        let made = KafkaTopicNeed.installation(topics).map { $0.topic(partitions: 1, replication: -1) }
        #expect(made.allSatisfy { $0.configuration["min.insync.replicas"] == nil }, "one broker cannot keep two copies")
    }

    /// A feature that is switched off needs neither a topic nor a right.
    @Test func anOptionalTopicIsNeededWhereItIsInUse() throws {
        let name = "waybill.adoption"
        func isNamed(_ topics: Topics) -> Bool {
            let roles = AccessListFormat.commands.text(
                KafkaRole.all(topics), strimzi: .init(cluster: "main", authentication: .tls))
            let isNeeded = KafkaTopicNeed.installation(topics).contains { $0.name == name }
            #expect(roles.contains("--topic \(name)\n") == isNeeded)
            return isNeeded
        }
        #expect(!isNamed(Topics()))
        #expect(isNamed(Topics(options: [.adoption])))
        #expect(try CommonSettings(Settings(environment: [:])).topics == Topics())
        let settings = try Settings(environment: ["WAYBILL_ADOPTION": "on"])
        #expect(try CommonSettings(settings).topics == Topics(options: [.adoption]))
        #expect(Topics().made.contains(name), "no topic of changes may have its name")
        let need = try #require(KafkaTopicNeed.installation(Topics(options: [.adoption])).first { $0.name == name })
        #expect(need.topic(partitions: 1, replication: 3).configuration["cleanup.policy"] == "compact")
    }
}
