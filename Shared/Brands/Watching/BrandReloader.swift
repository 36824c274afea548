import CoreMetrics
import Glibc
import Logging
import Model
import NIOPosix
public import Operations
public import ServiceLifecycle
import Synchronization
public import Tokens

/// Watches the brands' directory while a service runs: every few seconds and on SIGHUP.
///
/// Files are read on a thread that may block, one scan at a time. A brand that cannot be loaded keeps its last good
/// version and raises an alarm, once in the log and in the metrics as long as it lasts.
public final class BrandReloader: Service {
    private let library: BrandLibrary
    private let tokens: TokenAuthority?
    private let secretsState: ReloadState?
    private let brandsState: ReloadState
    private let interval: Duration
    private let metrics: BrandMetrics
    private let logger: Logger
    /// Called after each change, with the brands as of that change.
    private let onChange: @Sendable (Brands) async -> Void
    private let warnings = Mutex(ExpiryWarnings())

    /// - Parameters:
    ///   - tokens: mints whose shared secrets are watched as well.
    ///   - onChange: renews the objects made of brands; it keeps the former object if it cannot.
    public init(
        _ library: BrandLibrary, tokens: TokenAuthority? = nil, environment: ServiceEnvironment,
        onChange: @escaping @Sendable (Brands) async -> Void = { _ in }
    ) {
        self.library = library
        self.tokens = tokens
        self.secretsState = tokens.map { _ in ReloadState("token-secrets", factory: environment.metrics) }
        self.brandsState = ReloadState("brands", factory: environment.metrics)
        self.interval = environment.common.brandsReload
        self.metrics = BrandMetrics(factory: environment.metrics)
        self.logger = environment.logger
        self.onChange = onChange
    }

    public func run() async throws {
        await watchFiles(every: self.interval) {
            self.logger.info("watching brands", metadata: ["every": "\(self.interval)"])
            for failure in self.library.failures { self.log(.failed(failure)) }
            self.account()
        } look: { isAsked in
            if isAsked { self.logger.info("SIGHUP: checking brands") }
            await self.look(isForced: isAsked)
        }
    }

    /// Scans the directory once.
    private func look(isForced: Bool) async {
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
        self.metrics.update(certificates, failures: self.library.failures)
        self.brandsState.report(self.library.failures.isEmpty)
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
        self.secretsState?.report(event == .loaded)
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

/// The metrics about brands. Bounded by the number of configured brands.
final class BrandMetrics: Sendable {
    private enum Series: Hashable {
        case failed(brand: String)
        case expiry(brand: String, use: String)
    }

    private let factory: any MetricsFactory
    private let meters = Mutex<[Series: Meter]>([:])

    init(factory: any MetricsFactory) { self.factory = factory }

    /// Sets each series, and removes those of brands that no longer exist.
    func update(_ certificates: [BrandCertificate], failures: [BrandFailure]) {
        var values: [Series: Double] = [:]
        for certificate in certificates {
            let brand = certificate.orderType.rawValue
            values[.expiry(brand: brand, use: certificate.use.rawValue)] = Double(certificate.notAfterEpochSeconds)
            values[.failed(brand: brand)] = 0
        }
        for failure in failures { values[.failed(brand: failure.label)] = 1 }
        self.meters.withLock { meters in
            for (series, meter) in meters where values[series] == nil {
                meter.destroy()
                meters[series] = nil
            }
            for (series, value) in values {
                let meter = meters[series] ?? self.meter(series)
                meters[series] = meter
                meter.set(value)
            }
        }
    }

    private func meter(_ series: Series) -> Meter {
        switch series {
        case .failed(let brand):
            Meter(label: "waybill_brand_load_failed", dimensions: [("brand", brand)], factory: self.factory)
        case .expiry(let brand, let use):
            CertificateExpiry.meter(owner: brand, certificate: use, factory: self.factory)
        }
    }
}

/// Decides when to warn that a certificate expires soon: below 30 days, once a day for each.
///
/// Source: Wallet Orders §7
struct ExpiryWarnings {
    /// The number of days before the expiry at which warnings begin.
    static let days = 30.0
    static let intervalSeconds: Int64 = 86_400

    /// The time of the last warning for each. Certificates that were removed or renewed are forgotten.
    private var logged: [BrandCertificate: Int64] = [:]

    /// Returns the certificates to warn of at this time.
    mutating func due(_ certificates: [BrandCertificate], nowEpochSeconds now: Int64) -> [BrandCertificate] {
        self.logged = self.logged.filter { certificates.contains($0.key) }
        let due = certificates.filter { certificate in
            guard certificate.days(fromEpochSeconds: now) < Self.days else { return false }
            return self.logged[certificate].map { now - $0 >= Self.intervalSeconds || now < $0 } ?? true
        }
        for certificate in due { self.logged[certificate] = now }
        return due
    }
}
