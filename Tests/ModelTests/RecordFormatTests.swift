import Foundation
import TestKit
import Testing

@testable import Model

/// The records that each release writes, in `Shared/Model/Schemas/records/VERSION`: later releases read them.
@Suite struct RecordFormatTests {
    private static let folder = Repository.root.appending(path: "Shared/Model/Schemas/records")

    private static func versions() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: Self.folder.path()).sorted()
    }

    /// Returns a record's bytes without the line feed at the end of its file.
    private static func record(_ version: String, _ name: String) throws -> [UInt8] {
        let bytes = [UInt8](try Data(contentsOf: Self.folder.appending(path: "\(version)/\(name).json")))
        return bytes.last == UInt8(ascii: "\n") ? bytes.dropLast() : bytes
    }

    /// Reads a record as a service does, and returns it as this release writes it.
    private static func rewritten(_ name: String, _ bytes: [UInt8]) throws -> [UInt8] {
        switch name {
        case "order-record": try OrderRecord.decode(bytes).encoded
        case "registration": try RegistrationRecord.decode(bytes).encoded
        case "adoption": try AdoptionRecord.decode(bytes).encoded
        default: try PendingPushRecord.decode(bytes).encoded
        }
    }

    @Test(arguments: ["order-record", "registration", "pending-push", "adoption"])
    func recordsOfEveryReleaseAreRead(_ name: String) throws {
        let versions = try Self.versions()
        #expect(versions.contains(ProgramVersion.number), "add the records as this version writes them")
        for version in versions {
            let record = try Self.record(version, name)
            let rewritten = try Self.rewritten(name, record)
            if version == ProgramVersion.number {
                #expect(String(decoding: rewritten, as: UTF8.self) == String(decoding: record, as: UTF8.self))
            }
        }
    }

    /// A service refuses what a later release may write, and says so; members that it does not know are no reason.
    @Test(arguments: ["order-record", "registration", "pending-push", "adoption"])
    func aRecordOfALaterFormatIsRefusedWithItsReason(_ name: String) throws {
        let record = try JSON(parsing: Self.record(ProgramVersion.number, name))
        let later = record.setting(.integer(RecordError.format + 1), "format")
        let error = #expect(throws: RecordError.self) { try Self.rewritten(name, later.serialized) }
        #expect(error?.message == "$.format: must be 1, which this version of Waybill reads")
        let more = record.setting("more", "more")
        #expect(try Self.rewritten(name, more.serialized) == record.serialized)
    }
}
