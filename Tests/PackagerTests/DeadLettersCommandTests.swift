import Foundation
import Kafka
import Logging
import Model
import Operations
import TestKit
import TestTraits
import Testing

@testable import Packager

/// The commands, run as a program against a broker.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct DeadLettersCommandTests {
    private static let program = Program.built("waybill-packager")

    private static func start(_ broker: KafkaBroker, _ arguments: [String]) throws -> ChildProcess {
        try ChildProcess(
            self.program, ["dead-letters"] + arguments,
            environment: ["WAYBILL_KAFKA_BOOTSTRAP": broker.bootstrap, "WAYBILL_LOG_LEVEL": "error"])
    }

    private static func run(
        _ broker: KafkaBroker, _ arguments: [String]
    ) async throws -> (exit: ChildProcess.Exit, output: String) {
        let child = try self.start(broker, arguments)
        let exit = try await child.exit(within: .seconds(60))
        return (exit, child.output)
    }

    private static func broker() throws -> KafkaBroker {
        try KafkaBroker(
            topics: ["waybill.order-changes", "waybill.dead-letters"].map { .init($0, partitions: 4) })
    }

    private static func letter(
        _ order: Int, _ offset: Int, code: ChangeFault.Code = .unknownOrder, type: String = "order.com.example"
    ) -> KafkaMessage {
        let key = "\(type)/\(order)"
        let record = KafkaRecord(
            topic: "waybill.order-changes", partition: 0, offset: Int64(offset), timestampMilliseconds: 1,
            key: Array(key.utf8), value: Array("{\"n\":\(offset)}".utf8),
            headers: [KafkaHeader(name: "content-type", text: "application/cloudevents+json")])
        return DeadLetter.message(
            of: record, fault: ChangeFault(code: code, reason: "order \(order) is wrong"), topics: Topics())
    }

    private static func fill(_ broker: KafkaBroker, _ messages: [KafkaMessage]) async throws {
        let producer = try KafkaProducer(KafkaConfiguration(bootstrap: broker.bootstrap))
        for outcome in await producer.produce(messages) { _ = try outcome.get() }
        await producer.close()
    }

    @Test func groupsAreCountedTheLargestFirst() async throws {
        let broker = try Self.broker()
        let other = "order.com.other"
        try await Self.fill(
            broker,
            [
                Self.letter(1, 1), Self.letter(2, 2), Self.letter(3, 3, code: .invalidOrder), Self.letter(4, 4),
                Self.letter(5, 5, type: other),
            ])
        let counted = try await Self.run(broker, ["list", "--group-by", "code,brand", "--limit", "1"])
        #expect(counted.exit == .code(0))
        #expect(
            counted.output == """
                3  unknown-order  order.com.example
                1  invalid-order  order.com.example
                1  unknown-order  order.com.other

                """)
        let json = try await Self.run(broker, ["list", "--group-by", "brand", "--json"])
        #expect(json.output.split(separator: "\n").count == 2)
        #expect(try JSON(parsing: Array(json.output.utf8.prefix { $0 != 10 })).object?["count"] == .integer(4))
        let wrong = try await Self.run(broker, ["list", "--group-by", "code,code"])
        #expect(wrong.exit == .code(64))
        broker.close()
    }

    @Test func logLinesNeverReachStandardOutput() async throws {
        let broker = try Self.broker()
        let reason = String(repeating: "long ", count: 200) + "end"
        let record = KafkaRecord(
            topic: "waybill.order-changes", partition: 0, offset: 1, timestampMilliseconds: 1, key: Array("k".utf8),
            value: [1], headers: [])
        try await Self.fill(
            broker,
            [
                DeadLetter.message(
                    of: record, fault: ChangeFault(code: .invalidKey, reason: reason), topics: Topics())
            ])
        let directory = try TemporaryDirectory("dead-letters")
        let child = try ChildProcess(
            "sh", ["-c", "exec '\(Self.program)' dead-letters list --json 2>/dev/null"],
            environment: [
                "WAYBILL_KAFKA_BOOTSTRAP": broker.bootstrap, "WAYBILL_LOG_LEVEL": "trace",
                "WAYBILL_KAFKA_PROPERTIES": try directory.write("kafka.properties", "debug=all\n"),
            ])
        #expect(try await child.exit(within: .seconds(60)) == .code(0))
        let lines = try child.output.split(separator: "\n").map { try JSON(parsing: Array($0.utf8)).object }
        #expect(lines.count == 2, "\(child.output.prefix(2000))")
        #expect(lines.first??["reason"]?.string?.hasSuffix("long end") == true)
        broker.close()
    }

    private static func records(_ broker: KafkaBroker, _ topic: String) async throws -> [KafkaRecord] {
        let reader = try KafkaReader(KafkaConfiguration(bootstrap: broker.bootstrap))
        var all: [KafkaRecord] = []
        for bounds in try await reader.bounds(of: topic) {
            try await reader.read(
                topic, partition: bounds.partition, from: bounds.first, to: bounds.end, records: 1000, bytes: 1 << 20
            ) { all += $0 }
        }
        await reader.close()
        return all
    }

    @Test func deadLettersAreListedShownAndReplayedOnce() async throws {
        let broker = try Self.broker()
        // Two duplicates as after a kill, one dead letter after a later one of its order, one of another type.
        try await Self.fill(
            broker,
            [
                Self.letter(1, 10), Self.letter(1, 12), Self.letter(1, 11), Self.letter(1, 10), Self.letter(2, 20),
                Self.letter(3, 30, code: .invalidOrder, type: "order.com.other"),
            ])
        let list = try await Self.run(broker, ["list"])
        #expect(list.exit == .code(0))
        #expect(list.output.contains("4 unknown-order\n1 invalid-order\n5 dead letters"))
        #expect(list.output.components(separatedBy: "2× ").count == 2)

        let other = try await Self.run(broker, ["list", "--json", "--type", "order.com.other"])
        let lines = try other.output.split(separator: "\n").map { try JSON(parsing: Array($0.utf8)) }
        #expect(lines.count == 2)
        #expect(lines[0].object?["order"]?.string == "order.com.other/3")
        let place = try #require(lines[0].object?["letter"]?.string)
        let shown = try await Self.run(broker, ["show", place])
        #expect(shown.exit == .code(0))
        for text in ["order 3 is wrong", "waybill.order-changes/0/30", "content-type", "\"n\": 30"] {
            #expect(shown.output.contains(text), "\(shown.output)")
        }
        #expect(try await Self.run(broker, ["show", "0/999"]).exit == .code(1))
        #expect(try await Self.run(broker, ["list", "--since", "never"]).exit == .code(64))

        let dryRun = try await Self.run(broker, ["replay", "--dry-run"])
        #expect(dryRun.exit == .code(0))
        #expect(dryRun.output.contains("5 to replay"))
        #expect(try await Self.records(broker, "waybill.order-changes").isEmpty)

        #expect(try await Self.run(broker, ["replay", "--at", place, "--yes"]).exit == .code(0))
        #expect(try await Self.run(broker, ["replay", "--code", "unknown-order", "--yes"]).exit == .code(0))
        let again = try await Self.run(broker, ["replay", "--yes"])
        #expect(again.exit == .code(0))
        #expect(again.output.contains("0 to replay\n5 skipped: already replayed"))
        let changes = try await Self.records(broker, "waybill.order-changes")
        #expect(changes.count == 5)
        let first = changes.filter { $0.keyText == "order.com.example/1" }
        #expect(first.map { String(decoding: $0.value ?? [], as: UTF8.self) } == [10, 11, 12].map { "{\"n\":\($0)}" })
        #expect(first.allSatisfy { $0.headers.map(\.name) == ["content-type", "waybill-replay"] })
        #expect(try await Self.run(broker, ["show", place]).output.contains("already replayed"))
        broker.close()
    }

    @Test func openOnesAreCopiedAndClosedAndCounted() async throws {
        let broker = try Self.broker()
        try await Self.fill(broker, (1...3).map { Self.letter($0, $0) } + [Self.letter(4, 4, code: .invalidOrder)])
        let exported = try await Self.run(broker, ["export", "--code", "unknown-order"])
        #expect(exported.exit == .code(0))
        #expect(exported.output.split(separator: "\n").count == 3)

        let purged = try await Self.run(
            broker, ["purge", "--before", "2100-01-01T00:00:00Z", "--code", "unknown-order", "--by", "anna"])
        #expect(purged.exit == .code(0), "\(purged.output)")
        #expect(purged.output.contains("3 dead letters closed by anna"))
        #expect(try await Self.run(broker, ["purge", "--code", "unknown-order"]).exit == .code(64))
        let list = try await Self.run(broker, ["list"])
        #expect(list.output.hasSuffix("1 invalid-order\n1 dead letters\n"), "\(list.output)")
        let letters = try await Self.records(broker, "waybill.dead-letters")
        let closed = try #require(letters.first { $0.keyText == "order.com.example/1" })
        let shown = try await Self.run(broker, ["show", "\(closed.partition)/\(closed.offset)"])
        #expect(shown.output.contains("closed   by anna at 20"), "\(shown.output)")
        let gauges = try await Self.gauges(broker, until: 1)
        #expect(gauges.undescribed == [])
        broker.close()

        let other = try Self.broker()
        let directory = try TemporaryDirectory("letters")
        let file = try directory.write("letters", exported.output)
        for _ in 0..<2 {
            let child = try ChildProcess(
                "sh", ["-c", "exec '\(Self.program)' dead-letters import < '\(file)'"],
                environment: ["WAYBILL_KAFKA_BOOTSTRAP": other.bootstrap, "WAYBILL_LOG_LEVEL": "error"])
            #expect(try await child.exit(within: .seconds(60)) == .code(0), "\(child.output)")
        }
        let copies = try await Self.run(other, ["list"])
        #expect(copies.output.hasSuffix("3 unknown-order\n3 dead letters\n"), "\(copies.output)")
        let again = try await Self.run(other, ["export"])
        #expect(again.output == exported.output)
        _ = try await Self.gauges(other, until: 3)
        other.close()
    }

    /// Runs the watch of a packager until its gauge has a value.
    private static func gauges(_ broker: KafkaBroker, until count: Double) async throws -> MetricsRegistry {
        let registry = MetricsRegistry(MetricRow.packager)
        let reader = try KafkaReader(KafkaConfiguration(bootstrap: broker.bootstrap))
        let watch = DeadLetterWatch(
            DeadLetterTopic(reader: reader, topic: "waybill.dead-letters"), metrics: registry,
            logger: Logger(label: "test"), interval: .milliseconds(50))
        let running = Task { try await watch.run() }
        try await eventually("they are counted") { registry.text.contains("waybill_dead_letters_open \(count)\n") }
        running.cancel()
        _ = await running.result
        return registry
    }

    @Test func aReplayStopsWhenItsChangesFailAgain() async throws {
        let broker = try Self.broker()
        try await Self.fill(broker, (0..<200).map { Self.letter($0, $0) })
        let first = try await Self.run(broker, ["replay", "--yes", "--first", "3"])
        #expect(first.exit == .code(0), "\(first.output)")
        #expect(first.output.contains("3 to replay\n197 left for another run"))
        #expect(try await Self.records(broker, "waybill.order-changes").count == 3)

        let replay = try Self.start(broker, ["replay", "--yes", "--rate", "20", "--stop-above", "10"])
        let admin = try KafkaAdmin(KafkaConfiguration(bootstrap: broker.bootstrap))
        try await eventually("some are sent") {
            try await admin.endOffsets("waybill.order-changes").values.reduce(0, +) > 23
        }
        await admin.close()
        // All that it has sent by now; those of the first run are not its own.
        let changes = try await Self.records(broker, "waybill.order-changes")
        try await Self.fill(
            broker,
            changes.map {
                DeadLetter.message(of: $0, fault: ChangeFault(code: .invalidOrder, reason: "still"), topics: Topics())
            })
        #expect(try await replay.exit(within: .seconds(60)) == .code(3), "\(replay.output)")
        #expect(replay.output.contains("replayed changes are dead letters again"), "\(replay.output)")
        broker.close()
    }

    @Test func anUndeliverableNotificationIsListedButNotReplayed() async throws {
        let broker = try Self.broker()
        let value: JSON = ["device": "secret", "orderType": "order.com.example", "attempts": 8]
        let letter = KafkaMessage(
            topic: "waybill.dead-letters", key: Array("order.com.example/1".utf8), value: value.serialized,
            headers: [
                KafkaHeader(name: RecordHeader.error.rawValue, text: PushDeadLetterCode.undeliverable.rawValue),
                KafkaHeader(name: RecordHeader.reason.rawValue, text: "dropped after 8 attempts"),
                KafkaHeader(name: RecordHeader.origin.rawValue, text: "waybill.orders/0/1"),
            ])
        try await Self.fill(broker, [letter, Self.letter(1, 10)])
        let list = try await Self.run(broker, ["list", "--code", "push-undeliverable"])
        #expect(list.output.contains("push-undeliverable"))
        #expect(list.output.contains("dropped after 8 attempts"))
        #expect(!list.output.contains("secret"))
        let replay = try await Self.run(broker, ["replay", "--yes"])
        #expect(replay.exit == .code(2))
        #expect(replay.output.contains("1 cannot be replayed: they are notifications, not changes"))
        #expect(try await Self.records(broker, "waybill.order-changes").map(\.keyText) == ["order.com.example/1"])
        let again = try await Self.run(broker, ["replay", "--code", "push-undeliverable", "--yes"])
        #expect(again.exit == .code(2))
        #expect(again.output.contains("0 to replay"))
        broker.close()
    }

    @Test func changesFromBeforeARemovalAreNotReplayed() async throws {
        let broker = try Self.broker()
        func change(_ order: Int, _ type: String) -> KafkaMessage {
            let key = "order.com.example/\(order)"
            return KafkaMessage(
                topic: "waybill.order-changes", partition: 0, key: Array(key.utf8),
                value: ChangeLog.event(type, subject: key, id: "\(order) \(type)", nil),
                headers: [ChangeLog.contentType])
        }
        // Offsets 0 to 3 of partition 0; the dead letters are of 0, 1 and 3.
        try await Self.fill(
            broker,
            [
                change(1, "order.patched"), change(2, "order.patched"), change(1, "order.removed"),
                change(1, "order.patched"), Self.letter(1, 0), Self.letter(2, 1), Self.letter(1, 3),
            ])
        let replay = try await Self.run(broker, ["replay", "--yes"])
        #expect(replay.exit == .code(2), "\(replay.output)")
        #expect(replay.output.contains("2 to replay\n1 left out: their orders were removed"))
        let changes = try await Self.records(broker, "waybill.order-changes")
        let again = changes.filter { record in record.headers.contains { $0.name == RecordHeader.replay.rawValue } }
        #expect(again.map { String(decoding: $0.value ?? [], as: UTF8.self) }.sorted() == ["{\"n\":1}", "{\"n\":3}"])
        let more = try await Self.run(broker, ["replay", "--yes"])
        #expect(more.exit == .code(2), "\(more.output)")
        #expect(more.output.contains("0 to replay"), "\(more.output)")
        broker.close()
    }

    @Test func aKilledReplayResumesWhereItStopped() async throws {
        let broker = try Self.broker()
        let count = 600
        // Two of an order follow each other, so that most steps have a second round.
        func order(_ number: Int) -> Int { number / 2 % 20 }
        try await Self.fill(broker, (0..<count).map { Self.letter(order($0), $0) })
        let admin = try KafkaAdmin(KafkaConfiguration(bootstrap: broker.bootstrap))
        func sent() async throws -> Int64 { try await admin.endOffsets("waybill.order-changes").values.reduce(0, +) }
        // So slow that half a minute is left to send the signal before the end, however busy the machine is.
        let slowly = ["replay", "--yes", "--rate", "20"]
        let killed = try Self.start(broker, slowly)
        try await eventually("some are sent") { try await sent() > 20 }
        killed.signal(SIGKILL)
        #expect(try await killed.exit(within: .seconds(20)) == .signal(SIGKILL), "\(killed.output)")
        let before = try await sent()
        #expect(before < count)
        let stopped = try Self.start(broker, slowly)
        try await eventually("more are sent") { try await sent() > before + 20 }
        stopped.signal(SIGTERM)
        #expect(try await stopped.exit(within: .seconds(20)) == .code(3), "\(stopped.output)")
        let last = try await Self.run(broker, ["replay", "--yes", "--rate", "100000"])
        #expect(last.exit == .code(0), "\(last.output)")
        await admin.close()
        let changes = try await Self.records(broker, "waybill.order-changes")
        // At most the dead letters that were in hand at the kill are sent twice.
        #expect((count...count + 64).contains(changes.count), "\(changes.count)")
        for number in 0..<20 {
            let values = changes.filter { $0.keyText == "order.com.example/\(number)" }.compactMap { $0.value }
            var seen: Set<[UInt8]> = []
            let once = values.filter { seen.insert($0).inserted }
            #expect(once == (0..<count).filter { order($0) == number }.map { Array("{\"n\":\($0)}".utf8) })
        }
        broker.close()
    }
}
