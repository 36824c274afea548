import Foundation
import Model
import NIOHTTP1
import TestKit
import Testing

@testable import Gateway
@testable import Operations

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

    @Test func theTableOfRightsHasWhatBothRolesCheck() {
        let topics = Topics()
        let roles = [
            (KafkaRole.gateway(topics), GatewayServer.needs(topics)), (.checkout(topics), Checkout.needs(topics)),
        ]
        for (role, needs) in roles {
            #expect(needs.filter(\.isRead).map(\.name) == role.reads)
            #expect(needs.filter(\.isWritten).map(\.name) == role.writes)
        }
    }

    @Test func aCheckOfBothRolesNamesAllFaultsOfTheConfiguration() async {
        let variables = ["WAYBILL_LOG_LEVEL": "loud", "WAYBILL_BRANDS": "/nowhere", "WAYBILL_DRAIN_SECONDS": "-1"]
        for make in [GatewayServer.preflight, Checkout.preflight] {
            let report = await make(variables, true)
            let text = report.text
            for part in ["LOG_LEVEL=loud", "DRAIN_SECONDS=-1", "WEB_SERVICE_URL: is required", "there is no brand"] {
                #expect(text.contains(part), "\(part) in \(text)")
            }
            #expect(report.exitCode == 78)
        }
    }
}
