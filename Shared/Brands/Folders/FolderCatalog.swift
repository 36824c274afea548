import Cryptography
import FoundationEssentials
import Glibc
import Packaging

/// Decides which folders of a directory to load and which to drop when the directory is scanned, without reading a
/// file. Each folder holds one item: a brand, a merchant.
///
/// - A folder is loaded when it looks different from the last attempt and has looked the same twice in a row: copying
///   files may not be finished after the first.
/// - An item that fails keeps its last good version, and is retried when its files change, and after a while: a
///   certificate may not be valid yet.
/// - A folder must be missing twice in a row to be dropped, and the last ones are never dropped: a directory without
///   any folder is one that is not mounted.
public struct FolderCatalog<Item, Failure: Error & Equatable> {
    /// A result of a scan or of loading a folder.
    public enum Event {
        case loaded(String, Item, former: Item?)
        case removed(String, Item?)
        /// Reported once for each reason.
        case failed(String, Failure)
        /// The directory is missing or has no folder; all items are kept.
        case empty
    }

    private struct Entry {
        var item: Item?
        var failure: Failure?
        /// The fingerprint of the folder when it was last loaded, and the time.
        var attempt: (fingerprint: FolderFingerprint, epochSeconds: Int64)?
        /// The fingerprint at the last scan.
        var seen: FolderFingerprint?
        var isMissing = false
    }

    private let retrySeconds: Int64
    private var entries: [String: Entry] = [:]
    private var isEmptyKnown = false

    /// - Parameter retrySeconds: the seconds after a failure when an item is retried though its files look the same.
    public init(retrySeconds: Int64) { self.retrySeconds = retrySeconds }

    /// The usable items by folder.
    public var items: [String: Item] { self.entries.compactMapValues(\.item) }

    /// The present failures by folder.
    public var failures: [String: Failure] { self.entries.compactMapValues(\.failure) }

    /// Processes the result of a scan.
    ///
    /// - Parameters:
    ///   - found: the fingerprint of each folder, by its name; empty also if the directory cannot be read.
    ///   - isForced: true if an operator has declared the files complete.
    /// - Returns: the folders to load, sorted, and the events.
    public mutating func look(
        _ found: [String: FolderFingerprint], isForced: Bool, nowEpochSeconds now: Int64
    ) -> (load: [String], events: [Event]) {
        guard !found.isEmpty else {
            defer { self.isEmptyKnown = true }
            return ([], self.isEmptyKnown ? [] : [.empty])
        }
        self.isEmptyKnown = false
        var events: [Event] = []
        for (folder, entry) in self.entries where found[folder] == nil {
            if entry.isMissing || isForced {
                self.entries[folder] = nil
                events.append(.removed(folder, entry.item))
            } else {
                self.entries[folder]?.isMissing = true
            }
        }
        var load: [String] = []
        for (folder, fingerprint) in found.sorted(by: { precedes($0.key, $1.key) }) {
            var entry = self.entries[folder] ?? Entry()
            let isSettled = entry.seen == fingerprint || isForced
            entry.seen = fingerprint
            entry.isMissing = false
            self.entries[folder] = entry
            if let attempt = entry.attempt, attempt.fingerprint == fingerprint {
                guard entry.failure != nil else { continue }
                let isDue = now - attempt.epochSeconds >= self.retrySeconds || now < attempt.epochSeconds
                guard isDue || isForced else { continue }
            }
            if isSettled { load.append(folder) }
        }
        return (load, events)
    }

    /// Processes the result of loading a folder.
    ///
    /// - Parameters:
    ///   - before: the folder's fingerprint before it was read.
    ///   - after: its fingerprint after that. If they differ, the content may be a mixture of both and is discarded.
    /// - Returns: the event; nil if nothing has changed.
    public mutating func receive(
        _ result: Result<Item, Failure>, of folder: String, before: FolderFingerprint, after: FolderFingerprint,
        nowEpochSeconds now: Int64
    ) -> Event? {
        guard var entry = self.entries[folder], before == after else { return nil }
        defer { self.entries[folder] = entry }
        entry.attempt = (before, now)
        switch result {
        case .success(let item):
            let former = entry.item
            entry.item = item
            entry.failure = nil
            return .loaded(folder, item, former: former)
        case .failure(let failure):
            defer { entry.failure = failure }
            return entry.failure == failure ? nil : .failed(folder, failure)
        }
    }

    /// Scans a directory and loads the folders that are due.
    ///
    /// Blocks, since it reads files.
    /// - Parameters:
    ///   - folders: the names of the folders; empty if the directory cannot be read.
    ///   - load: loads one folder, by its name. The items are those in use: one that collides with another is refused.
    public mutating func scan(
        _ directory: String, folders: [String], isForced: Bool, nowEpochSeconds now: Int64,
        load: (String, [String: Item]) -> Result<Item, Failure>
    ) -> [Event] {
        let found = Dictionary(folders.map { ($0, FolderFingerprint(folder: "\(directory)/\($0)")) }) { first, _ in
            first
        }
        var (due, events) = self.look(found, isForced: isForced, nowEpochSeconds: now)
        for folder in due {
            guard let before = found[folder] else { continue }
            let result = load(folder, self.items)
            let after = FolderFingerprint(folder: "\(directory)/\(folder)")
            if let event = self.receive(result, of: folder, before: before, after: after, nowEpochSeconds: now) {
                events.append(event)
            }
        }
        return events
    }
}

/// The visible attributes of a folder's files, without their content: names, sizes, times, inodes.
///
/// Links are followed, so the new inodes reveal a volume that is swapped by one link (Kubernetes' `..data`).
public struct FolderFingerprint: Hashable, Sendable {
    private let digest: String

    /// The most entries that are examined; a brand has at most 10,000 assets.
    private static let entryLimit = 20_000
    private static let depthLimit = 9

    /// Makes a fingerprint for tests of decisions based on them.
    init(digest: String) { self.digest = digest }

    /// Examines a folder and those inside, but not hidden ones. Unreadable entries count as such.
    init(folder: String) {
        var seen: [UInt8] = []
        var count = 0
        var open = [(path: folder, depth: 0)]
        while let next = open.popLast(), count < Self.entryLimit {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: next.path)) ?? ["(unreadable)"]
            for name in names.sorted(by: precedes).prefix(Self.entryLimit - count) {
                count += 1
                let path = "\(next.path)/\(name)"
                var info = stat()
                let isThere = unsafe stat(path, &info) == 0
                seen += Array(path.utf8) + [0]
                let numbers = [
                    isThere ? 1 : 0, Int64(info.st_size), Int64(truncatingIfNeeded: info.st_ino),
                    Int64(info.st_mtim.tv_sec), Int64(info.st_mtim.tv_nsec), Int64(info.st_ctim.tv_sec),
                    Int64(info.st_ctim.tv_nsec), Int64(truncatingIfNeeded: info.st_mode),
                ]
                for number in numbers { seen += Array("\(number) ".utf8) }
                let isFolder = isThere && info.st_mode & S_IFMT == S_IFDIR
                if isFolder, !name.hasPrefix("."), next.depth < Self.depthLimit { open.append((path, next.depth + 1)) }
            }
        }
        self.digest = SHA256.hex(seen)
    }
}
