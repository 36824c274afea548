import Foundation
import Testing

/// The documents for operators and contributors: their links, and the table of configuration keys.
@Suite struct DocumentTests {
    /// `README.md`, and those of services, rooms, tests and scripts.
    static func documents() throws -> [String] {
        let folders = try ["Services", "Shared"].flatMap { top in
            try FileManager.default.contentsOfDirectory(atPath: TidyTests.root.appending(path: top).path())
                .map { "\(top)/\($0)" }
        }
        let rooms = (folders + ["Tests", "compose"]).map { "\($0)/README.md" }.filter {
            FileManager.default.fileExists(atPath: TidyTests.root.appending(path: $0).path())
        }
        let scripts = try FileManager.default.contentsOfDirectory(
            atPath: TidyTests.root.appending(path: "compose").path()
        ).filter { $0.hasSuffix(".md") && $0 != "README.md" }.map { "compose/\($0)" }
        return ["README.md"] + (rooms + scripts).sorted()
    }

    @Test func everyServiceAndRoomHasADocument() throws {
        let documents = try Set(Self.documents())
        // The model's documents are its DocC catalog.
        for room in TidyTests.arrows.keys where room != "Shared/Model" && !room.hasPrefix("Tests/") {
            #expect(documents.contains("\(room)/README.md"), "\(room) has no README.md")
        }
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

    /// Documents name files and folders; a rename takes them along.
    @Test func everyPathThatIsNamedExists() throws {
        let folder = "Shared/Model/Documentation.docc"
        let articles = try FileManager.default.subpathsOfDirectory(
            atPath: TidyTests.root.appending(path: folder).path()
        ).filter { $0.hasSuffix(".md") }.map { "\(folder)/\($0)" }
        var count = 0
        for document in try Self.documents() + [".github/CONTRIBUTING.md"] + articles {
            for match in try Self.text(document).matches(
                of: /`((?:Services|Shared|Tests|compose)\/[A-Za-z0-9_.\/+-]+)(?: [^`]*)?`/)
            {
                count += 1
                let path = TidyTests.root.appending(path: String(match.output.1)).path()
                #expect(FileManager.default.fileExists(atPath: path), "\(document) names \(match.output.1)")
            }
        }
        #expect(count > 30)
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
