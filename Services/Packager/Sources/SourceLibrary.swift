import Brands
import FoundationEssentials
import Glibc
import Logging
import Model
import NIOPosix
import Operations
import Sandbox
import ServiceLifecycle
import Synchronization

/// The current sources: loaded at the start, and again when their folders change.
///
/// A source that cannot be loaded keeps its last good state; the others are not affected. One that reads a topic of
/// another cannot be loaded.
final class SourceLibrary: Sendable {
    /// The most scans at the start until the files hold still.
    private static let startLooks = 5

    private typealias Catalog = FolderCatalog<Source, SourceError>

    private let directory: String
    private let sandbox: Sandbox
    private let catalog: Mutex<Catalog>
    private let current: Mutex<SourceTable>

    /// - Parameters:
    ///   - topics: Waybill's own topics, which no source may read.
    ///   - isStrict: true if one source that fails stops the start, as for `--check-config`.
    ///   - sandbox: the process in which programs are loaded.
    /// - Throws: `SourceError` if the directory cannot be read, or no source in it can be used.
    init(directory: String, topics: Topics, isStrict: Bool, in sandbox: Sandbox) throws(SourceError) {
        (self.directory, self.sandbox) = (directory, sandbox)
        var catalog = Catalog(retrySeconds: 0)
        let names = try Self.names(in: directory)
        guard !names.isEmpty else { throw SourceError("\(directory): no folder has a source.json") }
        for _ in 0..<Self.startLooks where catalog.items.isEmpty && catalog.failures.isEmpty {
            _ = Self.scan(&catalog, directory, names, sandbox, isForced: true)
        }
        let failures = catalog.failures.sorted { $0.key < $1.key }.map(\.value)
        if let failure = failures.first, isStrict || catalog.items.isEmpty { throw failure }
        let table = SourceTable(Array(catalog.items.values))
        for source in table.sources {
            if let conflict = SourceTable.conflicts(of: source, with: [], topics).first { throw conflict }
        }
        self.current = Mutex(table)
        self.catalog = Mutex(catalog)
    }

    var table: SourceTable { self.current.withLock { $0 } }

    /// The failures by the name of the source.
    var failures: [String: SourceError] { self.catalog.withLock { $0.failures } }

    /// Checks the directory once. Blocks.
    func look(isAsked: Bool, _ report: (FolderCatalog<Source, SourceError>.Event) -> Void) {
        let events = self.catalog.withLock { catalog in
            let names = (try? Self.names(in: self.directory)) ?? []
            let events = Self.scan(&catalog, self.directory, names, self.sandbox, isForced: isAsked)
            let table = SourceTable(Array(catalog.items.values))
            self.current.withLock { $0 = table }
            return events
        }
        for event in events { report(event) }
    }

    /// Returns true if a source that fails has a good state from before.
    func isKept(_ name: String) -> Bool { self.catalog.withLock { $0.items[name] != nil } }

    private static func scan(
        _ catalog: inout Catalog, _ directory: String, _ names: [String], _ sandbox: Sandbox, isForced: Bool
    ) -> [Catalog.Event] {
        catalog.scan(directory, folders: names, isForced: isForced, nowEpochSeconds: Int64(time(nil))) { name, items in
            Result { () throws(SourceError) in
                var source = try Source.load(folder: "\(directory)/\(name)", name: name, in: sandbox)
                source.generation = items[name].map { $0.generation + 1 } ?? 0
                let others = items.sorted { $0.key < $1.key }.map(\.value).filter { $0.name != name }
                if let conflict = SourceTable.conflicts(of: source, with: others, nil).first { throw conflict }
                return source
            }
        }
    }

    static func names(in directory: String) throws(SourceError) -> [String] {
        do {
            return try FileManager.default.contentsOfDirectory(atPath: directory).filter { name in
                !name.hasPrefix(".") && FileManager.default.fileExists(atPath: "\(directory)/\(name)/source.json")
            }.sorted()
        } catch {
            throw SourceError("\(directory): the directory cannot be read")
        }
    }
}

/// Watches the directory of sources while the role runs: every few seconds and on SIGHUP.
struct SourceReloader: Service {
    private static let interval = Duration.seconds(5)

    let library: SourceLibrary
    let logger: Logger

    func run() async throws {
        for (name, failure) in self.library.failures { self.log(failure, of: name) }
        for source in self.library.table.sources { self.log(source) }
        // Topics that are read, and those of which the log has told that they are not.
        let told = Mutex(Set(self.library.table.topics))
        await watchFiles(every: Self.interval) { isAsked in
            // On a thread that may block.
            try? await NIOThreadPool.singleton.runIfActive { self.library.look(isAsked: isAsked) { self.log($0) } }
            let topics = self.library.table.topics
            let missing = told.withLock { told in
                let missing = Set(topics).subtracting(told)
                told.formUnion(missing)
                return missing
            }
            if !missing.isEmpty {
                self.logger.warning(
                    "a topic is read once ingest is started again", metadata: ["topics": "\(missing.sorted())"])
            }
        }
    }

