public import CoreMetrics
import Model
import Synchronization

/// A count that only grows.
final class CounterMetric: CounterHandler, Sendable {
    private let total = Atomic<Int64>(0)
    var value: Int64 { self.total.load(ordering: .relaxed) }
    func increment(by amount: Int64) { self.total.wrappingAdd(amount, ordering: .relaxed) }
    func reset() { self.total.store(0, ordering: .relaxed) }
}

/// A value that goes up and down.
final class GaugeMetric: MeterHandler, RecorderHandler, Sendable {
    private let current = Mutex<Double>(0)
    var value: Double { self.current.withLock { $0 } }
    func set(_ value: Int64) { self.set(Double(value)) }
    func set(_ value: Double) { self.current.withLock { $0 = value } }
    func increment(by amount: Double) { self.current.withLock { $0 += amount } }
    func decrement(by amount: Double) { self.current.withLock { $0 -= amount } }
    func record(_ value: Int64) { self.set(value) }
    func record(_ value: Double) { self.set(value) }
}

/// The number of values below each of some bounds.
final class HistogramMetric: TimerHandler, RecorderHandler, Sendable {
    /// For durations, in seconds: from a Redis answer to the wait before a retry.
    static let secondBounds = [
        0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
    ]
    /// For counts: batch sizes, bytes.
    static let countBounds: [Double] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000, 100_000, 1_000_000]

    private struct Counts {
        var buckets: [Int64]
        var sum: Double = 0
        var count: Int64 = 0
    }

    private let bounds: [Double]
    private let counts: Mutex<Counts>

    init(_ bounds: [Double]) {
        self.bounds = bounds
        self.counts = Mutex(Counts(buckets: Array(repeating: 0, count: bounds.count)))
    }

    func recordNanoseconds(_ duration: Int64) { self.record(Double(duration) / 1e9) }
    func record(_ value: Int64) { self.record(Double(value)) }

    func record(_ value: Double) {
        let bucket = self.bounds.firstIndex { value <= $0 }
        self.counts.withLock { counts in
            if let bucket { counts.buckets[bucket] += 1 }
            counts.sum += value
            counts.count += 1
        }
    }

    /// Records many values under one lock.
    func record(_ values: [Double]) {
        self.counts.withLock { counts in
            for value in values {
                if let bucket = self.bounds.firstIndex(where: { value <= $0 }) { counts.buckets[bucket] += 1 }
                counts.sum += value
                counts.count += 1
            }
        }
    }

    func text(_ name: MetricName) -> String {
        let counts = self.counts.withLock { $0 }
        var text = ""
        var below: Int64 = 0
        for (bound, bucket) in zip(self.bounds, counts.buckets) {
            below += bucket
            text += "\(name.series(suffix: "_bucket", extra: "le=\"\(bound)\"")) \(below)\n"
        }
        text += "\(name.series(suffix: "_bucket", extra: "le=\"+Inf\"")) \(counts.count)\n"
        text += "\(name.series(suffix: "_sum")) \(counts.sum)\n"
        text += "\(name.series(suffix: "_count")) \(counts.count)\n"
        return text
    }
}

extension Dictionary
where Key: CaseIterable & RawRepresentable, Key.RawValue == String, Value == Counter {
    /// Makes a counter for each case; a dimension names the case.
    public init(
        label: String, by dimension: String, dimensions: [(String, String)] = [], factory: any MetricsFactory
    ) {
        self.init(
            uniqueKeysWithValues: Key.allCases.map { key in
                (key, Counter(label: label, dimensions: dimensions + [(dimension, key.rawValue)], factory: factory))
            })
    }
}

/// Durations in buckets of the caller's choice, recorded in bursts.
///
/// With thousands of durations, one lock per burst costs less than one per duration. Thread: any.
public struct DurationHistogram: Sendable {
    private let metric: HistogramMetric?

    init(_ metric: HistogramMetric?) { self.metric = metric }

    /// Records one burst.
    public func record(seconds: [Double]) { self.metric?.record(seconds) }
}

extension MetricsRegistry {
    /// Returns a histogram with its own buckets, for durations whose range or resolution the buckets for requests do
    /// not cover.
    ///
    /// A second request for the same name and labels returns the first histogram, with the buckets it was made with.
    /// - Parameter bounds: the upper ends of the buckets in seconds, ascending.
    public func durations(
        _ label: String, dimensions: [(String, String)] = [], bounds: [Double]
    ) -> DurationHistogram {
        DurationHistogram(self.makeTimer(label: label, dimensions: dimensions, bounds: bounds) as? HistogramMetric)
    }
}

/// The version, and what the program was built from and runs with, as a metric.
enum BuildInformation {
    static func gauge(_ version: ProgramVersion, _ factory: any MetricsFactory) {
        Gauge(
            label: "waybill_build_info",
            dimensions: [
                ("version", ProgramVersion.number), ("commit", ProgramVersion.commit), ("swift", ProgramVersion.swift),
                ("librdkafka", version["librdkafka"]), ("openssl", version["OpenSSL"]),
            ], factory: factory
        ).record(1)
    }
}

/// The times that an upstream takes for its answers, by operation.
///
/// Thread: any. Bounded by the operations that the code names.
final class AnswerTimes: Sendable {
    private let label: String
    private let factory: any MetricsFactory
    private let timers = Mutex<[String: Timer]>([:])

    init(_ label: String, factory: any MetricsFactory) {
        self.label = label
        self.factory = factory
    }

    func record(_ operation: String, _ time: Duration) {
        let timer = self.timers.withLock { timers in
            if let timer = timers[operation] { return timer }
            let timer = Timer(label: self.label, dimensions: [("operation", operation)], factory: self.factory)
            timers[operation] = timer
            return timer
        }
        timer.recordSeconds(time / .seconds(1))
    }
}

/// True while the last attempt to read files that change at run time was successful.
public struct ReloadState: Sendable {
    private let meter: Meter

    /// - Parameter file: names what is read, as a label.
    public init(_ file: String, factory: any MetricsFactory) {
        self.meter = Meter(label: "waybill_reload_ok", dimensions: [("file", file)], factory: factory)
        self.report(true)
    }

    public func report(_ isGood: Bool) { self.meter.set(isGood ? 1 : 0) }
}

/// The expiry of certificates, as a metric.
public enum CertificateExpiry {
    /// Returns the gauge of a certificate's last second, in seconds since 1970.
    ///
    /// - Parameters:
    ///   - owner: an order type, `merchant NAME`, or `gateway`.
    ///   - certificate: its use.
    public static func meter(owner: String, certificate: String, factory: any MetricsFactory) -> Meter {
        Meter(
            label: "waybill_certificate_expiry_timestamp_seconds",
            dimensions: [("owner", owner), ("certificate", certificate)], factory: factory)
    }
}
