import CoreMetrics
import Model
import Synchronization

/// The metrics about brands. Bounded by the number of configured brands.
final class BrandMetrics: Sendable {
    private struct Series: Hashable {
        let label: String
        let brand: String
        let use: String?
    }

    private let factory: any MetricsFactory
    private let meters = Mutex<[Series: Meter]>([:])

    init(factory: any MetricsFactory) { self.factory = factory }

    /// Sets each series, and removes those of brands that no longer exist.
    func update(_ certificates: [BrandCertificate], failures: [BrandFailure], nowEpochSeconds now: Int64) {
        var values: [Series: Double] = [:]
        for certificate in certificates {
            let brand = certificate.orderType.rawValue
            let series = Series(
                label: "waybill_certificate_expires_days", brand: brand, use: certificate.use.rawValue)
            values[series] = certificate.days(fromEpochSeconds: now)
            values[Series(label: "waybill_brand_load_failed", brand: brand, use: nil)] = 0
        }
        for failure in failures {
            values[Series(label: "waybill_brand_load_failed", brand: failure.label, use: nil)] = 1
        }
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
        let use = series.use.map { [("certificate", $0)] } ?? []
        return Meter(label: series.label, dimensions: [("brand", series.brand)] + use, factory: self.factory)
    }
}
