import Foundation
import Kafka
import Model
import Sandbox
import TestKit

@testable import Packager

/// Sources in a directory of their own.
struct SourceFixture {
    let directory: TemporaryDirectory

    init() throws { self.directory = try TemporaryDirectory("sources") }

    var path: String { self.directory.path("sources") }

    /// Writes a source's folder.
    ///
    /// - Parameter extra: further members of source.json, as JSON text.
    func write(_ name: String, topics: [String], format: String = "json", extra: String = "", _ program: String) throws
    {
        let topics = topics.map { "\"\($0)\"" }.joined(separator: ",")
        let comma = extra.isEmpty ? "" : ","
        try self.put(
            "\(name)/source.json",
            """
            {"topics": [\(topics)], "format": "\(format)", "name": "/\(name)", "orderType": "order.com.example.shop"\
            \(comma)\(extra)}
            """)
        try self.put("\(name)/map.lua", program)
    }

    /// Writes a file below the directory of sources.
    func put(_ name: String, _ text: String) throws {
        let path = "\(self.path)/\(name)"
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent()
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try Data(text.utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
    }

    /// Reads a source, and loads its program in this process.
    func load(_ name: String) throws -> Source {
        let source = try Source.read(folder: "\(self.path)/\(name)", name: name)
        do { _ = try LoadedProgram(source.program) } catch { throw SourceError("\(name): \(error)") }
        return source
    }

    /// Returns the differences of a source's tests.
    func differences(_ name: String) async throws -> [String] {
        let source = try self.load(name)
        var differences: [String] = []
        for test in try SourceTest.all(of: "\(self.path)/\(name)") {
            differences += await test.differences(source, NearMapper())
        }
        return differences
    }

    /// The program with the mapper processes.
    static let program = Program.built("waybill-packager")

    static var sandbox: Sandbox {
        var sandbox = Sandbox.mapper(.full, path: Self.program)
        // A build for tests is slow.
        sandbox.time = .seconds(2)
        return sandbox
    }

    /// Loads a source with this program, and maps one record with it.
    static func map(
        _ program: String, value: String?, format: String = "json", extra: String = "", headers: [KafkaHeader] = [],
        timestamp: Int64 = 1_767_225_600_123
    ) throws -> SourceMapping {
        let fixture = try SourceFixture()
        try fixture.write("s", topics: ["events"], format: format, extra: extra, program)
        let record = KafkaRecord(
            cluster: "c1", topic: "events", partition: 3, offset: 17, timestampMilliseconds: timestamp,
            key: Array("k".utf8), value: value.map { Array($0.utf8) }, headers: headers)
        return try SourceMapping(record, try fixture.load("s"), nowEpochSeconds: 1_767_225_600)
    }
}

/// Maps in this process, by the same steps.
struct NearMapper: RecordMapper {
    func map(_ tasks: [MapperTask], _ source: Source) async throws(MapperUnavailable) -> [MapperAnswer] {
        do { return try tasks.map { try Self.answer($0, source) } } catch { throw MapperUnavailable("\(error)") }
    }

    static func answer(_ task: MapperTask, _ source: Source) throws -> MapperAnswer {
        let request = MapperRequest.map(program: source.program, schemas: [], [task]).bytes
        guard case .map(let program?, _, let tasks) = try MapperRequest(reading: request), let task = tasks.first else {
            throw SandboxFormatError()
        }
        return try MapperAnswer(reading: MapperAnswer(task, try LoadedProgram(program), schemas: [:]).bytes)
    }
}

extension SourceMapping {
    /// Maps a record in this process.
    init(_ record: KafkaRecord, _ source: Source, nowEpochSeconds now: Int64) throws {
        let answer = try source.verdict(on: record) ?? NearMapper.answer(MapperTask(record), source)
        self.init(answer, record, source, topic: "waybill.order-changes", nowEpochSeconds: now)
    }

    /// The events that were made.
    var events: [JSON] {
        guard case .mapped(let changes) = self.outcome else { return [] }
        return changes.map { (try? JSON(parsing: $0.message.value ?? [])) ?? .null }
    }

    var fault: ChangeFault? { if case .refused(let fault) = self.outcome { fault } else { nil } }

    var isIgnored: Bool { if case .ignored = self.outcome { true } else { false } }
}
