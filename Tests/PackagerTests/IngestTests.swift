import Kafka
import Logging
import Model
import NIOPosix
import Operations
import ServiceLifecycle
import TestKit
import TestTraits
import Testing

@testable import Packager

/// The role as it is built for production, on a broker.
@Suite(.server) struct IngestTests {
    private static let program = """
        function map(e)
            if e.skip then return end
            return {{order = e.order, data = {orderNumber = e.number}}}
        end
        """

    @Test(.timeLimit(.minutes(2)))
    func recordsBecomeChangesInSequenceAndAreCommitted() async throws {
        let fixture = try SourceFixture()
        try fixture.write("orders", topics: ["shop.orders"], Self.program)
        try fixture.write("bad", topics: ["^shop[.]bad"], "function map(e) while true do end end")
        try await Self.run(fixture, topics: ["shop.orders", "shop.bad"]) { role in
            let messages = (0..<300).map { number in
                let order = number % 20
                let skip = number % 7 == 0
                return KafkaMessage(
                    topic: "shop.orders", key: number % 3 == 0 ? nil : Array("o\(order)".utf8),
                    value: Array(#"{"order": "o\#(order)", "number": "\#(number)", "skip": \#(skip)}"#.utf8))
            }
            try await role.produce(messages)
            let bad = Array("{}".utf8)
            try await role.produce([KafkaMessage(topic: "shop.bad", key: Array("k".utf8), value: bad)])
            try await role.untilNothingIsLeft(["shop.orders", "shop.bad"])

            let mapped = messages.count - messages.indices.count { $0 % 7 == 0 }
            let changes = try await role.broker.records(mapped, of: role.topics.orderChanges)
            #expect(changes.count == mapped)
            #expect(try await role.count(role.topics.orderChanges) == Int64(mapped))
            // Those of one key are in the sequence of their topic.
            var last: [String: Int] = [:]
            for change in changes {
                let event = try #require(try JSON(parsing: change.value ?? []).object)
                let number = try #require(Int(event["data"]?.object?["orderNumber"]?.string ?? ""))
                guard number % 3 != 0 else { continue }
                #expect(number > last[change.keyText, default: -1])
                last[change.keyText] = number
            }
            let letters = try await role.broker.records(1, of: role.topics.deadLetters)
            #expect(letters[0].header(DeadLetterHeader.error) == "map-limit")
            #expect(letters[0].header(DeadLetterHeader.origin) == "shop.bad/0/0")
            #expect(letters[0].value == bad)
            #expect(letters[0].keyText == "k")
            #expect(role.metrics.contains(#"waybill_ingest_records_total{source="bad",outcome="refused"} 1"#))
            let all = #"waybill_ingest_records_total{source="orders",outcome="mapped"} \#(mapped)"#
            #expect(role.metrics.contains(all))
        }
    }

    @Test(.timeLimit(.minutes(2)))
    func aMendedProgramAndAReplayLeaveNoOpenDeadLetter() async throws {
        let fixture = try SourceFixture()
        try fixture.write("orders", topics: ["shop.orders"], "function map(e) return e.missing.member end")
        try await Self.run(fixture, topics: ["shop.orders"]) { role in
            let value = Array(#"{"order": "o1", "number": "1"}"#.utf8)
            try await role.produce([
                KafkaMessage(topic: "shop.orders", key: nil, value: value, timestampMilliseconds: 1_767_225_600_123)
            ])
            let letters = try await role.broker.records(1, of: role.topics.deadLetters)
            let letter = try #require(
                { if case .letter(let letter) = DeadLetterRecord.read(letters[0]) { letter } else { nil } }())
            let record = try #require(letter.sourceRecord)
            #expect(record.topic == "shop.orders")
            #expect(record.timestampMilliseconds == 1_767_225_600_123)
            let table = SourceTable([try fixture.load("orders")])
            await #expect(throws: ChangeFault.self) {
                try await SourceMapping.replay(record, table, topic: role.topics.orderChanges).get()
            }
            await #expect(throws: ChangeFault.self) {
                try await SourceMapping.replay(record, nil, topic: role.topics.orderChanges).get()
            }
            try fixture.write("orders", topics: ["shop.orders"], Self.program)
            let mended = SourceTable([try fixture.load("orders")])
            let messages = try await SourceMapping.replay(record, mended, topic: role.topics.orderChanges).get()
            #expect(messages.map(\.topic) == [role.topics.orderChanges])
            let event = try #require(try JSON(parsing: messages[0].value ?? []).object)
            #expect(event["time"] == "2026-01-01T00:00:00.123Z")
            #expect(event["id"]?.string?.hasSuffix("shop.orders/\(record.partition)/0/1") == true)
        }
    }

    /// The running role.
    private struct Role: Sendable {
        let broker: KafkaBroker
        let admin: KafkaAdmin
        let topics = Topics()
        let environment: ServiceEnvironment

        var metrics: String { self.environment.metrics.text }

        func produce(_ messages: [KafkaMessage]) async throws {
            let producer = try KafkaProducer(KafkaConfiguration(bootstrap: self.broker.bootstrap))
            for outcome in await producer.produce(messages) { _ = try outcome.get() }
            await producer.close()
        }

        func count(_ topic: String) async throws -> Int64 { try await self.admin.endOffsets(topic).values.reduce(0, +) }

        func untilNothingIsLeft(_ topics: [String]) async throws {
            try await eventually("nothing left", within: .seconds(60)) {
                for topic in topics {
                    let lag = try await self.admin.lag(group: Ingest.group, topic: topic)
                    if lag.values.reduce(0, +) != 0 { return false }
                }
                return true
            }
        }
    }

    private static func run(
        _ fixture: SourceFixture, topics sources: [String], _ body: @Sendable (Role) async throws -> Void
    ) async throws {
        let topics = Topics()
        let broker = try KafkaBroker(
            topics: sources.map { .init($0, partitions: 2) }
                + [.init(topics.orderChanges, partitions: 4), .init(topics.deadLetters, partitions: 1)])
        let quick = KafkaBroker.quick.map { "\($0)=\($1)\n" }.joined()
        let settings = try Settings(environment: [
            "WAYBILL_KAFKA_BOOTSTRAP": broker.bootstrap, "WAYBILL_SOURCES": fixture.path,
            "WAYBILL_KAFKA_PROPERTIES": try fixture.directory.write("kafka.properties", quick),
        ])
        let common = try CommonSettings(settings)
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let environment = ServiceEnvironment(
            common: common, group: MultiThreadedEventLoopGroup.singleton, metrics: MetricsRegistry(),
            readiness: Readiness(conditions: [WorkerCondition.joined]), logger: logger)
        let services = try Ingest.build(try IngestSettings(settings, common: common), environment)
        let group = ServiceGroup(services: services, logger: logger)
        let role = Role(
            broker: broker, admin: try KafkaAdmin(KafkaConfiguration(bootstrap: broker.bootstrap)),
            environment: environment)
        try await withThrowingTaskGroup { tasks in
            tasks.addTask { try await group.run() }
            let result: Result<Void, any Error>
            do { result = .success(try await body(role)) } catch { result = .failure(error) }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
            try result.get()
        }
        await role.admin.close()
        broker.close()
    }
}
