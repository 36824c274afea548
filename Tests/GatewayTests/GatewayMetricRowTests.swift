import Model
import TestKit
import Testing

@testable import Gateway
@testable import HTTPServer
@testable import Operations

/// The table of the gateway's metrics.
@Suite struct GatewayMetricRowTests {
    @Test func theDocumentsRepeatTheTable() throws {
        #expect(
            try Repository.lines(
                MetricRow.gateway.map(\.markdown), missingIn: "Services/Gateway/README.md",
                "Shared/HTTPServer/README.md", "Shared/Adoption/README.md") == [])
    }

    @Test func everyMetricOfTheGatewayHasItsRow() {
        let registry = MetricsRegistry(MetricRow.gateway)
        _ = GatewayMetrics(factory: registry)
        TransportMetrics(factory: registry).certificateEnds(epochSeconds: 1)
        #expect(registry.undescribed == [])
    }

    @Test func theTableOfRightsHasWhatTheRoleChecks() {
        let topics = Topics()
        let (role, needs) = (KafkaRole.gateway(topics), GatewayServer.needs(topics))
        #expect(needs.filter(\.isRead).map(\.name) == role.reads)
        #expect(needs.filter(\.isWritten).map(\.name) == role.writes)
    }

    @Test func aCheckNamesAllFaultsOfTheConfiguration() async {
        let variables = ["WAYBILL_LOG_LEVEL": "loud", "WAYBILL_BRANDS": "/nowhere", "WAYBILL_DRAIN_SECONDS": "-1"]
        let report = await GatewayServer.preflight(variables, isOffline: true)
        let text = report.text
        for part in ["LOG_LEVEL=loud", "DRAIN_SECONDS=-1", "WEB_SERVICE_URL: is required", "there is no brand"] {
            #expect(text.contains(part), "\(part) in \(text)")
        }
        #expect(report.exitCode == 78)
    }
}
