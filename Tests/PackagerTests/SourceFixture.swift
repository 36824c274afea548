import Foundation
import Kafka
import Model
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

    func load(_ name: String) throws -> Source { try Source.load(folder: "\(self.path)/\(name)", name: name) }

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
        return SourceMapping(
            record, try fixture.load("s"), topic: "waybill.order-changes", nowEpochSeconds: 1_767_225_600)
    }
}

extension SourceMapping {
    /// The events that were made.
    var events: [JSON] {
        guard case .mapped(let changes) = self.outcome else { return [] }
        return changes.map { (try? JSON(parsing: $0.message.value ?? [])) ?? .null }
    }

    var fault: ChangeFault? { if case .refused(let fault) = self.outcome { fault } else { nil } }

    var isIgnored: Bool { if case .ignored = self.outcome { true } else { false } }
}
