import Foundation
import Kafka
import Model
import TestKit
import TestTraits
import Testing

@testable import Packager

/// The command `import`, run as a program.
@Suite(.server) struct ImportTests {
    private static let program = Program.built("waybill-packager")

    /// Runs the command; `input` is its standard input.
    private func importing(
        _ fixture: PackagerFixture, _ renewed: RenewedBrand, _ arguments: [String], input: String? = nil
    ) async throws -> (exit: ChildProcess.Exit, output: String) {
        let words = ["import", "--rate", "100000"] + arguments
        let shell = try input.map { text in
            let file = try renewed.directory.write("input", text)
            let command = ([Self.program] + words).map { "'\($0)'" }.joined(separator: " ")
            return ["-c", "cat '\(file)' | \(command)"]
        }
        let child = try ChildProcess(
            shell == nil ? Self.program : "/bin/sh", shell ?? words,
            environment: [
                "WAYBILL_KAFKA_BOOTSTRAP": fixture.broker.bootstrap, "WAYBILL_REDIS_URL": fixture.server.url,
                "WAYBILL_BRANDS": renewed.brands, "WAYBILL_WEB_SERVICE_URL": BrandFixture.webServiceURL,
                "WAYBILL_TOKEN_SECRETS": try renewed.directory.write("secrets", BrandFixture.secretsFile),
                "PATH": "/usr/bin:/bin", "TMPDIR": renewed.directory.path,
            ])
        return (try await child.exit(within: .seconds(60)), child.output)
    }

    private static func line(_ number: Int, _ extra: [(String, JSON)] = []) -> String {
        let document = ChangeLog.document(
            extra: extra + [
                ("orderIdentifier", .string("o\(number)")), ("orderTypeIdentifier", .string(BrandFixture.orderType)),
            ])
        return String(decoding: document.serialized, as: UTF8.self)
    }

    private func with(
        _ body: @Sendable @escaping (PackagerFixture, RenewedBrand) async throws -> Void
    ) async throws {
        let renewed = try RenewedBrand()
        try await PackagerFixture.run { fixture in
            try fixture.broker.create(.init(fixture.topics.orderChanges, partitions: 1))
            try await fixture.redis.completeView()
            try await body(fixture, renewed)
        }
    }

