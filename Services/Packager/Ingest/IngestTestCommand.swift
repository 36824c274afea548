import ArgumentParser
import FoundationEssentials
import Kafka
import Lua
import Model
import Operations

/// `waybill-packager ingest test`: the tests of sources, as TAP.
struct IngestTestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "test",
        abstract: "Runs the tests of sources: the files tests/*.json in their folders.",
        discussion: """
            The output is TAP (Test Anything Protocol 13). Exit codes: 0: all tests passed; 1: one failed, or a source \
            cannot be loaded.
            """)

    @Argument(help: "Sources; default: all.")
    var names: [String] = []
    @OptionGroup var sources: SourcesOption

    func run() async throws {
        let (directory, names) = try self.sources.chosen(self.names)
        let sandbox = try self.sources.sandbox()
        var report = SourceTestReport()
        let mapper = Mapper(sandbox, count: 1)
        for name in names {
            do throws(SourceError) {
                let source = try Source.load(folder: "\(directory)/\(name)", name: name, in: sandbox)
                let cases = try SourceTest.all(of: "\(directory)/\(name)")
                if cases.isEmpty { report.add("\(name)", ["it has no file in tests"]) }
                for test in cases {
                    let result = await test.result(source, mapper)
                    report.add("\(name)/\(test.name)", result.differences, notes: result.notes)
                }
            } catch {
                report.add(name, [error.description])
            }
        }
        await mapper.close()
        StandardStream.output.write(report.text)
        if report.failures > 0 { throw ExitCode(1) }
    }
}

/// One test of a source: a record, and the changes that it becomes.
struct SourceTest {
    /// The members of a change that a test may leave out.
    static let optional: Set<String> = ["specversion", "id", "source", "time", "owns", "silent", "sequence"]

    /// The name of its file.
    let name: String
    let content: JSON

    private static let fileLimit = 200
    /// The time of a record that gives none.
    private static let day = "2026-01-01T00:00:00Z"

    /// - Parameter folder: that of a source.
    static func all(of folder: String) throws(SourceError) -> [SourceTest] {
        let names = ((try? FileContent.names("tests", inside: folder)) ?? [])
            .filter { $0.hasSuffix(".json") && !$0.hasPrefix(".") }.sorted()
        var tests: [SourceTest] = []
        for name in names.prefix(Self.fileLimit) {
            let bytes = try Source.content("tests/\(name)", folder)
            do { tests.append(SourceTest(name: name, content: try JSON(parsing: bytes))) } catch {
                throw SourceError("tests/\(name): \(error)")
            }
        }
        return tests
    }

    /// Returns the differences between expectation and result; none for a test that passes.
    func differences(_ source: Source, _ mapper: any RecordMapper) async -> [String] {
        await self.result(source, mapper).differences
    }

    /// Returns the differences, the members that the changes go without, and notes for people, these among them.
    func result(
        _ source: Source, _ mapper: any RecordMapper
    ) async -> (differences: [String], omitted: [OmittedMember], notes: [String]) {
        do throws(SourceError) {
            var test = try JSONMembers(self.content, path: "$") { SourceError($0) }
            let record = try Self.record(&test, source)
            let code = try test.optionalText("deadLetter")
            let expected = try test.has("changes") ? test.array("changes") : nil
            let now = try test.optionalText("now").flatMap { RFC3339.parse($0) } ?? record.timestampMilliseconds / 1000
            let parcels = try Self.parcels(&test)
            let omitted = try test.optionalTexts("omitted")
            _ = try test.optionalText("description")
            _ = try test.optionalText("after")
            try test.refuseRest()
            guard (code == nil) != (expected == nil) else {
                throw SourceError("$: give either changes or deadLetter")
            }
            let mapping = try await Self.mapping(record, source, mapper, parcels, nowEpochSeconds: now)
            switch mapping.outcome {
            case .refused(let fault):
                if fault.code.rawValue == code { return ([], [], mapping.notes) }
                let isTimed = self.content.object?["record"]?.object?["time"] != nil
                let isLater = fault.reason.contains("in the future") && !isTimed
                let hint = "give the record its \"time\": without it the test takes place on \(Self.day)"
                return (["a dead letter: \(fault)"] + (isLater ? [hint] : []), [], mapping.notes)
            case .ignored: return (Self.differences([], expected, code), [], mapping.notes)
            case .mapped(let changes):
                let events = changes.map { (try? JSON(parsing: $0.message.value ?? [])) ?? .null }
                let left = changes.flatMap(\.omitted)
                var differences = Self.differences(events, expected, code)
                if let omitted, Set(omitted) != Set(left.map(\.name)) {
                    differences.append("omitted: expected \(omitted.listed()), it is \(left.map(\.name).listed())")
                }
                let notes = OrderComparison.guidelines(on: changes.map(\.change))
                return (differences, left, mapping.notes + notes)
            }
        } catch {
            return ([error.description], [], [])
        }
    }

