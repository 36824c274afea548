import ArgumentParser
import FoundationEssentials
import Glibc
import Kafka
import Lua
import Model
import Operations
import Redis
import Store

/// The last records of a source's topics, for commands that only read.
struct LastRecords: ParsableArguments {
    @Option(help: "The most records of each partition, from its end, 1 to 1000000.")
    var last = 1000

    func validate() throws {
        guard (1...1_000_000).contains(self.last) else { throw ValidationError("--last must be from 1 to 1000000") }
    }

    /// Hands the records to `body`, partition by partition. Patterns are left out: a command has no group.
    func each(
        _ source: Source, _ reader: KafkaReader, _ body: ([KafkaRecord]) async throws -> Void
    ) async throws {
        for topic in source.topics where !Topics.isPattern(topic) {
            for range in try await reader.bounds(of: topic) {
                try await reader.read(
                    topic, partition: range.partition, from: max(range.first, range.end - Int64(self.last)),
                    to: range.end, records: 500, bytes: 4 << 20, body)
            }
        }
    }
}

/// `waybill-packager ingest dry-run`: what records of a topic would become.
struct IngestDryRunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dry-run",
        abstract: "Maps the last records of a source's topics, and prints how many are mapped, ignored and refused.",
        discussion: """
            It joins no group and writes nothing. Exit codes: 0: no record is refused; 2: some are.
            """)

    @Argument(help: "The source: the name of its folder.")
    var source: String
    @OptionGroup var sources: SourcesOption
    @OptionGroup var records: LastRecords

    func run() async throws {
        let source = try self.sources.source(self.source)
        let (_, environment) = try ServiceEnvironment.ofCommand("waybill-packager")
        let reader = try KafkaReader(environment.kafka)
        let redis = RedisClient(environment.redis, eventLoopGroup: environment.group)
        let parcels = OrderStore(redis: redis, view: ViewEpochCache(MaterializedView(redis: redis))).parcels
        let close = {
            await reader.close()
            await redis.close()
        }
        var tally = DryRunTally()
        try await withCleanup(close) {
            try await self.sources.withMapper { mapper in
                let maps = SourceMapper(
                    mapper: mapper, topic: environment.common.topics.orderChanges, parcels: parcels)
                try await self.records.each(source, reader) { records in
                    for record in records {
                        let now = Int64(time(nil))
                        tally.add(
                            try await maps.map(record, source, schemas: mapper, nowEpochSeconds: now), of: record)
                    }
                }
            }
        }
        StandardStream.output.write(tally.text)
        if tally.isRefused { throw ExitCode(2) }
    }
}

/// The outcomes of records that were mapped. Bounded: `reasonLimit` reasons.
struct DryRunTally {
    private static let reasonLimit = 100

    private var mapped = 0
    private var changes = 0
    private var ignored: [IgnoredRecord: Int] = [:]
    private var refused: [String: (count: Int, first: String)] = [:]
    private var unknown: [String: Int] = [:]
    private var mended: [String: Int] = [:]
    private var omitted: [String: (count: Int, first: String)] = [:]

    var isRefused: Bool { !self.refused.isEmpty }

    mutating func add(_ mapping: SourceMapping, of record: KafkaRecord) {
        for value in mapping.unknown where self.unknown.count < Self.reasonLimit {
            self.unknown["\(value.table) has no \"\(value.value)\"", default: 0] += 1
        }
        for fault in mapping.foreign.faults { self.mended[fault.sentence, default: 0] += fault.count }
        // As many as order.json has members.
        for member in mapping.omitted {
            let first = "\(DeadLetter.origin(of: record)): \(member.violation)"
            self.omitted[member.name, default: (0, first)].count += 1
        }
        switch mapping.outcome {
        case .mapped(let changes):
            self.mapped += 1
            self.changes += changes.count
        case .ignored(let kind): self.ignored[kind, default: 0] += 1
        case .refused(let fault):
            let reason = self.refused.count < Self.reasonLimit ? fault.description : "other reasons"
            self.refused[reason, default: (0, DeadLetter.origin(of: record))].count += 1
        }
    }

    var text: String {
        let count = self.refused.values.reduce(0) { $0 + $1.count }
        let ignored = self.ignored.values.reduce(0, +)
        var lines = ["\(self.mapped) mapped to \(self.changes) changes, \(ignored) ignored, \(count) refused"]
        for (kind, count) in self.ignored.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            lines.append("\(count) ignored: \(kind.reason)")
        }
        for (reason, entry) in self.refused.sorted(by: { ($1.value.count, $0.key) < ($0.value.count, $1.key) }) {
            lines.append("\(entry.count) refused, the first at \(entry.first): \(reason)")
        }
        for (text, count) in self.unknown.sorted(by: { ($1.value, $0.key) < ($0.value, $1.key) }) {
            lines.append("\(count) unknown: \(text)")
        }
        for (sentence, count) in self.mended.sorted(by: { $0.key < $1.key }) { lines.append("\(count) \(sentence)") }
        for (name, entry) in self.omitted.sorted(by: { ($1.value.count, $0.key) < ($0.value.count, $1.key) }) {
            lines.append("\(entry.count) left out: \(name), the first at \(entry.first)")
        }
        return lines.joined(separator: "\n") + "\n"
    }
}

