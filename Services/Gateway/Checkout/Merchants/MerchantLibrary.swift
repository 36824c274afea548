import FoundationEssentials
import Glibc
import Logging
import NIOPosix
import ServiceLifecycle
import Synchronization

/// The merchants as they are now: loaded at the start, looked after while the role runs.
///
/// A merchant that fails keeps its last good state; the others go on. Files are read on a thread that may wait, one
/// look at a time. A change counts once it was seen twice alike, or at once on SIGHUP.
final class MerchantLibrary: Service {
    /// The time between two looks at the directory.
    static let interval = Duration.seconds(5)

    private struct Entry {
        var merchant: Merchant?
        var failure: MerchantError?
        var stamps: FileStamps
    }

    private let directory: String?
    private let loading: Merchant.Loading
    private let logger: Logger
    private let entries: Mutex<[String: Entry]>
    private let current: Mutex<Merchants>

    /// - Parameters:
    ///   - directory: one sub-directory a merchant; nil for none.
    ///   - isStrict: whether one that fails stops the start, as for `--check-config`.
    /// - Throws: `MerchantError` when the directory cannot be read, or all that is in it fails.
    init(
        directory: String?, loading: Merchant.Loading, isStrict: Bool, logger: Logger
    ) throws(MerchantError) {
        self.directory = directory
        self.loading = loading
        self.logger = logger
        var entries: [String: Entry] = [:]
        if let directory {
            for name in try Self.names(in: directory) {
                let stamps = Self.stamps(of: "\(directory)/\(name)")
                var entry = Entry(stamps: FileStamps(taken: stamps))
                Self.load(&entry, name, directory, loading)
                entries[name] = entry
            }
            Self.refuseShared(&entries)
            let failures = entries.sorted { $0.key < $1.key }.compactMap(\.value.failure)
            if let failure = failures.first, isStrict || failures.count == entries.count { throw failure }
        }
        self.current = Mutex(Merchants(entries.values.compactMap(\.merchant)))
        self.entries = Mutex(entries)
    }

    /// The merchants for a request.
    var merchants: Merchants { self.current.withLock { $0 } }

    func run() async throws {
        for failure in self.entries.withLock({ $0.values.compactMap(\.failure) }) { self.log(failure) }
        await watchFiles(every: Self.interval) { await self.look(isAsked: $0) }
    }

    /// Looks once, on a thread that may wait.
    func look(isAsked: Bool) async {
        try? await NIOThreadPool.singleton.runIfActive { self.lookNow(isAsked: isAsked) }
    }

    private func lookNow(isAsked: Bool) {
        guard let directory = self.directory else { return }
        guard let names = try? Self.names(in: directory), !names.isEmpty else {
            return self.logger.error("the directory of merchants is empty or cannot be read, all merchants are kept")
        }
        let merchants: Merchants? = self.entries.withLock { entries in
            var isChanged = false
            for name in Set(entries.keys).subtracting(names) {
                isChanged = isChanged || entries[name]?.merchant != nil
                entries[name] = nil
                self.logger.warning("merchant removed", metadata: ["merchant": "\(name)"])
            }
            for name in names {
                let stamps = Self.stamps(of: "\(directory)/\(name)")
                // No stamps are taken of a new one, so that it is read when it was seen twice alike.
                var entry = entries[name] ?? Entry(stamps: FileStamps(taken: []))
                let isDue = entry.stamps.isDue(stamps, isAsked: isAsked)
                if isDue {
                    Self.load(&entry, name, directory, self.loading)
                    isChanged = true
                }
                entries[name] = entry
                if isDue, let failure = entry.failure { self.log(failure) }
            }
            guard isChanged else { return nil }
            Self.refuseShared(&entries)
            return Merchants(entries.values.compactMap(\.merchant))
        }
        guard let merchants else { return }
        self.current.withLock { $0 = merchants }
        self.logger.info("merchants loaded", metadata: ["merchants": "\(merchants.all.map(\.name).sorted())"])
    }

    private func log(_ failure: MerchantError) {
        self.logger.error(
            "merchant cannot be loaded, its last good state goes on", metadata: ["error": "\(failure)"])
    }

    private static func load(_ entry: inout Entry, _ name: String, _ directory: String, _ loading: Merchant.Loading) {
        do throws(MerchantError) {
            entry.merchant = try Merchant.load(
                directory: "\(directory)/\(name)", name: name, loading, nowEpochSeconds: Int64(time(nil)))
            entry.failure = nil
        } catch {
            entry.failure = error
        }
    }

    /// Takes off merchants whose origin another one, earlier by name, has already.
    private static func refuseShared(_ entries: inout [String: Entry]) {
        var holders: [PageOrigin: String] = [:]
        for name in entries.keys.sorted() {
            guard let merchant = entries[name]?.merchant else { continue }
            if let (origin, holder) = merchant.pages.lazy.compactMap({ page in
                holders[page.origin].map { (page.origin, $0) }
            }).first {
                entries[name]?.merchant = nil
                entries[name]?.failure = MerchantError("\(name): $.origins: \(origin) belongs to \(holder) already")
                continue
            }
            for page in merchant.pages { holders[page.origin] = name }
        }
    }

    private static func names(in directory: String) throws(MerchantError) -> [String] {
        do {
            return try FileManager.default.contentsOfDirectory(atPath: directory).filter { name in
                !name.hasPrefix(".") && FileManager.default.fileExists(atPath: "\(directory)/\(name)/merchant.json")
            }.sorted()
        } catch {
            throw MerchantError("\(directory): the directory cannot be read")
        }
    }

    private static func stamps(of folder: String) -> [FileStamp?] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.sorted().map { FileStamp(path: "\(folder)/\($0)") }
    }
}
