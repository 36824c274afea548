import Foundation
import Testing

/// The arrows between the folders of a service or room: the types of another folder that a folder may name.
///
/// Files next to the folders assemble the service or room: they may name everything, and no folder names theirs.
@Suite struct FolderArrowsTests {
    static let arrows: [String: [String: Set<String>]] = [
        "Services/Gateway": [
            "Endpoints": ["Limits"],
            "Limits": [],
            "Server": ["Endpoints", "Settings"],
            "Settings": [],
        ],
        "Services/Packager": [
            // The sweeper deletes nothing while Redis is being restored.
            "Assets": ["CommandLine", "Pipeline", "Restoring"],
            "Changes": ["DeadLetters", "Pipeline", "Settings", "Worker"],
            "CommandLine": [],
            "DeadLetters": ["CommandLine", "Pipeline", "Sources", "Worker"],
            "Forgetting": ["Changes", "CommandLine", "DeadLetters", "Pipeline", "Settings"],
            "Importing": ["CommandLine", "Pipeline", "Settings"],
            "Ingest": ["Changes", "DeadLetters", "Pipeline", "Sources", "Worker"],
            "Inspecting": ["DeadLetters", "Pipeline", "Settings"],
            "Pictures": ["Pipeline"],
            "Pipeline": [],
            "Rekeying": ["CommandLine", "Pipeline"],
            "Repackaging": ["CommandLine", "Pipeline", "Settings"],
            "Reporting": ["Restoring"],
            "Restoring": ["CommandLine", "Pipeline"],
            "Settings": [],
            "Sources": [],
            "Worker": [],
        ],
        "Services/Pusher": [
            "DeadLetters": ["Policies", "Records"],
            "FollowUps": ["Reporting", "Scheduling"],
            // The entry point is in a library, so that tools of tests can use its parts.
            "Main": [""],
            "Parking": ["Records", "Reporting", "Scheduling", "Settings"],
            "Policies": [],
            "Records": [],
            "Reporting": ["Scheduling"],
            "Scheduling": ["DeadLetters", "Policies", "Records", "Settings"],
            "Settings": [],
            "Worker": [
                "DeadLetters", "FollowUps", "Parking", "Policies", "Records", "Reporting", "Scheduling", "Settings",
            ],
        ],
        "Shared/Brands": [
            "Assets": ["Brand"],
            "Brand": [],
            "Folders": [],
            "Library": ["Brand", "Folders", "Loading"],
            "Loading": ["Assets", "Brand"],
            "Watching": ["Brand", "Library"],
        ],
        "Shared/HTTPServer": [
            "Connections": ["Messages"],
            "HTTP1": ["Connections", "Messages"],
            "HTTP2": ["Connections", "HTTP1", "Messages"],
            "Limits": [],
            "Messages": [],
            "Server": ["Connections", "HTTP1", "HTTP2", "Messages", "Settings", "TLS"],
            "Settings": ["Connections", "Messages", "TLS"],
            "TLS": ["Connections"],
        ],
        "Shared/Packaging": [
            "Archive": [],
            "Assets": ["Archive", "Images"],
            "Building": ["Archive", "Assets", "Packages", "Pictures"],
            "Images": [],
            "Packages": ["Assets"],
            "Pictures": ["Archive", "Assets", "Images"],
        ],
        "Shared/Redis": [
            "Client": ["Cluster", "Configuration", "Connection", "Protocol", "Topology"],
            "Cluster": ["Configuration", "Connection", "Protocol", "Topology"],
            "Configuration": ["Protocol"],
            "Connection": ["Configuration", "Protocol", "Topology"],
            "Protocol": [],
            "Topology": ["Protocol"],
        ],
        "Shared/Store": [
            // Asset sweeps and lookups wait for a complete view.
            "Adoption": ["Keys"],
            "Assets": ["Adoption", "Keys", "Pictures", "View"],
            "Keys": [],
            "Orders": ["Assets", "Keys", "Pictures", "View", "Work"],
            "Packages": ["Keys", "View"],
            "Pictures": ["Keys"],
            "Registrations": ["Keys", "View"],
            "View": ["Keys"],
            "Work": ["Keys"],
        ],
    ]

