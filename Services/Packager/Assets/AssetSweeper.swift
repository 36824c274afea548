import CoreMetrics
import Logging
import ServiceLifecycle
import Store

/// Cools orders, and sweeps packages of old versions and assets that no order names any more, as long as the packager
/// runs: only one packager sweeps at a time, at a bounded rate.
struct AssetSweeper: Service {
    /// The time from the end of a sweep to the next one.
    static let period: Duration = .seconds(12 * 3600)
    /// The lease of a sweep: the time for which it stays with a packager that does not renew it.
    private static let lease: Duration = .seconds(120)
    /// The interval at which a packager checks whether a sweep is due.
    private static let interval: Duration = .seconds(60)
    /// Keys of Redis a second.
    private static let rate = 10_000

    let sweep: AssetSweep
    /// Makes what cools the orders of one sweep.
    let cooler: @Sendable () -> OrderCooler
    let metrics: AssetMetrics
    let logger: Logger
    /// Closes what only the sweeper uses.
    let onStopped: @Sendable () async -> Void

    func run() async throws {
        let owner = ViewRecovery.randomName()
        try? await cancelWhenGracefulShutdown {
            while true {
                try await Task.sleep(for: Self.interval * Double.random(in: 0.5...1))
                do {
                    try await self.sweep(as: owner)
                } catch {
                    try Task.checkCancellation()
                    // Once the lease has expired, the first packager that checks tries again.
                    self.logger.warning("cannot sweep assets, retrying", metadata: ["error": "\(error)"])
                }
            }
        }
        await self.onStopped()
    }

    /// The failure of a sweep that another packager has taken over.
    private struct Lost: Error {}

    private func sweep(as owner: String) async throws {
        let claim = { try await self.sweep.claim(by: owner, lease: Self.lease, period: Self.period) }
        guard try await claim() else { return }
        let clock = ContinuousClock()
        let start = clock.now
        var renewed = start
        var pace = RateLimiter(perSecond: Self.rate)
        let cooler = self.cooler()
        var sweep = self.sweep
        sweep.cool = { try await cooler.cool($0) }
        let counts = try await sweep.run {
            try await Task.sleep(for: pace.wait(after: AssetSweep.pageKeys, now: clock.now - start))
            guard clock.now - renewed > Self.lease / 4 else { return }
            guard try await claim() else { throw Lost() }
            renewed = clock.now
        }
        try await self.sweep.end(by: owner, period: Self.period)
        let cooling = cooler.tally
        self.metrics.record(counts, cooling)
        self.logger.info(
            "assets swept",
            metadata: [
                "orders": "\(counts.orders)", "cold": "\(counts.cold)", "dropped": "\(counts.dropped)",
                "assets": "\(counts.assets)",
                "bytes": "\(counts.bytes)",
                "unused": "\(counts.unused)", "swept": "\(counts.swept)", "sweptBytes": "\(counts.sweptBytes)",
                "unplaced": "\(cooling.unplaced)", "differing": "\(cooling.differing)", "unread": "\(cooling.unread)",
                "publishedAgain": "\(cooling.published)",
            ])
    }
}

/// The metrics of assets, as the last sweep of this packager found them.
struct AssetMetrics: Sendable {
    private let assets: Gauge
    private let bytes: Gauge
    /// Assets that no order named; the next sweep removes them.
    private let unused: Gauge
    private let swept: Counter
    private let sweptBytes: Counter
    private let dropped: Counter
    private let cold: Gauge
    /// Orders that were old enough to cool and did not, by the reason.
    private let warm: [(reason: any KeyPath<OrderCooler.Tally, Int> & Sendable, gauge: Gauge)]
    private let publishedAgain: Counter

    init(factory: any MetricsFactory) {
        self.assets = Gauge(label: "waybill_assets", factory: factory)
        self.bytes = Gauge(label: "waybill_assets_bytes", factory: factory)
        self.unused = Gauge(label: "waybill_assets_unused", factory: factory)
        self.swept = Counter(label: "waybill_assets_swept_total", factory: factory)
        self.sweptBytes = Counter(label: "waybill_assets_swept_bytes_total", factory: factory)
        self.cold = Gauge(label: "waybill_cold_orders", factory: factory)
        self.dropped = Counter(label: "waybill_packages_dropped_total", factory: factory)
        let reasons: [(String, any KeyPath<OrderCooler.Tally, Int> & Sendable)] = [
            ("unplaced", \.unplaced), ("differs", \.differing), ("unread", \.unread),
        ]
        self.warm = reasons.map { reason, path in
            (path, Gauge(label: "waybill_orders_not_cooled", dimensions: [("reason", reason)], factory: factory))
        }
        self.publishedAgain = Counter(label: "waybill_orders_published_again_total", factory: factory)
    }

    func record(_ counts: AssetSweep.Counts, _ cooling: OrderCooler.Tally) {
        for (path, gauge) in self.warm { gauge.record(cooling[keyPath: path]) }
        self.publishedAgain.increment(by: cooling.published)
        self.assets.record(counts.assets)
        self.cold.record(counts.cold)
        self.bytes.record(counts.bytes)
        self.unused.record(counts.unused)
        self.swept.increment(by: counts.swept)
        self.sweptBytes.increment(by: counts.sweptBytes)
        self.dropped.increment(by: counts.dropped)
    }
}
