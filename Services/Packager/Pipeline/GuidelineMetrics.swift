import CoreMetrics
import Model
import Packaging
import Synchronization

/// Counts how many packaged versions keep Apple's guidelines. Bounded by the brands and the guidelines.
final class GuidelineMetrics: Sendable {
    private let factory: any MetricsFactory
    private let brands = Mutex<[OrderTypeIdentifier: Counters]>([:])

    /// The counters of one brand.
    private struct Counters {
        let kept: Counter
        let unkept: Counter
        /// By `OrderGuideline.rawValue`, from 1.
        let findings: [Counter]
    }

    init(factory: any MetricsFactory) { self.factory = factory }

    /// - Parameter brand: one that is configured, since it made the package.
    func count(_ package: OrderPackage, of brand: OrderTypeIdentifier) {
        let counters = self.brands.withLock { brands in
            if let counters = brands[brand] { return counters }
            let counters = self.counters(of: brand)
            brands[brand] = counters
            return counters
        }
        (package.unmetGuidelines.isEmpty ? counters.kept : counters.unkept).increment()
        for guideline in package.unmetGuidelines { counters.findings[guideline.rawValue - 1].increment() }
    }

    private func counters(of brand: OrderTypeIdentifier) -> Counters {
        func counter(_ label: String, _ dimension: String, _ value: String) -> Counter {
            Counter(
                label: label, dimensions: [("brand", brand.rawValue), (dimension, value)], factory: self.factory)
        }
        return Counters(
            kept: counter("waybill_guideline_packages_total", "kept", "yes"),
            unkept: counter("waybill_guideline_packages_total", "kept", "no"),
            findings: OrderGuideline.allCases.map {
                counter("waybill_guideline_findings_total", "guideline", $0.code)
            })
    }
}
