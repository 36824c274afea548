import Foundation
import Testing

/// The documents for operators and contributors: their links, and the table of configuration keys.
@Suite struct DocumentTests {
    /// Returns the paths of `README.md` and of those of services, rooms, tests and scripts.
    static func documents() throws -> [String] {
        let folders = try ["Services", "Shared"].flatMap { top in
            try FileManager.default.contentsOfDirectory(atPath: TidyTests.root.appending(path: top).path())
                .map { "\(top)/\($0)" }
        }
        let rooms = (folders + ["Tests", "compose"]).map { "\($0)/README.md" }.filter {
            FileManager.default.fileExists(atPath: TidyTests.root.appending(path: $0).path())
        }
        let scripts = try FileManager.default.subpathsOfDirectory(
            atPath: TidyTests.root.appending(path: "compose").path()
        ).filter { $0.hasSuffix(".md") && $0 != "README.md" }.map { "compose/\($0)" }
        return ["README.md"] + (rooms + scripts).sorted()
    }

    @Test func everyServiceAndRoomHasALinkedReadme() throws {
        let documents = try Set(Self.documents())
        let map = try Self.text(".github/CONTRIBUTING.md")
        for room in TidyTests.arrows.keys where !room.hasPrefix("Tests/") {
            #expect(documents.contains("\(room)/README.md"), "\(room) has no README.md")
            #expect(map.contains("(../\(room)/README.md"), "CONTRIBUTING.md has no link to \(room)")
        }
    }

