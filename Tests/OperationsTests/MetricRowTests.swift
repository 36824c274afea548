import CoreMetrics
import Kafka
import TestKit
import Testing

@testable import Operations

/// The table of the metrics of all services.
@Suite struct MetricRowTests {
    @Test func theDocumentRepeatsTheTable() throws {
        #expect(try Repository.lines(MetricRow.common.map(\.markdown), missingIn: "Shared/Operations/README.md") == [])
    }

    @Test func theHelpOfAMetricIsInItsText() {
        let registry = MetricsRegistry([MetricRow(.counter, "a_total", by: ["x"], "what \\ is\ncounted")])
        Counter(label: "a_total", dimensions: [("x", "1")], factory: registry).increment()
        Counter(label: "a_total", dimensions: [("x", "2")], factory: registry).increment()
        #expect(
            registry.text == """
                # HELP a_total what \\\\ is\\ncounted
                # TYPE a_total counter
                a_total{x="1"} 1
                a_total{x="2"} 1

                """)
        #expect(registry.undescribed == [])
    }

    @Test func aMetricThatDiffersFromItsRowIsNamed() {
        let registry = MetricsRegistry([
            MetricRow(.counter, "a_total", "a"), MetricRow(.gauge, "b", by: ["x", "y"], "b"),
        ])
        Meter(label: "a_total", factory: registry).set(1)
        Meter(label: "b", dimensions: [("x", "\",y=\""), ("y", "1")], factory: registry).set(1)
        Meter(label: "b", dimensions: [("y", "1")], factory: registry).set(1)
        Meter(label: "c", factory: registry).set(1)
        #expect(registry.undescribed == ["a_total gauge", "b{y} gauge", "c gauge"])
    }

    /// Source: Prometheus, "Metric and label naming"; what `promtool check metrics` refuses
    @Test func namesEndWithTheirUnit() {
        for row in MetricRow.common {
            #expect(row.name.hasSuffix("_total") == (row.kind == .counter), "\(row)")
            #expect(row.kind != .histogram || row.name.hasSuffix("_seconds"), "\(row)")
            #expect(row.name.firstMatch(of: /_(days|minutes|milliseconds|kilobytes)(_|$)/) == nil, "\(row)")
        }
    }

    @Test func aTopicThatLeavesHasNothingLeftToDo() {
        let registry = MetricsRegistry()
        var metrics = ConsumerMetrics(factory: registry)
        let progress = KafkaProgress(unworked: 3, committedLag: 12, oldestEpochMilliseconds: 1000)
        metrics.report(["t": progress], deferred: ["t": 4], commitFailures: 2, nowEpochMilliseconds: 3500)
        #expect(registry.text.contains("waybill_unworked_records{topic=\"t\"} 7.0"))
        #expect(registry.text.contains("waybill_committed_lag_records{topic=\"t\"} 12.0"))
        #expect(registry.text.contains("waybill_oldest_unfinished_seconds{topic=\"t\"} 2.5"))
        #expect(registry.text.contains("waybill_commit_failures_total 2"))
        metrics.report([:], deferred: [:], commitFailures: 2, nowEpochMilliseconds: 3500)
        #expect(registry.text.contains("waybill_unworked_records{topic=\"t\"} 0.0"))
        #expect(registry.text.contains("waybill_oldest_unfinished_seconds{topic=\"t\"} 0.0"))
        #expect(registry.text.contains("waybill_commit_failures_total 2"))
        #expect(registry.undescribed == [])
    }
}
