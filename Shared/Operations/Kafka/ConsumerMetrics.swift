import CoreMetrics
import FoundationEssentials
public import Kafka

/// The metrics of a member of a consumer group: what it still has to do, by topic, and commits that failed.
///
/// Bounded by the topics of its partitions since the start.
public struct ConsumerMetrics {
    private struct Meters {
        let unworked: Meter
        let committedLag: Meter
        let oldest: Meter
    }

    private let factory: MetricsRegistry
    private let commitFailures: Counter
    private var topics: [String: Meters] = [:]
    private var failures = 0

    public init(factory: MetricsRegistry) {
        self.factory = factory
        self.commitFailures = Counter(label: "waybill_commit_failures_total", factory: factory)
    }

    /// Sets the gauges; those of a topic without a partition become 0.
    ///
    /// - Parameter deferred: the number of records of each topic that are to be read again.
    public mutating func report(_ consumer: KafkaConsumer, deferred: [String: Int] = [:]) {
        self.report(
            consumer.progress, deferred: deferred, commitFailures: consumer.commitFailures,
            nowEpochMilliseconds: Int64(Date().timeIntervalSince1970 * 1000))
    }

    mutating func report(
        _ progress: [String: KafkaProgress], deferred: [String: Int], commitFailures: Int,
        nowEpochMilliseconds now: Int64
    ) {
        for topic in Set(self.topics.keys).union(progress.keys) {
            let meters = self.topics[topic] ?? self.meters(of: topic)
            self.topics[topic] = meters
            let found = progress[topic] ?? KafkaProgress()
            meters.unworked.set(found.unworked + Int64(deferred[topic] ?? 0))
            meters.committedLag.set(found.committedLag)
            meters.oldest.set(found.oldestEpochMilliseconds.map { Double(max(0, now - $0)) / 1000 } ?? 0)
        }
        self.commitFailures.increment(by: commitFailures - self.failures)
        self.failures = commitFailures
    }

    private func meters(of topic: String) -> Meters {
        func meter(_ label: String) -> Meter {
            Meter(label: label, dimensions: [("topic", topic)], factory: self.factory)
        }
        return Meters(
            unworked: meter("waybill_unworked_records"), committedLag: meter("waybill_committed_lag_records"),
            oldest: meter("waybill_oldest_unfinished_seconds"))
    }
}
