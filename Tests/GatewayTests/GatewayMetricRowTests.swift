import Foundation
import NIOHTTP1
import Operations
import TestKit
import Testing

@testable import Gateway

/// The table of the gateway's metrics.
@Suite struct GatewayMetricRowTests {
    @Test func theDocumentsRepeatTheTable() throws {
        let text = try ["Services/Gateway/README.md"].map {
            try String(contentsOf: Repository.root.appending(path: $0), encoding: .utf8)
        }.joined()
        for row in MetricRow.gateway + MetricRow.checkout {
            #expect(text.contains("\n\(row.markdown)\n"), "\(row.markdown)")
        }
    }

    @Test func everyMetricOfTheGatewayHasItsRow() {
        let registry = MetricsRegistry(MetricRow.gateway)
        _ = GatewayMetrics(factory: registry)
        _ = TransportMetrics(factory: registry)
        #expect(registry.undescribed == [])
    }

    @Test func everyMetricOfTheCheckoutRoleHasItsRow() {
        let registry = MetricsRegistry(MetricRow.checkout)
        let metrics = CheckoutMetrics(factory: registry)
        metrics.answered(.orders, merchant: "shop", .ok, nanoseconds: 1)
        metrics.loadFailed(merchant: "shop", true)
        metrics.certificateEnds(merchant: "shop", epochSeconds: 1)
        _ = TransportMetrics(factory: registry)
        #expect(registry.undescribed == [])
    }
}