/// `waybill-packager ingest sample`: records of a topic as tests to fill in.
struct IngestSampleCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sample",
        abstract: "Writes the last records of a source's topics as tests, with the changes that they become now.",
        discussion: """
            One file for each record, sample-PARTITION-OFFSET.json in the source's folder tests; one that is there is \
            kept. Look at the changes: they are what the program does, right or wrong. With --redact, texts of members \
            that may tell of a person are replaced: names, addresses, phones, keys. It joins no group.
            """)

    @Argument(help: "The source: the name of its folder.")
    var source: String
    @OptionGroup var sources: SourcesOption
    @Option(help: "The most records, 1 to 10000.")
    var count = 200
    @Flag(help: "Replace what may tell of a person.")
    var redact = false

    func validate() throws {
        guard (1...10_000).contains(self.count) else { throw ValidationError("--count must be from 1 to 10000") }
    }

    func run() async throws {
        let source = try self.sources.source(self.source)
        let folder = "\(try self.sources.directory())/\(self.source)/tests"
        let (_, environment) = try ServiceEnvironment.ofCommand("waybill-packager")
        let reader = try KafkaReader(environment.kafka)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        var left = self.count
        var last = LastRecords()
        last.last = self.count
        try await withCleanup(reader.close) {
            try await self.sources.withMapper { mapper in
                try await last.each(source, reader) { records in
                    for record in records where left > 0 {
                        _ = try await source.fetchSchema(of: record, mapper)
                        let path = "\(folder)/sample-\(record.partition)-\(record.offset).json"
                        guard !FileManager.default.fileExists(atPath: path) else { continue }
                        let test = await SourceTest.draft(of: record, source, mapper, isRedacted: self.redact)
                        try PrivateFile.write(test.serialized, to: path)
                        left -= 1
                    }
                }
            }
        }
        StandardStream.output.write("\(self.count - left) tests written to \(folder)\n")
    }
}

extension SourceTest {
    /// Returns the content of a test for a record, with what it becomes now.
    static func draft(
        of record: KafkaRecord, _ source: Source, _ mapper: any RecordMapper, isRedacted: Bool
    ) async -> JSON {
        var task = MapperTask(record)
        task.schema = source.schema(of: record)
        task.wantsEvent = true
        var value = JSON.null
        if case .event(let event)? = try? await mapper.map([task], source).first?.outcome {
            value = (try? JSON(parsing: event)) ?? .null
        }
        if isRedacted { value = Self.redacted(value, isPrivate: false) }
        let seconds = max(0, record.timestampMilliseconds) / 1000
        var members: [(String, JSON)] = [
            ("topic", .string(record.topic)), ("time", .string(RFC3339.format(epochSeconds: seconds))),
            ("value", value),
        ]
        if !isRedacted, let key = record.key.flatMap({ String(validating: $0, as: UTF8.self) }) {
            members.append(("key", .string(key)))
        }
        let content = JSON.object(["record": .object(JSONObject(members)), "changes": []])
        let test = SourceTest(name: "", content: content)
        var expected: (String, JSON) = ("changes", [])
        switch await test.outcome(source, mapper) {
        case .mapped(let changes)?:
            let events = changes.map { (try? JSON(parsing: $0.message.value ?? []))?.object ?? JSONObject() }
            expected.1 = .array(
                events.map { event in
                    .object(
                        JSONObject(
                            event.members.filter { !Self.optional.contains($0.name) }.map { ($0.name, $0.value) }))
                })
        case .refused(let fault)?: expected = ("deadLetter", .string(fault.code.rawValue))
        case .ignored?, nil: break
        }
        return .object(JSONObject([("record", .object(JSONObject(members))), expected]))
    }

    private static let privateNames = [
        "name", "mail", "phone", "address", "street", "city", "zip", "postal", "company", "note", "token", "key", "ip",
        "latitude", "longitude",
    ]

    /// Replaces letters and digits of texts in members that may tell of a person.
    private static func redacted(_ value: JSON, isPrivate: Bool) -> JSON {
        switch value {
        case .object(let object):
            return .object(
                JSONObject(
                    object.members.map { member in
                        let name = member.name.lowercased()
                        let inside = isPrivate || Self.privateNames.contains { name.contains($0) }
                        return (member.name, Self.redacted(member.value, isPrivate: inside))
                    }))
        case .array(let elements): return .array(elements.map { Self.redacted($0, isPrivate: isPrivate) })
        case .string(let text) where isPrivate:
            return .string(String(text.map { $0.isLetter ? "x" : $0.isNumber ? "0" : $0 }))
        case .null, .bool, .number, .string: return value
        }
    }
}
