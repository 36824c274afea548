import Foundation
import Testing

/// Citations of the articles in `Shared/Model/Documentation.docc`, as code and documents write them: the title, the
/// sign for a section, and its number.
@Suite struct CitedSectionsTests {
    private static let folder = "Shared/Model/Documentation.docc"
    private static let articles = ["Wallet Orders": "WalletOrders", "Checkout": "Checkout", "Design": "Design"]

    struct Citation: Hashable {
        /// The name of a file in the folder, without its suffix.
        let article: String
        let section: String
    }

    /// Finds citations, lists of several sections included.
    static func citations(in text: String) -> [Citation] {
        let list =
            #/
            (Wallet\x20Orders|Checkout|Design|DESIGN(?:\.md)?)>?\x20
            (
              §\d[\d.]*[a-z]?
              (?: (?:\x20\([^)]*\))? (?:[,;]|\x20and|\x20to|\x20or) (?:\x20`[^`]*`;)? \x20§\d[\d.]*[a-z]? )*
            )
            /#
        let section = /§(\d+(?:\.\d+)*[a-z]?)/
        // Few lines have the sign, whose second byte is A7 in UTF-8, and the search is slow.
        let lines = text.split(separator: "\n").filter { $0.utf8.contains(0xA7) }
        return lines.flatMap { $0.matches(of: list) }.flatMap { match in
            let title = match.output.1.hasPrefix("DESIGN") ? "Design" : String(match.output.1)
            return match.output.2.matches(of: section).map {
                Citation(article: Self.articles[title, default: title], section: String($0.output.1))
            }
        }
    }

    /// Returns the numbers of an article's headings.
    static func sections(of text: String) -> [String] {
        let heading = /^#{2,4}\x20(\d+(?:\.\d+)*[a-z]?)\.?\x20/
        return text.split(separator: "\n").compactMap { $0.firstMatch(of: heading).map { String($0.output.1) } }
    }

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: TidyTests.root.appending(path: path), encoding: .utf8)
    }

    /// Returns all texts that may cite an article.
    private static func texts() throws -> [(path: String, text: String)] {
        let suffixes: Set<String> = ["", "css", "js", "json", "md", "mjs", "py", "swift", "yaml", "yml"]
        let paths = try ["Services", "Shared", "Tests", "compose", ".github"].flatMap { folder in
            try FileManager.default.subpathsOfDirectory(atPath: TidyTests.root.appending(path: folder).path())
                .filter { suffixes.contains(($0 as NSString).pathExtension) }.sorted().map { "\(folder)/\($0)" }
        }
        // Folders and files that are not text cannot be read.
        return (paths + ["README.md"]).compactMap { path in (try? Self.text(path)).map { (path, $0) } }
    }

    @Test func everyCitedSectionExists() throws {
        var sections: [String: Set<String>] = [:]
        for article in Self.articles.values {
            let found = Self.sections(of: try Self.text("\(Self.folder)/\(article).md"))
            #expect(Set(found).count == found.count, "\(article) has a number twice")
            sections[article] = Set(found)
        }
        var count = 0
        for (path, text) in try Self.texts() {
            for citation in Self.citations(in: text) {
                count += 1
                #expect(
                    sections[citation.article]?.contains(citation.section) == true,
                    "\(path) cites §\(citation.section), which \(Self.folder)/\(citation.article).md does not have")
            }
        }
        #expect(count > 150)
    }

    @Test func everyLinkBetweenArticlesResolves() throws {
        let files = try FileManager.default.subpathsOfDirectory(
            atPath: TidyTests.root.appending(path: Self.folder).path()
        ).filter { $0.hasSuffix(".md") }
        let names = Set(files.map { (($0 as NSString).lastPathComponent as NSString).deletingPathExtension })
        for file in files {
            for link in try Self.text("\(Self.folder)/\(file)").matches(of: /<doc:(\w+)>/) {
                #expect(names.contains(String(link.output.1)), "\(file) links to \(link.output.1)")
            }
        }
    }

    @Test func sectionListsAndHeadingsAreParsed() {
        let sign = "\u{A7}"
        let text = """
            /// Source: RFC 9110 \(sign)13.2.2; Wallet Orders \(sign)4.4 to \(sign)4.6; RFC 7515 \(sign)3.1
            // Wallet Orders \(sign)2.5 (Apple's list), \(sign)3.1, \(sign)99.9. DESIGN.md \(sign)3, `orders`; \(sign)7
            <doc:Checkout> \(sign)1.2b–d
            """
        #expect(
            Self.citations(in: text).map { "\($0.article) \($0.section)" } == [
                "WalletOrders 4.4", "WalletOrders 4.6", "WalletOrders 2.5", "WalletOrders 3.1", "WalletOrders 99.9",
                "Design 3", "Design 7", "Checkout 1.2b",
            ])
        #expect(Self.sections(of: "# A\n## 1. B\n### 1.2 C\n#### 1.2a D\n## Other 3\n") == ["1", "1.2", "1.2a"])
    }
}
