import CoreMetrics
import Glibc
import Logging
import NIOPosix
public import Operations
public import ServiceLifecycle
import Synchronization
public import Tokens
import UnixSignals

/// Watches the brands' directory while a service runs: every few seconds and on SIGHUP.
///
/// Files are read on a thread that may block, one scan at a time. A brand that cannot be loaded keeps its last good
/// version and raises an alarm, once in the log and in the metrics as long as it lasts.
public final class BrandReloader: Service {
    private let library: BrandLibrary
    private let tokens: TokenAuthority?
    /// 1 while the file of shared secrets cannot be used.
    private let secretsFailed: Meter?
    private let interval: Duration
    private let metrics: BrandMetrics
    private let logger: Logger
    /// Called after each change, with the brands as of that change.
    private let onChange: @Sendable (Brands) async -> Void
    private let warnings = Mutex(ExpiryWarnings())
    /// Set by SIGHUP until the scan that it requested begins.
    private let isForced = Atomic<Bool>(false)

    /// - Parameters:
    ///   - tokens: mints whose shared secrets are watched as well.
    ///   - onChange: renews the objects made of brands; it keeps the former object if it cannot.
    public init(
        _ library: BrandLibrary, tokens: TokenAuthority? = nil, environment: ServiceEnvironment,
        onChange: @escaping @Sendable (Brands) async -> Void = { _ in }
    ) {
        self.library = library
        self.tokens = tokens
        self.secretsFailed = tokens.map { _ in
            Meter(label: "waybill_token_secrets_load_failed", factory: environment.metrics)
        }
        self.interval = environment.common.brandsReload
        self.metrics = BrandMetrics(factory: environment.metrics)
        self.logger = environment.logger
        self.onChange = onChange
    }

    public func run() async throws {
        // Trapped before this process becomes visible, since the signal ends a process that does not trap it.
        let hangups = await UnixSignalsSequence(trapping: .sighup)
        self.logger.info("watching brands", metadata: ["every": "\(self.interval)"])
        for failure in self.library.failures { self.log(.failed(failure)) }
        self.account()
        // The buffer holds one request: those made during a scan cause one more scan, and no more than that.
        let (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        try? await cancelWhenGracefulShutdown {
            try await withThrowingTaskGroup { group in
                group.addTask {
                    while true {
                        try await Task.sleep(for: self.interval)
                        wake.yield()
                    }
                }
                group.addTask {
                    for await _ in hangups {
                        self.logger.info("SIGHUP: checking brands")
                        self.isForced.store(true, ordering: .relaxed)
                        wake.yield()
                    }
                }
                group.addTask {
                    for await _ in wakes { await self.look() }
                }
                // None of them ends except by cancellation.
                try await group.waitForAll()
            }
        }
    }

    /// Scans the directory once.
    private func look() async {
        let isForced = self.isForced.exchange(false, ordering: .relaxed)
        let looked = try? await NIOThreadPool.singleton.runIfActive { [library, tokens] in
            (library.look(isForced: isForced, nowEpochSeconds: Int64(time(nil))), tokens?.look(isForced: isForced))
        }
        let events = looked?.0
        for event in events ?? [] { self.log(event) }
        if let event = looked?.1 { self.log(event) }
        if events?.contains(where: \.movesBrands) == true { await self.onChange(self.library.brands) }
        self.account()
    }

    /// Updates the metrics and warns of certificates that expire soon.
    private func account() {
        let now = Int64(time(nil))
        let certificates = self.library.brands.certificates
        self.metrics.update(certificates, failures: self.library.failures, nowEpochSeconds: now)
        for certificate in self.warnings.withLock({ $0.due(certificates, nowEpochSeconds: now) }) {
            self.logger.warning(
                "certificate expires soon",
                metadata: [
                    "brand": "\(certificate.orderType)", "certificate": "\(certificate.use.rawValue)",
                    "days": "\(Int(certificate.days(fromEpochSeconds: now).rounded(.down)))",
                ])
        }
    }

    private func log(_ event: TokenAuthority.Event) {
        self.secretsFailed?.set(event == .loaded ? 0 : 1)
        switch event {
        case .loaded: self.logger.info("token secrets reloaded")
        case .failed(let reason):
            self.logger.error(
                "cannot load token secrets; the previous ones stay in use", metadata: ["error": "\(reason)"])
        }
    }

    private func log(_ event: BrandEvent) {
        switch event {
        case .added(let type): self.logger.info("brand added", metadata: ["brand": "\(type)"])
        case .changed(let type): self.logger.info("brand reloaded", metadata: ["brand": "\(type)"])
        case .removed(let type): self.logger.warning("brand removed", metadata: ["brand": "\(type)"])
        case .failed(let failure):
            self.logger.error(
                "cannot load brand",
                metadata: [
                    "brand": "\(failure.label)", "error": "\(failure.error)",
                    "effect": failure.isKept
                        ? "the last good version stays in use" : "its orders are neither packaged nor pushed",
                ])
        case .directoryEmpty:
            self.logger.error("the brands directory is empty or cannot be read; all brands stay in use")
        }
    }
}

extension BrandEvent {
    /// True if the brands in use have changed.
    var movesBrands: Bool {
        switch self {
        case .added, .changed, .removed: true
        case .failed, .directoryEmpty: false
        }
    }
}

extension Brands {
    /// The certificates of all brands.
    var certificates: [BrandCertificate] { self.orderTypes.flatMap { self[$0]?.certificates ?? [] } }
}
