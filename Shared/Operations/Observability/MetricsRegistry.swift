public import CoreMetrics
import Synchronization

/// All metrics of the process, which it writes as Prometheus text.
///
/// The help of each comes from the table of the service. Bounded by the code that names metrics: labels come from
/// closed sets only. A counter is never removed, since it would start again from zero.
/// Source: Prometheus text exposition format 0.0.4
public final class MetricsRegistry: MetricsFactory, Sendable {
    private let metrics = Mutex<[MetricName: Metric]>([:])
    private let rows: [String: MetricRow]

    enum Metric {
        case counter(CounterMetric)
        case gauge(GaugeMetric)
        case histogram(HistogramMetric)
    }

    /// - Parameter table: a service's own metrics; those of all services are added.
    public init(_ table: [MetricRow] = []) {
        self.rows = Dictionary((table + MetricRow.common).map { ($0.name, $0) }) { first, _ in first }
    }

    private func metric(_ label: String, _ dimensions: [(String, String)], _ make: () -> Metric) -> Metric {
        let name = MetricName(label: label, dimensions: dimensions)
        return self.metrics.withLock { metrics in
            if let metric = metrics[name] { return metric }
            let metric = make()
            metrics[name] = metric
            return metric
        }
    }

    public func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        guard case .counter(let metric) = self.metric(label, dimensions, { .counter(CounterMetric()) }) else {
            return NOOPMetricsHandler.instance
        }
        return metric
    }

    public func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        guard case .gauge(let metric) = self.metric(label, dimensions, { .gauge(GaugeMetric()) }) else {
            return NOOPMetricsHandler.instance
        }
        return metric
    }

    public func makeRecorder(
        label: String, dimensions: [(String, String)], aggregate: Bool
    ) -> any RecorderHandler {
        if aggregate {
            let made = self.metric(label, dimensions) { .histogram(HistogramMetric(HistogramMetric.countBounds)) }
            if case .histogram(let metric) = made { return metric }
        } else if case .gauge(let metric) = self.metric(label, dimensions, { .gauge(GaugeMetric()) }) {
            return metric
        }
        return NOOPMetricsHandler.instance
    }

    public func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        self.makeTimer(label: label, dimensions: dimensions, bounds: HistogramMetric.secondBounds)
    }

    /// - Parameter bounds: upper ends of the buckets in seconds, ascending.
    func makeTimer(label: String, dimensions: [(String, String)], bounds: [Double]) -> any TimerHandler {
        let made = self.metric(label, dimensions) { .histogram(HistogramMetric(bounds)) }
        guard case .histogram(let metric) = made else { return NOOPMetricsHandler.instance }
        return metric
    }

    public func destroyCounter(_ handler: any CounterHandler) {}
    public func destroyMeter(_ handler: any MeterHandler) {
        self.metrics.withLock { metrics in
            metrics = metrics.filter { _, metric in
                guard case .gauge(let gauge) = metric else { return true }
                return gauge !== handler
            }
        }
    }
    public func destroyRecorder(_ handler: any RecorderHandler) {}
    public func destroyTimer(_ handler: any TimerHandler) {}

    /// All metrics, sorted by name and labels.
    public var text: String {
        let metrics = self.metrics.withLock { $0 }.sorted { $0.key < $1.key }
        var text = ""
        var typed: String?
        for (name, metric) in metrics {
            if typed != name.label {
                typed = name.label
                if let row = self.rows[name.label] { text += "# HELP \(row.name) \(row.helpText)\n" }
                text += "# TYPE \(name.label) \(metric.kind)\n"
            }
            switch metric {
            case .counter(let counter): text += "\(name.series()) \(counter.value)\n"
            case .gauge(let gauge): text += "\(name.series()) \(gauge.value)\n"
            case .histogram(let histogram): text += histogram.text(name)
            }
        }
        return text
    }
}

extension MetricsRegistry {
    /// The metrics that differ from their row of the table, or have none: with type or labels, sorted.
    public var undescribed: [String] {
        let metrics = self.metrics.withLock { $0 }
        return metrics.compactMap { name, metric in
            let row = MetricRow(metric.kind, name.label, by: name.dimensions, self.rows[name.label]?.help ?? "")
            return row == self.rows[name.label] ? nil : "\(row)"
        }.sorted()
    }
}

extension MetricsRegistry.Metric {
    var kind: MetricRow.Kind {
        switch self {
        case .counter: .counter
        case .gauge: .gauge
        case .histogram: .histogram
        }
    }
}

/// A metric's name and labels.
struct MetricName: Hashable, Comparable {
    let label: String
    /// `name="value"`, in the order of the code that made the metric.
    let labels: String

    init(label: String, dimensions: [(String, String)]) {
        self.label = label
        self.labels = dimensions.map { "\($0.0)=\"\(Self.escaped($0.1))\"" }.joined(separator: ",")
    }

    /// The names of its labels.
    var dimensions: [String] {
        self.labels.matches(of: /([a-z_]+)="(?:[^"\\]|\\.)*"/).map { String($0.output.1) }
    }

    static func < (left: Self, right: Self) -> Bool { (left.label, left.labels) < (right.label, right.labels) }

    /// Returns the name of one series, for instance `waybill_pushes_total{outcome="delivered"}`.
    func series(suffix: String = "", extra: String = "") -> String {
        let all = [self.labels, extra].filter { !$0.isEmpty }.joined(separator: ",")
        return all.isEmpty ? "\(self.label)\(suffix)" : "\(self.label)\(suffix){\(all)}"
    }

    private static func escaped(_ value: String) -> String {
        // By scalar: a carriage return and a line feed are one character, but still a line end.
        value.unicodeScalars.map { scalar -> String in
            switch scalar {
            case "\\": "\\\\"
            case "\"": "\\\""
            case "\n": "\\n"
            default: String(scalar)
            }
        }.joined()
    }
}
