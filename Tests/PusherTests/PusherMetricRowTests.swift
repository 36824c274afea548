import APNS
import Operations
import TestKit
import Testing

@testable import Pusher

/// The table of the pusher's metrics.
@Suite struct PusherMetricRowTests {
    @Test func theDocumentsRepeatTheTable() throws {
        #expect(
            try Repository.lines(
                MetricRow.pusher.map(\.markdown), missingIn: "Services/Pusher/README.md", "Shared/Adoption/README.md")
                == [])
    }

    /// Each brand has a credential of its own, with a few dozen series; histograms are for all of them.
    @Test func aPusherWithTwoHundredBrandsHasBelowTenThousandSeries() {
        let registry = MetricsRegistry(MetricRow.pusher)
        let metrics = PusherMetrics(factory: registry, host: "apns:443")
        let events: [APNSEvent] = [
            .connected, .disconnected(APNSError(.connecting, "")), .goAway(reason: nil, code: "NO_ERROR"),
            .streamLimit(1), .refusedStreams(1), .pingRoundTrip(.zero), .replaced(.goAway),
        ]
        for number in 0..<200 {
            let credential = metrics["order.com.example.shop\(number)"]
            credential.set(APNSSnapshot())
            credential.set(credential: 0, breaker: 0)
            credential.pending(0)
            for status in [200, 429, 503] { credential.answered(.answered(PushAnswer(status: status)), elapsed: .zero) }
            for event in events { credential.happened(event) }
        }
        let series = registry.text.split(separator: "\n").count { !$0.hasPrefix("#") }
        #expect(series < 10_000)
        #expect(registry.undescribed == [])
    }
}
