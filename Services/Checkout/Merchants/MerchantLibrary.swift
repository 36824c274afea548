import Brands
import FoundationEssentials
import Glibc
import Logging
import NIOPosix
import Operations
import ServiceLifecycle
import Store
import Synchronization

/// The current merchants: loaded at the start, and reloaded when they change while the role runs.
///
/// A merchant that cannot be loaded keeps its last good state and is tried again at each check; the others are not
/// affected. `MerchantClaims` decides whose an origin or a key is, and Redis has its decisions. Files are read on a
/// thread that may block, one check at a time, as `FolderCatalog` decides. A certificate that expires within 30 days is
/// logged once a day.
final class MerchantLibrary: Service {
    /// The time between two checks of the directory.
    static let interval = Duration.seconds(5)
    /// The most scans at the start until a merchant, or the error of one, is found.
    private static let startLooks = 5

    private typealias Catalog = FolderCatalog<Merchant, MerchantError>

    private struct State {
        var catalog = Catalog(retrySeconds: 0)
        var claims: MerchantClaims
        var refusals: [String: MerchantError] = [:]
        /// False while Redis does not answer.
        var isWritten = true

        var failures: [String: MerchantError] {
            self.refusals.merging(self.catalog.failures) { $1 }
        }

        /// Returns the merchants as they are served.
        mutating func settle() -> Merchants {
            let (served, refusals) = self.claims.settle(self.catalog.items)
            self.refusals = refusals
            return Merchants(served)
        }
    }

    private let directory: String?
    private let loading: Merchant.Loading
    private let logger: Logger
    private let metrics: CheckoutMetrics?
    /// The holders, for all replicas; nil to decide alone.
    private let ledger: ClaimHolders?
    /// Held during a scan, which reads files; only another scan waits for it.
    private let state: Mutex<State>
    private let current: Mutex<Merchants>
    /// The last day, since 1970, on which a merchant's certificate was logged; 0 for none.
    private let warned = Mutex<[String: Int64]>([:])
    /// The merchants with a gauge of failures.
    private let measured = Mutex<Set<String>>([])

    /// - Parameters:
    ///   - directory: has one subdirectory for each merchant; nil for none.
    ///   - isStrict: true if one merchant that fails stops the start, as for `--check-config`.
    ///   - isEmptyAllowed: true to begin though all merchants fail.
    ///   - claims: the holders of origins and keys, as Redis has them.
    ///   - ledger: receives the holders.
    ///   - metrics: receive the failures, and the days until each certificate expires.
    /// - Throws: `MerchantError` if the directory cannot be read, or all merchants in it fail.
    init(
        directory: String?, loading: Merchant.Loading, isStrict: Bool, isEmptyAllowed: Bool = false,
        claims: MerchantClaims = MerchantClaims(), ledger: ClaimHolders? = nil, metrics: CheckoutMetrics? = nil,
        logger: Logger
    ) throws(MerchantError) {
        self.directory = directory
        self.loading = loading
        self.logger = logger
        self.metrics = metrics
        self.ledger = ledger
        var state = State(claims: claims)
        var merchants = Merchants()
        if let directory {
            let names = try Self.names(in: directory)
            state.claims.look(names, isForced: false)
            // A result whose files changed while they were read is discarded, and they are read again.
            for _ in 0..<Self.startLooks where state.catalog.items.isEmpty && state.catalog.failures.isEmpty {
                _ = Self.scan(&state, directory, names, loading, isForced: true)
            }
            merchants = state.settle()
            if !state.claims.released.isEmpty {
                // A merchant may have been refused for an origin that its holder has given up.
                _ = Self.scan(&state, directory, names, loading, isForced: true)
                merchants = state.settle()
            }
            let failures = state.failures.sorted { $0.key < $1.key }.map(\.value)
            let isNone = state.catalog.items.isEmpty && !isEmptyAllowed
            if let failure = failures.first, isStrict || isNone { throw failure }
        }
        self.current = Mutex(merchants)
        self.state = Mutex(state)
    }

    /// The merchants for a request.
    var merchants: Merchants { self.current.withLock { $0 } }

    /// The merchants that cannot be loaded, or not in full, at the moment, by their directories.
    var failures: [String: MerchantError] { self.state.withLock { $0.failures } }

    func run() async throws {
        let (failures, refusals) = self.state.withLock { ($0.catalog.failures, $0.refusals) }
        for (name, failure) in failures { self.log(failure, of: name) }
        self.log(refusals)
        await self.writeDown()
        for merchant in self.merchants.all { self.checkSecrecy(of: merchant) }
        self.account(nowEpochSeconds: Int64(time(nil)))
        await watchFiles(every: Self.interval) { await self.look(isAsked: $0) }
    }

    /// Checks the directory once, on a thread that may block, and writes down who holds what.
    func look(isAsked: Bool) async {
        try? await NIOThreadPool.singleton.runIfActive { self.lookNow(isAsked: isAsked) }
        await self.writeDown()
    }

    private func lookNow(isAsked: Bool) {
        guard let directory = self.directory else { return }
        let events = self.change { state in
            let names = (try? Self.names(in: directory)) ?? []
            state.claims.look(names, isForced: isAsked)
            return Self.scan(&state, directory, names, self.loading, isForced: isAsked)
        }
        for event in events { self.log(event) }
        if !events.isEmpty {
            self.logger.info(
                "merchants loaded", metadata: ["merchants": "\(self.merchants.all.map(\.name).sorted())"])
        }
    }