    @Test(arguments: arrows.keys.sorted())
    func folderDependenciesMatchTheTable(_ service: String) throws {
        let found = Self.arrows(in: try TidyTests.sources([service]), of: service)
        let table = try #require(Self.arrows[service])
        for folder in Set(table.keys).union(found.keys).sorted() {
            let (real, told) = (found[folder, default: []], table[folder])
            #expect(told != nil, "\(service)/\(folder) has no row in the table")
            for other in real.subtracting(told ?? []) {
                Issue.record(
                    "\(service)/\(folder) may not name types of \(other.isEmpty ? "the service's root" : other)")
            }
            for other in (told ?? []).subtracting(real) {
                Issue.record("\(service)/\(folder) names no type of \(other): the arrow goes from the table")
            }
        }
    }

    @Test(arguments: arrows.keys.sorted())
    func folderDependenciesAreAcyclic(_ service: String) throws {
        var open = try #require(Self.arrows[service])
        while let next = open.first(where: { $0.value.isDisjoint(with: open.keys) })?.key { open[next] = nil }
        #expect(open.isEmpty, "each of these needs another one of them: \(open.keys.sorted())")
    }

    @Test func folderDependenciesAreFoundInSourceText() {
        let files = [
            ("S/A/One.swift", "public final class One {}\nlet text = \"Two\" // Two"),
            (
                "S/B/Two.swift",
                "@available(*, deprecated) struct Two: Sendable {}\nprivate enum One {}\nextension One {}"
            ),
            ("S/C/Three.swift", "extension Two { func three() -> Main? { nil } }"), ("S/Main.swift", "enum Main {}"),
        ].map { path, text in TidyTests.Source(path: path, text: text) }
        #expect(Self.arrows(in: files, of: "S") == ["A": [], "B": ["A"], "C": ["B", ""]])
    }

    /// - Returns: for each folder of a service the folders whose types it names; `""` is the service's root.
    static func arrows(in files: [TidyTests.Source], of service: String) -> [String: Set<String>] {
        var owners: [Substring: Set<String>] = [:]
        // Each expression is parsed only once, because parsing takes longer than a search.
        let (declaration, silent, name) = (Self.declaration, Self.silent, /\b[A-Z]\w+/)
        for file in files {
            // Indented lines declare nothing that other files see without the type around it.
            for line in file.lines where line.first?.isWhitespace == false {
                guard let match = line.firstMatch(of: declaration) else { continue }
                owners[match.output.1, default: []].insert(Self.folder(file, of: service))
            }
        }
        var arrows: [String: Set<String>] = [:]
        for file in files {
            let folder = Self.folder(file, of: service)
            guard !folder.isEmpty else { continue }
            arrows[folder, default: []].formUnion([])
            for line in file.lines where line.utf8.contains(where: { (0x41...0x5A).contains($0) }) {
                for found in line.replacing(silent, with: "").matches(of: name) {
                    guard let owner = owners[found.output], !owner.contains(folder) else { continue }
                    arrows[folder, default: []].formUnion(owner)
                }
            }
        }
        return arrows
    }

    /// The declaration of a type that other files see.
    private static var declaration: Regex<(Substring, Substring)> {
        #/
        ^(?: (?: @\w+ (?: \( [^)]* \) )? | public | package | final | indirect | nonisolated ) \s+ )*
        (?: struct | class | enum | actor | protocol | typealias ) \s+ (\w+)
        /#
    }

    /// Strings and comments.
    private static var silent: Regex<Substring> { /"(?:\\.|[^"\\])*"|\/\/.*/ }

    private static func folder(_ file: TidyTests.Source, of service: String) -> String {
        let rest = file.path.dropFirst(service.count + 1).split(separator: "/")
        return rest.count > 1 ? String(rest[0]) : ""
    }
}