    @Test(.timeLimit(.minutes(3)))
    func documentsAndEventsBecomeSilentChangesThatOthersMayFollow() async throws {
        try await self.with { fixture, renewed in
            let event =
                #"{"specversion": "1.0", "type": "waybill.order.patched", "source": "/oms", "id": "7", "#
                + #""subject": "\#(BrandFixture.orderType)/o2", "data": {"statusDescription": "packed"}}"#
            let lines = (1...300).map { Self.line($0) }
            let file = try renewed.directory.write(
                "orders.jsonl", lines.joined(separator: "\r\n") + "\n\n  \n" + event)
            let dryRun = try await self.importing(fixture, renewed, [file, "--dry-run"])
            #expect(dryRun.exit == .code(0), "\(dryRun.output)")
            #expect(dryRun.output.contains("301 lines judged, 0 refused"), "\(dryRun.output)")
            #expect(try await fixture.count(fixture.topics.orderChanges) == 0)

            let run = try await self.importing(fixture, renewed, [file, "--as-of", "2025-01-01T00:00:00Z"])
            #expect(run.exit == .code(0), "\(run.output)")
            #expect(run.output.contains("301 changes published, line 303"), "\(run.output)")
            let records = try await fixture.read(fixture.topics.orderChanges, 301)
            let processor = try fixture.processor()
            try await processor.process(records)
            for number in [1, 300] { #expect(try await fixture.state("o\(number)")?.document.members["status"] != nil) }
            #expect(try await fixture.state("o2")?.document.members["statusDescription"] == "packed")
            for record in records {
                #expect(String(decoding: record.value ?? [], as: UTF8.self).contains("\"silent\":true"))
            }

            // A second run has nothing to do; the same lines by another way are the same changes.
            let again = try await self.importing(fixture, renewed, [file])
            #expect(again.output.contains("0 lines judged"), "\(again.output)")
            let piped = try await self.importing(
                fixture, renewed, ["-", "--as-of", "2025-01-01T00:00:00Z"],
                input: lines.prefix(2).joined(separator: "\n"))
            #expect(piped.exit == .code(0), "\(piped.output)")
            #expect(piped.output.contains("2 changes published"), "\(piped.output)")
            let version = try #require(try await fixture.state("o1")).version
            try await processor.process(try await fixture.read(fixture.topics.orderChanges, 303).suffix(2))
            #expect(try await fixture.state("o1")?.version == version)
        }
    }

    @Test(.timeLimit(.minutes(3)))
    func aFileWithRefusedLinesIsNotBegun() async throws {
        try await self.with { fixture, renewed in
            let bad: [(line: String, reason: String)] = [
                ("{", "is not JSON"), ("[1]", "must be an object"),
                (#"{"status": "open"}"#, "$.orderIdentifier is missing"),
                (#"{"orderIdentifier": "x"}"#, "$.orderTypeIdentifier is missing"),
                (Self.line(1, [("status", "gone")]), "$.status"),
                (Self.line(1).replacing(BrandFixture.orderType, with: "order.com.example.other"), "there is no brand"),
                (String(repeating: "x", count: 3 << 20), "more than 1048576 bytes"),
                (#"{"specversion": "1.0", "type": "waybill.order.gone"}"#, "subject is missing"),
            ]
            let text = ([Self.line(1)] + bad.map(\.line) + [Self.line(2)]).joined(separator: "\n")
            let file = try renewed.directory.write("orders.jsonl", text)
            let run = try await self.importing(fixture, renewed, [file])
            #expect(run.exit == .code(2), "\(run.output)")
            for (number, row) in bad.enumerated() {
                let line = run.output.split(separator: "\n").first { $0.contains("line \(number + 2): ") }
                #expect(line?.contains(row.reason) == true, "\(row.reason): \(line ?? "")")
            }
            #expect(try await fixture.count(fixture.topics.orderChanges) == 0)
            let rest = try await self.importing(fixture, renewed, [file, "--skip-refused"])
            #expect(rest.exit == .code(2), "\(rest.output)")
            #expect(rest.output.contains("2 changes published"), "\(rest.output)")
            let missing = try await self.importing(fixture, renewed, ["/none"])
            #expect(missing.exit == .code(64))
            #expect(missing.output.contains("/none: "), "\(missing.output)")
        }
    }

    /// A mark says how far an earlier run came, unless the file was written since.
    @Test(.timeLimit(.minutes(3)))
    func aRunGoesOnWhereTheLastOneEnded() async throws {
        try await self.with { fixture, renewed in
            let lines = (1...10).map { Self.line($0) + "\n" }
            let file = try renewed.directory.write("orders.jsonl", lines.joined())
            _ = try await self.importing(fixture, renewed, [file])
            let mark = "\(file).imported"
            let place = lines.prefix(4).reduce(0) { $0 + $1.utf8.count }
            var text = try #require(try JSON(parsing: Array(Data(contentsOf: URL(filePath: mark)))).object)
            (text["place"], text["lines"]) = (.integer(Int64(place)), 4)
            _ = try renewed.directory.write("orders.jsonl.imported", JSON.object(text).serialized)
            let rest = try await self.importing(fixture, renewed, [file])
            #expect(rest.output.contains("6 changes published, line 10"), "\(rest.output)")
            try Data((lines.joined() + Self.line(11)).utf8).write(to: URL(filePath: file))
            let other = try await self.importing(fixture, renewed, [file])
            #expect(other.output.contains("11 changes published, line 11"), "\(other.output)")
        }
    }
}
