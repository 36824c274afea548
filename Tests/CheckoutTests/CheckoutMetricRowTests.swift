import Model
import NIOHTTP1
import TestKit
import Testing

@testable import Checkout
@testable import HTTPServer
@testable import Operations

/// The table of the checkout role's metrics, and what it requires.
@Suite struct CheckoutMetricRowTests {
    @Test func theDocumentsRepeatTheTable() throws {
        #expect(
            try Repository.lines(
                MetricRow.checkout.map(\.markdown), missingIn: "Services/Checkout/README.md",
                "Shared/HTTPServer/README.md", "Shared/Adoption/README.md") == [])
    }

    @Test func everyMetricOfTheCheckoutRoleHasItsRow() {
        let registry = MetricsRegistry(MetricRow.checkout)
        let metrics = CheckoutMetrics(factory: registry)
        metrics.answered(.orders, merchant: "shop", .ok, nanoseconds: 1)
        metrics.signed("orders", .repeated)
        metrics.loadFailed(merchant: "shop", true)
        metrics.certificateEnds(merchant: "shop", epochSeconds: 1)
        TransportMetrics(factory: registry).certificateEnds(epochSeconds: 1)
        #expect(registry.undescribed == [])
    }

    @Test func theTableOfRightsHasWhatTheRoleChecks() {
        let topics = Topics()
        let (role, needs) = (KafkaRole.checkout(topics), Checkout.needs(topics))
        #expect(needs.filter(\.isRead).map(\.name) == role.reads)
        #expect(needs.filter(\.isWritten).map(\.name) == role.writes)
    }

    @Test func aCheckNamesAllFaultsOfTheConfiguration() async {
        let variables = ["WAYBILL_LOG_LEVEL": "loud", "WAYBILL_BRANDS": "/nowhere", "WAYBILL_DRAIN_SECONDS": "-1"]
        let version = ProgramVersion("test", libraries: [])
        let report = await Checkout.preflight(variables, isOffline: true, version: version)
        let text = report.text
        for part in ["LOG_LEVEL=loud", "DRAIN_SECONDS=-1", "WEB_SERVICE_URL: is required", "there is no brand"] {
            #expect(text.contains(part), "\(part) in \(text)")
        }
        #expect(report.exitCode == 78)
    }
}
