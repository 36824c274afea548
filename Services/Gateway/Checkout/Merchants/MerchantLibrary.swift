import FoundationEssentials
import Glibc
import Logging
import NIOPosix
import Operations
import ServiceLifecycle
import Synchronization

/// The current merchants: loaded at the start, and reloaded when they change while the role runs.
///
/// A merchant that cannot be loaded keeps its last good state, and the others are not affected. Files are read on a
/// thread that may block, one check at a time. A change counts once two checks have seen it alike, or immediately on
/// SIGHUP. A certificate that expires within 30 days is logged once a day.
final class MerchantLibrary: Service {
    /// The time between two checks of the directory.
    static let interval = Duration.seconds(5)

    private struct Entry {
        var merchant: Merchant?
        var failure: MerchantError?
        var stamps: FileStamps
    }

    private let directory: String?
    private let loading: Merchant.Loading
    private let logger: Logger
    private let metrics: CheckoutMetrics?
    private let entries: Mutex<[String: Entry]>
    private let current: Mutex<Merchants>
    /// The last day, since 1970, on which a merchant's certificate was logged; 0 for none.
    private let warned = Mutex<[String: Int64]>([:])

    /// - Parameters:
    ///   - directory: has one subdirectory for each merchant; nil for none.
    ///   - isStrict: true if one merchant that fails stops the start, as for `--check-config`.
    ///   - metrics: receive the days until each certificate expires.
    /// - Throws: `MerchantError` if the directory cannot be read, or all merchants in it fail.
    init(
        directory: String?, loading: Merchant.Loading, isStrict: Bool, metrics: CheckoutMetrics? = nil, logger: Logger
    ) throws(MerchantError) {
        self.directory = directory
        self.loading = loading
        self.logger = logger
        self.metrics = metrics
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
        for merchant in self.merchants.all { self.checkSecrecy(of: merchant) }
        self.checkCertificates(nowEpochSeconds: Int64(time(nil)))
        await watchFiles(every: Self.interval) { await self.look(isAsked: $0) }
    }

    /// Checks the directory once, on a thread that may block.
    func look(isAsked: Bool) async {
        try? await NIOThreadPool.singleton.runIfActive { self.lookNow(isAsked: isAsked) }
    }

    private func lookNow(isAsked: Bool) {
        guard let directory = self.directory else { return }
        defer { self.checkCertificates(nowEpochSeconds: Int64(time(nil))) }
        guard let names = try? Self.names(in: directory), !names.isEmpty else {
            return self.logger.error("the merchants directory is empty or cannot be read; all merchants stay in use")
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
                // A new merchant begins without stamps, so it is read once two checks have seen it alike.
                var entry = entries[name] ?? Entry(stamps: FileStamps(taken: []))
                let isDue = entry.stamps.isDue(stamps, isAsked: isAsked)
                if isDue {
                    Self.load(&entry, name, directory, self.loading)
                    isChanged = true
                }
                entries[name] = entry
                if isDue, let failure = entry.failure { self.log(failure) }
                if isDue, let merchant = entry.merchant { self.checkSecrecy(of: merchant) }
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
            "cannot load merchant; its last good version stays in use", metadata: ["error": "\(failure)"])
    }

    private func checkSecrecy(of merchant: Merchant) {
        for warning in merchant.secretFiles.compactMap(Settings.secrecyWarning(of:)) {
            self.logger.warning("\(warning)", metadata: ["merchant": "\(merchant.name)"])
        }
    }

    /// Source: Checkout §2.1: warn 30 days before the end
    private func checkCertificates(nowEpochSeconds now: Int64) {
        let ends = self.merchants.all.map { ($0.name, $0.identity?.notAfterEpochSeconds) }
        self.warned.withLock { warned in
            for name in warned.keys where !ends.contains(where: { $0.0 == name }) {
                self.metrics?.certificateEnds(merchant: name, days: nil)
                warned[name] = nil
            }
            for (name, end) in ends {
                self.metrics?.certificateEnds(merchant: name, days: end.map { Double($0 - now) / 86_400 })
                warned[name] = warned[name] ?? 0
                guard let end, end - now < 30 * 86_400, warned[name] != now / 86_400 else { continue }
                warned[name] = now / 86_400
                self.logger.warning(
                    "merchant identity certificate expires soon: renew it",
                    metadata: ["merchant": "\(name)", "days": "\((end - now) / 86_400)"])
            }
        }
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

    /// Removes merchants with an origin that another merchant, earlier by name, already has.
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