    /// A newcomer finds a file by the map of its room.
    @Test func everyFolderIsListedInItsRoomsReadme() throws {
        for room in TidyTests.arrows.keys where !room.hasPrefix("Tests/") {
            let text = try Self.text("\(room)/README.md")
            let folders = Set(
                try TidyTests.sources([room]).map { $0.path.dropFirst(room.count + 1) }.filter { $0.contains("/") }
                    .compactMap { $0.split(separator: "/").first })
            for folder in folders.sorted() {
                #expect(
                    text.contains("`\(folder)`") || text.contains("`\(room)/\(folder)`"),
                    "\(room)/README.md does not have the folder \(folder)")
            }
        }
    }

    @Test func redisKeysAreDefinedOnlyAsKindsAndNameTheirFormat() throws {
        for source in try TidyTests.sources(["Services", "Shared"]) {
            guard source.path.hasSuffix("/StoreKeyKind.swift") else {
                #expect(!source.text.contains("\"waybill:"), "\(source.path): keys of Redis are in StoreKeyKind.swift")
                continue
            }
            let formats = source.text.matches(of: /"waybill:(?<format>[^:]*):/).map { String($0.output.format) }
            #expect(formats.count == source.text.matches(of: /"waybill:/).count)
            #expect(Set(formats).count == 1, "each key begins with waybill:, the number of the format, and a colon")
            #expect(formats.allSatisfy { Int($0) != nil })
        }
    }

    @Test func everyTestSuiteNamedInADocumentExists() throws {
        let files = Set(try TidyTests.sources(["Tests"]).map { $0.path.split(separator: "/").last.map(String.init) })
        var count = 0
        for document in try Self.documents() + [".github/CONTRIBUTING.md"] {
            for match in try Self.text(document).matches(of: /`([A-Z][A-Za-z0-9]*Tests)`/) {
                count += 1
                let name = String(match.output.1)
                let isRoom = FileManager.default.fileExists(
                    atPath: TidyTests.root.appending(path: "Tests/\(name)").path())
                #expect(isRoom || files.contains("\(name).swift"), "\(document) names \(name)")
            }
        }
        #expect(count > 80)
    }

    @Test func everyPromiseOfSecurityNamesTestsThatExist() throws {
        let promises = try #require(try Self.text(".github/SECURITY.md").split(separator: "### Promises\n").last)
        let rows = promises.split(separator: "\n").filter { $0.hasPrefix("|") }.dropFirst(2)
        #expect(rows.count > 15)
        let files = try TidyTests.sources(["Tests"])
        for row in rows {
            let tests = row.matches(of: /`(?<suite>\w+)\.(?<test>\w+)`/)
            #expect(!tests.isEmpty, "no test: \(row)")
            for test in tests {
                let isThere = files.contains {
                    $0.path.hasSuffix("/\(test.output.suite).swift") && $0.text.contains("func \(test.output.test)(")
                }
                #expect(isThere, "SECURITY.md names \(test.output.0)")
            }
        }
    }

    @Test(arguments: [
        ("Services/Packager/README.md", "Shared/Model/Changes/ChangeFault.swift"),
        ("Services/Pusher/README.md", "Shared/Model/Changes/PushDeadLetterCode.swift"),
    ])
    func theTableOfDeadLettersHasEveryCodeOnce(document: String, source: String) throws {
        let section = try #require(try Self.text(document).split(separator: "\n## Dead letters\n").dropFirst().first)
        let documented = section.split(separator: "\n## ")[0].split(separator: "\n")
            .filter { $0.hasPrefix("| `") && !$0.hasPrefix("| `waybill-error` |") }
            .flatMap { $0.split(separator: "|")[0].matches(of: /`([a-z0-9-]+)`/).map { String($0.output.1) } }
        let codes = try Self.text(source).matches(of: /case \w+ = "([a-z0-9-]+)"/).map { String($0.output.1) }
        #expect(codes.count >= 3)
        #expect(documented.count == Set(documented).count)
        #expect(Set(documented).symmetricDifference(codes) == [])
    }

    static func text(_ path: String) throws -> String {
        try String(contentsOf: TidyTests.root.appending(path: path), encoding: .utf8)
    }

    /// Returns the anchors that GitHub derives from a document's headings.
    static func anchors(of text: String) -> Set<String> {
        Set(
            text.split(separator: "\n").filter { $0.contains(/^#{1,6}\x20/) }.map { line in
                line.drop { $0 == "#" || $0 == " " }.lowercased()
                    .filter { $0.isLetter || $0.isNumber || $0 == " " || $0 == "-" || $0 == "_" }
                    .replacing(" ", with: "-")
            })
    }

    @Test func everyLinkInADocumentResolves() throws {
        let files = FileManager.default
        let others = ["CHANGELOG", "CONTRIBUTING", "SECURITY"].map { ".github/\($0).md" }
        for document in try Self.documents() + others {
            let text = try Self.text(document)
            let links = text.matches(of: /\]\(([^)\s]+)\)|src(?:set)?="([^"]*pictures\/[^"]+)"/).map {
                String($0.output.1 ?? $0.output.2 ?? "")
            }
            for link in links where !link.contains("://") {
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

    /// Documents name files and folders; a rename must update those names.
    @Test func everyPathNamedInADocumentExists() throws {
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

    @Test func theConfigurationTableListsEveryKeyOnce() throws {
        let keys = try Self.text("Shared/Operations/Configuration/SettingKey.swift")
            .matches(of: /"(WAYBILL_[A-Z_]+)"/).map { String($0.output.1) }
        #expect(keys.count > 30)
        // The first column of the rows.
        let rows = try Self.text("Shared/Operations/README.md").split(separator: "\n")
            .filter { $0.hasPrefix("| `WAYBILL_") }.flatMap { row in
                row.split(separator: "|")[0].matches(of: /`(WAYBILL_[A-Z_]+)`/).map { String($0.output.1) }
            }
        #expect(rows.count == Set(rows).count)
        #expect(Set(rows).symmetricDifference(keys) == [], "in one of table and SettingKey.swift only")
    }

    /// A document with pictures loads quickly on a phone, and a clone stays small.
    @Test func noPictureHasMoreThan200Kilobytes() throws {
        let folder = TidyTests.root.appending(path: ".github/pictures")
        let pictures = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        #expect(pictures.count > 1)
        for picture in pictures {
            #expect(try Data(contentsOf: picture).count <= 200_000, "\(picture.lastPathComponent)")
        }
    }

    @Test func theReadmeHasAtMost150Lines() throws {
        #expect(try Self.text("README.md").split(separator: "\n", omittingEmptySubsequences: false).count <= 150)
    }
}