    private func writeDown() async {
        guard self.directory != nil, let ledger = self.ledger else { return }
        let (taken, released) = self.state.withLock { ($0.claims.taken, $0.claims.released) }
        do throws(StoreError) {
            let written = try await ledger.settle(taken: taken, released: released)
            self.change { state in
                state.isWritten = true
                state.claims.receive(written: written, released: released)
                return []
            }
        } catch {
            let wasWritten = self.state.withLock { state in
                defer { state.isWritten = false }
                return state.isWritten
            }
            guard wasWritten else { return }
            self.logger.warning(
                "who holds an origin or a key cannot be written down: what two merchants claim is of neither",
                metadata: ["error": "\(error)"])
        }
    }

    /// Changes the state, and what is served by it.
    @discardableResult
    private func change(_ body: @Sendable (inout State) -> [Catalog.Event]) -> [Catalog.Event] {
        let (events, former, present) = self.state.withLock { state in
            let former = state.refusals
            let events = body(&state)
            let merchants = state.settle()
            self.current.withLock { $0 = merchants }
            return (events, former, state.refusals)
        }
        self.log(present.filter { former[$0.key] != $0.value })
        self.account(nowEpochSeconds: Int64(time(nil)))
        return events
    }

    private func log(_ refusals: [String: MerchantError]) {
        for (name, error) in refusals.sorted(by: { $0.key < $1.key }) {
            self.logger.error(
                "cannot load merchant",
                metadata: [
                    "merchant": "\(name)", "error": "\(error)", "effect": "it is served without what is not its own",
                ])
        }
    }

    private func log(_ event: Catalog.Event) {
        switch event {
        case .loaded(_, let merchant, former: _): self.checkSecrecy(of: merchant)
        case .removed(let name, _): self.logger.warning("merchant removed", metadata: ["merchant": "\(name)"])
        case .failed(let name, let failure): self.log(failure, of: name)
        case .empty:
            self.logger.error("the merchants directory is empty or cannot be read; all merchants stay in use")
        }
    }

    private func log(_ failure: MerchantError, of name: String) {
        let isKept = self.state.withLock { $0.catalog.items[name] != nil }
        self.logger.error(
            "cannot load merchant",
            metadata: [
                "merchant": "\(name)", "error": "\(failure)",
                "effect": isKept ? "its last good version stays in use" : "its pages and servers are refused",
            ])
    }

    private func account(nowEpochSeconds now: Int64) {
        let (items, failures) = self.state.withLock { ($0.catalog.items, $0.failures) }
        let names = Set(items.keys).union(failures.keys)
        self.metrics?.merchantsState.report(failures.isEmpty)
        self.measured.withLock { measured in
            for name in measured.subtracting(names) { self.metrics?.loadFailed(merchant: name, nil) }
            for name in names { self.metrics?.loadFailed(merchant: name, failures[name] != nil) }
            measured = names
        }
        for merchant in items.values {
            for webhook in merchant.webhooks { self.metrics?.loaded(webhook: webhook.name) }
        }
        self.checkCertificates(nowEpochSeconds: now)
    }

    private func checkSecrecy(of merchant: Merchant) {
        for warning in merchant.secretFiles.compactMap(Settings.secrecyWarning(of:)) {
            self.logger.warning("\(warning)", metadata: ["merchant": "\(merchant.name)"])
        }
    }

    /// True for the end of a certificate that should be renewed. Source: Checkout §2.1: warn 30 days before the end
    static func isNear(_ endEpochSeconds: Int64, _ nowEpochSeconds: Int64) -> Bool {
        endEpochSeconds - nowEpochSeconds < 30 * 86_400
    }

    private func checkCertificates(nowEpochSeconds now: Int64) {
        let ends = self.merchants.all.map { ($0.name, $0.identity?.notAfterEpochSeconds) }
        self.warned.withLock { warned in
            for name in warned.keys where !ends.contains(where: { $0.0 == name }) {
                self.metrics?.certificateEnds(merchant: name, epochSeconds: nil)
                warned[name] = nil
            }
            for (name, end) in ends {
                self.metrics?.certificateEnds(merchant: name, epochSeconds: end)
                warned[name] = warned[name] ?? 0
                guard let end, Self.isNear(end, now), warned[name] != now / 86_400 else { continue }
                warned[name] = now / 86_400
                self.logger.warning(
                    "merchant identity certificate expires soon: renew it",
                    metadata: ["merchant": "\(name)", "days": "\((end - now) / 86_400)"])
            }
        }
    }

    private static func scan(
        _ state: inout State, _ directory: String, _ names: [String], _ loading: Merchant.Loading, isForced: Bool
    ) -> [Catalog.Event] {
        let now = Int64(time(nil))
        let claims = state.claims
        return state.catalog.scan(
            directory, folders: names, isForced: isForced, nowEpochSeconds: now
        ) { name, merchants in
            Result { () throws(MerchantError) in
                let merchant = try Merchant.load(
                    directory: "\(directory)/\(name)", name: name, loading, nowEpochSeconds: now)
                if let error = claims.refusal(of: merchant, isInUse: { merchants[$0] != nil }) { throw error }
                return merchant
            }
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
}
