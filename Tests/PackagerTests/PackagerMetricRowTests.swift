import Logging
import Model
import Operations
import TestKit
import Testing

@testable import Packager

/// The table of the packager's metrics.
@Suite struct PackagerMetricRowTests {
    @Test func theDocumentsRepeatTheTable() throws {
        let rows = (MetricRow.packager + MetricRow.ingest).map(\.markdown)
        #expect(
            try Repository.lines(
                rows, missingIn: "Services/Packager/README.md", "Shared/Brands/README.md", "Shared/Redis/README.md",
                "Shared/Adoption/README.md")
                == [])
    }

    @Test func everyMetricHasItsRow() throws {
        let registry = MetricsRegistry(MetricRow.packager)
        _ = PackagerMetrics(factory: registry)
        _ = KeyedWorkerMetrics(factory: registry)
        _ = PictureMetrics(factory: registry)
        PictureMetrics(areDocuments: true, factory: registry)
            .record(bytes: 1, of: 2, try OrderTypeIdentifier("order.com.example.shop"))
        _ = RestoreMetrics(factory: registry)
        _ = AssetMetrics(factory: registry)
        #expect(registry.undescribed == [])
    }

    @Test func twoHundredBrandsAddASeriesEach() {
        let registry = MetricsRegistry(MetricRow.packager)
        var notes = DeferralNotes()
        let groups = (0..<200).map { (name: "order.com.example.shop\($0)", count: 1, reason: String?.none) }
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let metrics = KeyedWorkerMetrics(factory: registry)
        func series() -> Int { registry.text.split(separator: "\n").count { !$0.hasPrefix("#") } }
        let before = series()
        notes.report((groups, 0), metrics, logger)
        #expect(series() - before == 200)
        #expect(registry.undescribed == [])
    }
}
