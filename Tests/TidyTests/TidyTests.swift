import Foundation
import Testing

/// The coding rules that a reader could check by eye, checked by the machine instead.
@Suite struct TidyTests {
    /// The import arrows: our modules that each room may import. A module that is not named here is a package's.
    static let arrows: [String: Set<String>] = [
        "Services/Checkout": [
            "HTTPServer", "Model", "Kafka", "Redis", "Cryptography", "Fetch", "Browser", "Tokens", "Brands", "Store",
            "Adoption", "Operations",
        ],
        // The program has both roles.
        "Services/Gateway": [
            "Checkout", "HTTPServer", "Model", "Kafka", "Redis", "Cryptography", "Fetch", "Tokens", "Brands", "Store",
            "Adoption", "Operations",
        ],
        "Services/Packager": [
            "Model", "Kafka", "Redis", "Cryptography", "Fetch", "Lua", "Sandbox", "Tokens", "Packaging",
            "PictureFitting", "Brands", "Store", "Adoption", "Operations",
        ],
        "Services/Pusher": [
            "Model", "Kafka", "Redis", "Cryptography", "Brands", "Store", "Adoption", "APNS", "Operations",
        ],
        "Shared/Model": ["CCommit"],
        "Shared/Kafka": ["CRDKafka"],
        "Shared/Redis": ["CHiredis", "Cryptography"],
        "Shared/Browser": [],
        "Shared/Cryptography": ["CCrypto"],
        "Shared/HTTP2": ["CNGHTTP2"],
        "Shared/Fetch": ["CCurl"],
        "Shared/Lua": ["CLua", "Model"],
        "Shared/Sandbox": ["CSandbox"],
        "Shared/Tokens": ["Model", "Cryptography"],
        "Shared/Packaging": ["Model", "Cryptography", "CDeflate"],
        "Shared/PictureFitting": ["Packaging", "CPictures"],
        "Shared/Brands": ["Model", "Cryptography", "Tokens", "Packaging", "Operations"],
        "Shared/Adoption": ["Model", "Redis", "Store", "Operations"],
        // Keys name devices by a digest.
        "Shared/Store": ["Model", "Redis", "Cryptography"],
        "Shared/APNS": ["Model", "HTTP2", "Cryptography"],
        "Shared/Operations": ["Model", "Kafka", "Redis", "Cryptography", "Fetch"],
        "Shared/HTTPServer": ["Model", "Fetch", "Operations"],
        "Tests/TestKit": ["CBindPort", "CCrypto", "CRDKafkaMock", "Model", "Kafka", "Redis", "Store", "Cryptography"],
    ]

    static let ours = Set(arrows.keys.map { String($0.split(separator: "/")[1]) }).union(arrows.values.joined())

    /// Modules that must not be imported anywhere, because they duplicate what a room already does.
    static let foreignModules: Set<String> = [
        "Crypto", "AsyncHTTPClient", "Hummingbird", "Vapor", "FoundationNetworking",
    ]