    /// Maps the record; nil if this is no test.
    func outcome(_ source: Source, _ mapper: any RecordMapper) async -> SourceMapping.Outcome? {
        guard var test = try? JSONMembers(self.content, path: "$", failure: { SourceError($0) }),
            let record = try? Self.record(&test, source), let parcels = try? Self.parcels(&test)
        else { return nil }
        let now = record.timestampMilliseconds / 1000
        return try? await Self.mapping(record, source, mapper, parcels, nowEpochSeconds: now).outcome
    }

    /// The value of a format with schemas is the event, as the program gets it.
    private static func mapping(
        _ record: KafkaRecord, _ source: Source, _ mapper: any RecordMapper, _ parcels: [Parcel: ParcelOwner?],
        nowEpochSeconds now: Int64
    ) async throws(SourceError) -> SourceMapping {
        let mapper = SourceMapper(mapper: KnownParcels(mapper: mapper, parcels: parcels), topic: "changes")
        let found = await mapper.map([record], source, isDecoded: source.format.hasSchemas, nowEpochSeconds: now)
        switch found.first {
        case .mapped(let mapping, _)?: return mapping
        case .waits(let reason)?: throw SourceError(reason)
        case nil: throw SourceError("the record was not mapped")
        }
    }

    /// The orders of parcels, by which a test stands in for Redis.
    private static func parcels(
        _ test: inout JSONMembers<SourceError>
    ) throws(SourceError) -> [Parcel: ParcelOwner?] {
        var parcels: [Parcel: ParcelOwner?] = [:]
        guard test.has("aliases") else { return parcels }
        for (index, element) in try test.array("aliases").enumerated() {
            var alias = try JSONMembers(element, path: "$.aliases[\(index)]") { SourceError($0) }
            let (carrier, number) = (try alias.text("carrier"), try alias.text("number"))
            guard let parcel = Parcel(carrier: carrier, number: number) else {
                throw alias.wrong("number", "must have letters or digits, 100 at most")
            }
            parcels[parcel] = ParcelOwner(
                order: try alias.text("order"), fulfillment: try alias.text("fulfillment"),
                brand: try alias.optionalText("brand"))
            try alias.refuseRest()
        }
        return parcels
    }

    private static func record(
        _ test: inout JSONMembers<SourceError>, _ source: Source
    ) throws(SourceError) -> KafkaRecord {
        var given = try test.members("record")
        let time = try given.optionalText("time") ?? Self.day
        guard let seconds = RFC3339.parse(time) else { throw given.wrong("time", "must be like 2026-01-01T00:00:00Z") }
        let headers = try given.optionalObject("headers")?.members ?? []
        let topic = try given.optionalText("topic") ?? source.topics[0]
        let key = try given.optionalText("key")
        let value = try given.value("value")
        try given.refuseRest()
        return KafkaRecord(
            topic: topic, partition: 0, offset: 0, timestampMilliseconds: seconds * 1000,
            key: key.map { Array($0.utf8) },
            value: value == .null ? nil : value.string.map { Array($0.utf8) } ?? value.serialized,
            headers: headers.map { KafkaHeader(name: $0.name, text: $0.value.string ?? $0.value.text) })
    }

    private static func differences(_ events: [JSON], _ expected: [JSON]?, _ code: String?) -> [String] {
        guard let expected else { return ["no dead letter \(code ?? ""), but \(events.count) changes"] }
        guard events.count == expected.count else {
            return ["\(expected.count) changes expected, there are \(events.count)"] + events.map(\.text)
        }
        return zip(events, expected).enumerated().flatMap { index, pair in
            guard let event = pair.0.object, let wanted = pair.1.object else {
                return ["changes[\(index)] must be an object"]
            }
            let members = event.members.filter { wanted[$0.name] != nil || !Self.optional.contains($0.name) }
            let compared = JSON.object(JSONObject(members.map { ($0.name, $0.value) }))
            return JSONDifference.between(pair.1, compared, path: "changes[\(index)]").prefix(10).map {
                "\($0.path): expected \($0.old?.text ?? "nothing"), it is \($0.new?.text ?? "nothing")"
            }
        }
    }
}

/// The results of tests, as TAP.
///
/// Source: Test Anything Protocol, version 13
struct SourceTestReport {
    private(set) var failures = 0
    private var lines: [String] = []
    private var count = 0

    mutating func add(_ name: String, _ differences: [String], notes: [String] = []) {
        self.count += 1
        if differences.isEmpty {
            self.lines.append("ok \(self.count) - \(name)")
        } else {
            self.failures += 1
            self.lines.append("not ok \(self.count) - \(name)")
            self.lines += differences.map { "# \($0)" }
        }
        self.lines += notes.map { "# note: \($0)" }
    }

    var text: String { (["TAP version 13", "1..\(self.count)"] + self.lines).joined(separator: "\n") + "\n" }
}