    private func log(_ event: FolderCatalog<Source, SourceError>.Event) {
        switch event {
        case .loaded(_, let source, former: _): self.log(source)
        case .removed(let name, _):
            self.logger.warning(
                "source removed: records of its topics wait for another one", metadata: ["source": "\(name)"])
        case .failed(let name, let failure): self.log(failure, of: name)
        case .empty: self.logger.error("the sources directory is empty or cannot be read; all sources stay in use")
        }
    }

    private func log(_ source: Source) {
        self.logger.info(
            "source loaded",
            metadata: ["source": "\(source.name)", "topics": "\(source.topics.joined(separator: ", "))"])
    }

    private func log(_ failure: SourceError, of name: String) {
        self.logger.error(
            "cannot load source",
            metadata: [
                "source": "\(name)", "error": "\(failure)",
                "effect": self.library.isKept(name)
                    ? "its last good version stays in use" : "its topics are not read",
            ])
    }
}

/// The sources by the topics that they read.
struct SourceTable: Sendable {
    /// Sorted by name.
    let sources: [Source]
    private let byName: [String: Int]
    private let patterns: [(text: String, source: Int)]
    private let matched = MatchedTopics()

    init(_ sources: [Source]) {
        self.sources = sources.sorted { $0.name < $1.name }
        var byName: [String: Int] = [:]
        var patterns: [(String, Int)] = []
        for (index, source) in self.sources.enumerated() {
            for topic in source.topics {
                if Topics.isPattern(topic) { patterns.append((topic, index)) } else { byName[topic] = index }
            }
        }
        self.byName = byName
        self.patterns = patterns
    }

    /// Returns the topics that a source may not read: those of other sources, and Waybill's own.
    static func conflicts(of source: Source, with others: [Source], _ topics: Topics?) -> [SourceError] {
        let taken = others.compactMap { other in
            source.topics.first(where: other.topics.contains).map { "source \(other.name) reads \($0) already" }
        }
        let table = SourceTable([source])
        let own = ((topics?.made ?? []) + (topics?.orderChangeSources ?? [])).filter { table.source(of: $0) != nil }
        return (taken + own.prefix(1).map { "\($0) is Waybill's own" }).map {
            SourceError("\(source.name): source.json: $.topics: \($0)")
        }
    }

    /// All names and patterns.
    var topics: [String] { self.sources.flatMap(\.topics) }

    /// Returns the source that reads a topic: by the topic's name, else by the first pattern.
    func source(of topic: String) -> Source? {
        if let index = self.byName[topic] { return self.sources[index] }
        if self.patterns.isEmpty { return nil }
        let index = self.matched.source(of: topic) {
            self.patterns.first { TopicPattern($0.text)?.matches(topic) == true }?.source
        }
        return index.map { self.sources[$0] }
    }
}

/// The sources whose patterns topics matched: compiling patterns takes longer than mapping a record.
private final class MatchedTopics: Sendable {
    /// Most topics that are remembered; more are forgotten together.
    private static let limit = 4096
    private let sources = Mutex<[String: Int?]>([:])

    func source(of topic: String, _ find: () -> Int?) -> Int? {
        if let known = self.sources.withLock({ $0[topic] }) { return known }
        let found = find()
        self.sources.withLock { sources in
            if sources.count >= Self.limit { sources.removeAll() }
            sources[topic] = .some(found)
        }
        return found
    }
}

/// The key under which a source's record is processed: records of one key stay in sequence, and sources share the
/// capacity of a worker.
///
/// `<source>/` and then the record's own key, or its partition if it has none.
enum SourceKey {
    private static let own: UInt8 = 1
    private static let none: UInt8 = 0

    static func key(of key: [UInt8]?, source: String, topic: String, partition: Int32) -> [UInt8] {
        let head = Array("\(source)/".utf8)
        guard let key else { return head + [Self.none] + Array("\(topic)/\(partition)".utf8) }
        return head + [Self.own] + key
    }

    /// Returns a record's own key.
    static func original(_ key: [UInt8]?) -> [UInt8]? {
        guard let key, let slash = key.firstIndex(of: UInt8(ascii: "/")), slash + 1 < key.count else { return nil }
        return key[slash + 1] == Self.own ? Array(key[(slash + 2)...]) : nil
    }
}
