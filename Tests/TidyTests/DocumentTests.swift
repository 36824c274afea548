import Foundation
import Testing

/// The documents for operators and contributors: their links, and the table of configuration keys.
@Suite struct DocumentTests {
    /// `README.md`, and those of services, rooms and scripts.
    static func documents() throws -> [String] {
        let folders = try ["Services", "Shared"].flatMap { top in
            try FileManager.default.contentsOfDirectory(atPath: TidyTests.root.appending(path: top).path())
                .map { "\(top)/\($0)" }
        }
        let rooms = (folders + ["compose"]).map { "\($0)/README.md" }.filter {
            FileManager.default.fileExists(atPath: TidyTests.root.appending(path: $0).path())
        }
        return ["README.md"] + rooms.sorted()
    }

    static func text(_ path: String) throws -> String {
        try String(contentsOf: TidyTests.root.appending(path: path), encoding: .utf8)
    }

    /// The anchors that GitHub makes of a document's headings.
    static func anchors(of text: String) -> Set<String> {
        Set(
            text.split(separator: "\n").filter { $0.contains(/^#{1,6}\x20/) }.map { line in
                line.drop { $0 == "#" || $0 == " " }.lowercased()
                    .filter { $0.isLetter || $0.isNumber || $0 == " " || $0 == "-" || $0 == "_" }
                    .replacing(" ", with: "-")
            })
    }

    @Test func everyLinkLeadsSomewhere() throws {
        let files = FileManager.default
        for document in try Self.documents() + [".github/CONTRIBUTING.md", ".github/SECURITY.md"] {
            let text = try Self.text(document)
            for link in text.matches(of: /\]\(([^)\s]+)\)/).map({ String($0.output.1) }) where !link.contains("://") {
                let parts = link.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
                let url = TidyTests.root.appending(path: document)
                let path =
                    parts[0].isEmpty
                    ? url.path() : url.deletingLastPathComponent().appending(path: String(parts[0])).path()
                #expect(files.fileExists(atPath: path), "\(document) links to \(link)")
                guard parts.count == 2, let content = try? String(contentsOfFile: path, encoding: .utf8) else {
                    continue
                }
                #expect(Self.anchors(of: content).contains(String(parts[1])), "\(document) links to \(link)")
            }
        }
    }

    @Test func theTableOfConfigurationHasEveryKeyOnce() throws {
        let keys = try Self.text("Shared/Operations/Configuration/SettingKey.swift")
            .matches(of: /"(WAYBILL_[A-Z_]+)"/).map { String($0.output.1) }
        #expect(keys.count > 30)
        // The first column of the rows.
        let rows = try Self.text("Shared/Operations/README.md").split(separator: "\n")
            .filter { $0.hasPrefix("| `WAYBILL_") }.flatMap { row in
                row.split(separator: "|")[0].matches(of: /`(WAYBILL_[A-Z_]+)`/).map { String($0.output.1) }
            }
        #expect(rows.sorted() == Set(keys).sorted())
    }

    @Test func theReadmeIsShort() throws {
        #expect(try Self.text("README.md").split(separator: "\n", omittingEmptySubsequences: false).count <= 150)
    }
}