    /// Text that needs a reason, a word of it (most files have none, and expressions are slow), and its replacement.
    static var banned: [(text: Regex<Substring>, words: [String], instead: String)] {
        [
            (/@unchecked Sendable/, ["@unchecked"], "a ~Copyable owner inside Mutex"),
            (/nonisolated\(unsafe\)/, ["nonisolated(unsafe)"], "Mutex"),
            (/\btry!/, ["try!"], "try, or a typed error"),
            (/\bfatalError\(/, ["fatalError"], "an error"),
            (/\bTask(?:\.detached)? \{/, ["Task {", "Task.detached {"], "a task group"),
            (/\bprint\(/, ["print("], "Logger"),
            // At the level of sockets its number is SO_DEBUG, which only root may set.
            (/\.socketOption\(\.tcp_nodelay\)/, ["tcp_nodelay"], ".tcpOption"),
            (
                /\b(?:Data|String)\(contentsOf|\bcontents\(atPath:|\bfopen\(|\bopenat\(|\bopen\(.*\bO_RD/,
                ["contentsOf", "contents(atPath", "fopen(", "openat(", "O_RD"], "FileContent.read"
            ),
            (/\bThread\.sleep|\busleep\(/, ["sleep"], "an event with a deadline"),
            (/\b(?:TODO|FIXME|XXX)\b/, ["TODO", "FIXME", "XXX"], "doing it, or an issue"),
        ]
    }

    @Test(arguments: try sources(["Services", "Shared"]))
    func sourceFollowsTheCodingRules(_ file: Source) {
        #expect(file.lines.count <= 600, "\(file.path): \(file.lines.count) lines, at most 600")
        let banned = Self.banned.filter { $0.words.contains { file.text.contains($0) } }
        for (index, line) in file.lines.enumerated() {
            let place = "\(file.path):\(index + 1)"
            // Counting bytes is quicker than counting characters, of which there are no more.
            #expect(line.utf8.count <= 120 || line.count <= 120, "\(place): longer than 120 columns")
            for rule in banned where line.contains(rule.text) && !line.contains("// tidy: ") {
                let found = line.firstMatch(of: rule.text).map { String($0.output) } ?? ""
                Issue.record("\(place): \(found) is banned, use \(rule.instead)")
            }
        }
    }

    /// The most lines of Swift of each room.
    static let budgets: [String: Int] = [
        "Services/Checkout": 5400,
        "Services/Gateway": 2490,
        "Services/Packager": 18720,
        "Services/Pusher": 6355,
        "Shared/APNS": 3350,
        "Shared/Adoption": 250,
        "Shared/Brands": 1980,
        "Shared/Browser": 60,
        "Shared/Cryptography": 1370,
        "Shared/Fetch": 1660,
        "Shared/HTTP2": 620,
        "Shared/HTTPServer": 4320,
        "Shared/Kafka": 4730,
        "Shared/Lua": 1680,
        "Shared/Model": 7620,
        "Shared/Operations": 5620,
        "Shared/Packaging": 1640,
        "Shared/PictureFitting": 450,
        "Shared/Redis": 3430,
        "Shared/Sandbox": 780,
        "Shared/Store": 7220,
        "Shared/Tokens": 435,
    ]

    /// Nothing grows unnoticed, and no room takes what another one has saved.
    @Test(arguments: budgets.keys.sorted())
    func aRoomStaysWithinItsBudgetOfLines(_ room: String) throws {
        let lines = try Self.sources([room]).reduce(0) { $0 + $1.lines.count - 1 }
        let budget = Self.budgets[room, default: 0]
        let advice = "\(room) has \(lines) lines, its budget in TidyTests is \(budget)"
        #expect(
            lines <= budget,
            "\(advice): look for what can go or be merged; else raise it, and say in the commit what it is for")
        #expect(lines > budget - 250, "\(advice): lower it, so that the lines do not grow back")
    }

    /// Texts that begin like the headers of records and name something else: programs, Kafka's groups and clients,
    /// fields of HTTP.
    static let otherNames: Set<String> = [
        "waybill-basket-token", "waybill-checkout", "waybill-gateway", "waybill-ingest",
        "waybill-order-details", "waybill-packager", "waybill-pusher", "waybill-pusher-pending", "waybill-tools",
    ]

    /// All headers of Waybill's own are in one table, so that no program believes another one, or one of a sender.
    @Test func headersOfRecordsAreInTheTable() throws {
        let table = "Shared/Model/Records/RecordHeader.swift"
        var used: Set<String> = []
        for file in try Self.sources(["Services", "Shared"]) where file.path != table {
            let names = Self.reservedNames(file)
            used.formUnion(names)
            for name in names.subtracting(Self.otherNames) {
                Issue.record("\(file.path): \"\(name)\": use RecordHeader, or list it in TidyTests if it is no header")
            }
        }
        #expect(Self.otherNames.subtracting(used).sorted() == [], "nothing has these names")
    }

    /// All keys of Redis are of a kind that says what they have of a person.
    @Test func keysOfRedisAreInTheTable() throws {
        for file in try Self.sources(["Services", "Shared"]) where !file.path.hasSuffix("/StoreKeyKind.swift") {
            #expect(!Self.namesKey(file), "\(file.path): \"waybill:…\": use StoreKeyKind")
        }
    }

    @Test func aPlantedKeyIsNoticed() {
        #expect(Self.namesKey(Source(path: "Planted.swift", text: #"let key = "waybill:1:new:{\(order)}""#)))
        #expect(!Self.namesKey(Source(path: "Planted.swift", text: "/// As `waybill:1:order` has it.")))
    }

    private static func namesKey(_ file: Source) -> Bool { file.text.contains("\"waybill:") }

    @Test func aPlantedHeaderIsNoticed() {
        let text = #"let a = "waybill-purged"; let b = ["waybill-\(name)"]; let c = "the waybill-new""#
        let names = Self.reservedNames(Source(path: "Planted.swift", text: text))
        #expect(names == ["waybill-purged", #"waybill-\(name)"#])
    }

    private static func reservedNames(_ file: Source) -> Set<String> {
        guard file.text.contains("\"waybill-") else { return [] }
        return Set(file.text.matches(of: /"(waybill-[^" \/]*)"/).map { String($0.output.1) })
    }

    /// The files that open a socket for clients, each with the bounds of its connections, their requests and answers.
    static let listeners = [
        "Shared/HTTPServer/Server/HTTPListener.swift": "ConnectionGate, BodyAccount, and a handler for each protocol",
        "Shared/Operations/ListenFailure.swift": "the call that the others use",
        "Shared/Operations/Observability/OperationsServer.swift": "64 connections of a minute, with one request each",
    ]

    /// A server that is made in passing lacks the limits of the others.
    @Test func aSocketForClientsIsOpenedInKnownPlacesOnly() throws {
        let found = try Self.sources(["Services", "Shared"]).filter(Self.opensSocketForClients).map(\.path)
        #expect(Set(found) == Set(Self.listeners.keys), "a listener is in the table, with its bounds")
    }

    @Test func aPlantedListenerIsNoticed() {
        for line in ["ServerBootstrap(group: group)", "NIOTSListenerBootstrap(", "bind(socket, &address, 16)"] {
            #expect(Self.opensSocketForClients(Source(path: "Planted.swift", text: "let a = \(line)")), "\(line)")
        }
        #expect(!Self.opensSocketForClients(Source(path: "Planted.swift", text: "ClientBootstrap(group: group)")))
    }

    private static func opensSocketForClients(_ file: Source) -> Bool {
        ["Bootstrap(", "bind(", "listen("].contains(where: file.text.contains)
            && file.text.contains(#/\b(?:\w*(?:Server|Listener|Datagram)Bootstrap|(?:Glibc\.)?(?:bind|listen))\(/#)
    }

    /// A writer compares the revision, and relies on all that it read before.
    @Test(arguments: try sources(["Shared/Store"]))
    func aScriptThatChangesAnOrderSetsANewRevision(_ file: Source) {
        for name in Self.scriptsWithoutRevision(file) {
            Issue.record("\(file.path): \(name) changes fields of an order's hash, and must set its `revision` anew")
        }
    }

    @Test func aPlantedScriptWithoutARevisionIsNoticed() {
        func planted(_ command: String) -> Source {
            Source(
                path: "Planted.swift",
                text: "/// KEYS: the order.\nstatic let planted = RedisScript(\"\"\"\n\(command)\n\"\"\")")
        }
        let changes = [
            "redis.call('HDEL', KEYS[1], 'document')", "redis.call('HSET', KEYS[1], 'told', 1, 'signer', 2)",
            "redis.call('DEL', KEYS[1])", "Self.dropPackage",
        ]
        for change in changes { #expect(Self.scriptsWithoutRevision(planted(change)) == ["planted"], "\(change)") }
        for change in ["redis.call('HSET', KEYS[1], 'record', '-')", "redis.call('HGET', KEYS[1], 'document')"] {
            #expect(Self.scriptsWithoutRevision(planted(change)).isEmpty, "\(change)")
        }
        #expect(Self.scriptsWithoutRevision(planted(changes[0] + "\nrevised(1)")).isEmpty)
    }

    @Test(arguments: try sources(["Services", "Shared", "Tests"]))
    func noSentenceOfACommentHasAClauseAsItsSubject(_ file: Source) {
        for sentence in Self.clauses(file) { Issue.record("\(file.path): begin with a noun: \(sentence)") }
    }

    @Test func aPlantedClauseIsNoticed() {
        let text = "/// A row. Who\n/// reads it waits.\nlet row = 1  // Whatever\n    // Why: what it says."
        #expect(Self.clauses(Source(path: "Planted.swift", text: text)) == ["Who reads it waits."])
    }

    @Test(arguments: try sources(["Services", "Shared", "Tests/TestKit"]))
    func importsFollowTheDependencyTable(_ file: Source) {
        for violation in Self.violations(file) { Issue.record("\(violation)") }
    }

    @Test(arguments: arrows.keys.sorted())
    func everyAllowedImportIsUsed(_ room: String) throws {
        let used = try Self.sources([room]).flatMap { $0.lines.compactMap { Self.imported($0) } }
        for module in Self.arrows[room, default: []].subtracting(used) {
            Issue.record("\(room) does not import \(module): the arrow goes from the table and from Package.swift")
        }
    }

    @Test func aForbiddenImportIsDetected() {
        let planted = Source(path: "Shared/Model/Planted.swift", text: "public import Redis\nimport CCrypto")
        #expect(
            Self.violations(planted) == [
                "Shared/Model/Planted.swift:1: Shared/Model may not import Redis",
                "Shared/Model/Planted.swift:2: Shared/Model may not import CCrypto",
            ])
        let heavy = Source(path: "Shared/Store/Planted.swift", text: "import FoundationEssentials\nimport Foundation")
        #expect(Self.violations(heavy).count == 1)
        let service = Source(path: "Services/Pusher/Planted.swift", text: "@testable import Gateway")
        #expect(Self.violations(service) == ["Services/Pusher/Planted.swift:1: Services/Pusher may not import Gateway"])
    }

    @Test func eachCModuleHasOneOwner() {
        for module in Self.ours where module.first == "C" && module.dropFirst().first?.isUppercase == true {
            let owners = Self.arrows.filter { $0.value.contains(module) && !$0.key.hasPrefix("Tests/") }.keys
            #expect(owners.count <= 1 || module == "Cryptography", "\(module) is owned by \(owners.sorted())")
        }
    }

    @Test func everyRoomIsInTheDependencyTable() throws {
        let root = Self.root
        for top in ["Services", "Shared"] {
            for room in try FileManager.default.contentsOfDirectory(atPath: root.appending(path: top).path()) {
                let isModuleMap = FileManager.default.fileExists(
                    atPath: root.appending(path: "\(top)/\(room)/module.modulemap").path())
                #expect(isModuleMap || Self.arrows["\(top)/\(room)"] != nil, "\(top)/\(room) has no row in the table")
                #expect(isModuleMap || Self.budgets["\(top)/\(room)"] != nil, "\(top)/\(room) has no budget of lines")
            }
        }
    }

    /// Fields of an order's hash that writers overwrite or compare themselves.
    private static let notes: Set<Substring> = ["told", "record", "unpublished", "waiting", "fetched"]

    /// Returns the names of scripts that change fields of an order's hash, and do not set its revision. One that only
    /// deletes the whole leaves nothing to write to.
    static func scriptsWithoutRevision(_ file: Source) -> [String] {
        let text = file.lines.joined(separator: "\n")
        return text.components(separatedBy: "\n\n").compactMap { part in
            guard let name = part.firstMatch(of: #/static let (\w+) = RedisScript\(/#)?.1,
                part.contains("KEYS: the order") || part.contains("KEYS: as for `write`"),
                part.firstMatch(of: #/revised\(|'revision', string\.format\('%\.0f', math\.max\(now/#) == nil,
                name != "forgetOrder"
            else { return nil }
            let isWritten = part.contains(#/\('DEL', KEYS\[1\]/#) || part.contains(#/Self\.(dropPackage|put)\b/#)
            let fields = part.matches(of: #/\('H(?:SET|DEL)', KEYS\[1\]([^)]*)/#).flatMap { match in
                match.1.matches(of: #/'(\w+)'/#).map(\.1)
            }
            return isWritten || fields.contains { !Self.notes.contains($0) } ? String(name) : nil
        }
    }

    /// Returns the sentences in a file's comments whose subject is a clause.
    static func clauses(_ file: Source) -> [String] {
        let openers = ["Who", "What", "Whose", "Whoever", "Whatever"]
        guard openers.contains(where: file.text.contains) else { return [] }
        var comments: [String] = []
        var isInside = false
        for line in file.lines {
            let trimmed = line.drop { $0 == " " }
            if trimmed.hasPrefix("//") {
                let text = trimmed.drop { $0 == "/" || $0 == " " }
                if isInside { comments[comments.count - 1] += " " + text } else { comments.append(String(text)) }
            }
            isInside = trimmed.hasPrefix("//")
        }
        return comments.flatMap { $0.replacingOccurrences(of: ": ", with: ". ").components(separatedBy: ". ") }
            .filter { sentence in openers.contains { sentence.hasPrefix($0 + " ") } && !sentence.contains("?") }
    }

    static func violations(_ file: Source) -> [String] {
        file.lines.enumerated().compactMap { index, line in
            guard let module = Self.imported(line) else { return nil }
            let place = "\(file.path):\(index + 1)"
            if module == "Foundation", !file.folder.hasPrefix("Tests/") {
                return "\(place): Foundation brings 41 MB of ICU with it: import FoundationEssentials"
            }
            if Self.foreignModules.contains(module) { return "\(place): \(module) is not part of the house" }
            guard Self.ours.contains(module), module != file.folder.split(separator: "/").last.map(String.init),
                !Self.arrows[file.folder, default: []].contains(module)
            else { return nil }
            return "\(place): \(file.folder) may not import \(module)"
        }
    }

    /// Returns the module that a line imports.
    static func imported(_ line: Substring) -> String? {
        guard line.contains("import ") else { return nil }
        return line.firstMatch(of: /^(?:[a-z@(): ]+ )?import (?:(?:struct|class|enum|func) )?(\w+)/).map {
            String($0.output.1)
        }
    }

    struct Source: Sendable, CustomTestStringConvertible {
        let path: String
        let text: String
        let lines: [Substring]

        init(path: String, text: String) {
            self.path = path
            self.text = text
            self.lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        }

        var folder: String { self.path.split(separator: "/").prefix(2).joined(separator: "/") }
        var testDescription: String { self.path }
    }

    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    static func sources(_ folders: [String]) throws -> [Source] {
        try folders.flatMap { folder in
            try FileManager.default.subpathsOfDirectory(atPath: root.appending(path: folder).path())
                .filter { $0.hasSuffix(".swift") }.sorted().map { "\(folder)/\($0)" }
        }.map { path in
            let text = try String(contentsOf: root.appending(path: path), encoding: .utf8)
            return Source(path: path, text: text)
        }
    }
}
