import Foundation
import Kafka
import Model
import Operations
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// The command `forget`, run as a program beside a packager.
@Suite(.server) struct ForgetTests {
    private static let program = Program.built("waybill-packager")
    /// A text that is nowhere but in one customer's data.
    private static let mark = "zelda.marked"

    private func forget(
        _ fleet: Fleet, _ arguments: [String]
    ) async throws -> (exit: ChildProcess.Exit, output: String) {
        let child = try ChildProcess(
            Self.program, ["forget", "--by", "anna"] + arguments, environment: try fleet.settings())
        return (try await child.exit(within: .seconds(60)), child.output)
    }

    /// Returns the topics with records that have the mark; of a compacted topic each key's last record counts.
    private func markedTopics(_ fleet: Fleet) async throws -> Set<String> {
        let reader = try KafkaReader(KafkaConfiguration(bootstrap: fleet.broker.bootstrap))
        var marked: Set<String> = []
        let topics = fleet.topics
        for topic in [topics.orderChanges, topics.orders, topics.registrations, topics.deadLetters] {
            var last: [[UInt8]?: KafkaRecord] = [:]
            var all: [KafkaRecord] = []
            for bounds in try await reader.bounds(of: topic) {
                try await reader.read(
                    topic, partition: bounds.partition, from: bounds.first, to: bounds.end, records: 1000,
                    bytes: 1 << 20
                ) { records in
                    all += records
                    for record in records { last[record.key] = record }
                }
            }
            let isCompacted = topic == topics.orders || topic == topics.registrations
            let records = isCompacted ? Array(last.values) : all
            let bytes = records.map { Data(($0.value ?? []) + $0.headers.flatMap { $0.value ?? [] }) }
            if bytes.contains(where: { $0.range(of: Data(Self.mark.utf8)) != nil }) { marked.insert(topic) }
        }
        await reader.close()
        return marked
    }

    /// Returns true if a file below a folder has the mark.
    private func isMarked(_ folder: String) throws -> Bool {
        try FileManager.default.subpathsOfDirectory(atPath: folder).contains { name in
            let content = FileManager.default.contents(atPath: "\(folder)/\(name)")
            return content?.range(of: Data(Self.mark.utf8)) != nil
        }
    }

    private func openLetters(_ fleet: Fleet, _ key: OrderKey) async throws -> Int {
        let reader = try KafkaReader(KafkaConfiguration(bootstrap: fleet.broker.bootstrap))
        let index = try await DeadLetterTopic(reader: reader, topic: fleet.topics.deadLetters)
            .survey(DeadLetterFilter(orders: [key.description]))
        await reader.close()
        return index.entries.count
    }

    @Test(.timeLimit(.minutes(3)))
    func aForgottenOrderIsFoundOnlyWhereTheReportSays() async throws {
        let disk = try TemporaryDirectory("redis-files")
        let arguments = ["--appendonly", "yes", "--rdbcompression", "no", "--dir", disk.path]
        try await Fleet.run(redis: arguments) { fleet in
            let (key, early, ghost) = (try ChangeLog.key("o1"), try ChangeLog.key("early"), try ChangeLog.key("ghost"))
            let customer: JSON = ["givenName": "Zelda", "emailAddress": .string("\(Self.mark)@example.com")]
            let list = try fleet.directory.write("list", "\(key)\n\(early)\n\(ghost)\n")
            let path = fleet.directory.path("report")
            try await fleet.working([try fleet.member(["WAYBILL_UNKNOWN_ORDER_SECONDS": "0"])]) {
                try await fleet.publish([
                    ("order.replaced", "o1", "1", ChangeLog.document(extra: [("customer", customer)])),
                    ("order.replaced", "o2", "2", ChangeLog.document()),
                    ("order.patched", "o1", "3", ["status": .string(Self.mark)]),
                    ("order.patched", "early", "4", ["customer": customer]),
                ])
                try await fleet.settle()
                _ = try await fleet.register(2, orders: [key])
                #expect(try await self.openLetters(fleet, key) == 1)
                #expect(try self.isMarked(disk.path))
                #expect(try await self.markedTopics(fleet).contains(fleet.topics.orders))

                let dryRun = try await self.forget(fleet, ["--file", list, "--dry-run"])
                #expect(dryRun.exit == .code(0), "\(dryRun.output)")
                #expect(dryRun.output.contains("\(key): would be removed: state and package, 2 devices, 1 dead"))
                #expect(dryRun.output.contains("\(early): would be removed: 1 early changes, 1 dead letters"))
                #expect(try await self.openLetters(fleet, key) == 1)
                #expect(try await fleet.content([key], []).states[key]?.isRemoved == false)

                let done = try await self.forget(fleet, ["--file", list, "--report", path])
                #expect(done.exit == .code(0), "\(done.output)")
                #expect(done.output.contains("\(ghost): no such order: nothing was stored of it"), "\(done.output)")
                #expect(try await self.openLetters(fleet, key) == 0)
                #expect(try await self.openLetters(fleet, early) == 0)
                #expect(try await fleet.content([key], []).states[key]?.isRemoved == true)
                let entry = try #require(try await OrderStore(redis: fleet.redis).entries([early]).first).get()
                #expect(entry.revision == 0)
                #expect(entry.waiting.isEmpty)

                let again = try await self.forget(fleet, ["--order", key.description, "--order", early.description])
                #expect(again.exit == .code(0), "\(again.output)")
                #expect(again.output.contains("\(key): no such order: it was removed before"), "\(again.output)")
                try await fleet.settle()
            }
            let report = try #require(try JSON(parsing: Array(Data(contentsOf: URL(filePath: path)))).object)
            #expect(report["isDone"] == true)
            #expect(report["orders"]?.array?.map { $0.object?["outcome"] } == ["removed", "removed", "unknown"])
            let places = Set((report["remains"]?.array ?? []).compactMap { $0.object?["place"]?.string })
            let marked = try await self.markedTopics(fleet)
            #expect(marked == [fleet.topics.orderChanges, fleet.topics.deadLetters])
            #expect(marked.allSatisfy { places.contains("topic \($0)") })
            #expect(places.contains("Redis, files and replicas"))
            #expect(try self.isMarked(disk.path), "the append-only file has it until it is written anew")
            _ = try await fleet.redis.send(RedisCommand("BGREWRITEAOF"))
            try await eventually("nothing in Redis has it") { try !self.isMarked(disk.path) }
            _ = try await fleet.redis.send(RedisCommand("SAVE"))
            #expect(try !self.isMarked(disk.path))

            // Without a packager nothing is removed.
            let open = try await self.forget(
                fleet, ["--order", "\(try ChangeLog.key("o2"))", "--wait", "1", "--report", path])
            #expect(open.exit == .code(1), "\(open.output)")
            #expect(open.output.contains("NOT DONE: its state and package are still there"), "\(open.output)")
        }
    }

    @Test func wrongArgumentsAreNamed() async throws {
        let directory = try TemporaryDirectory("forget")
        func run(_ arguments: [String]) async throws -> String {
            let child = try ChildProcess(Self.program, ["forget"] + arguments, environment: [:])
            #expect(try await child.exit(within: .seconds(60)) == .code(64))
            return child.output
        }
        #expect(try await run([]).contains("--order or --file is needed"))
        #expect(try await run(["--order", "nonsense"]).contains("nonsense"))
        let list = try directory.write("list", "order.com.example.shop/1\nnonsense\n")
        #expect(try await run(["--file", list]).contains("line 2: "))
        #expect(try await run(["--file", directory.path("none")]).contains("cannot read the file"))
    }
}
