import CoreMetrics

/// The state of one upstream, as a remark in `/readyz` and a metric.
///
/// It makes no service unready: another process of the same kind would do no better, and a load balancer would remove
/// all of them at once.
public struct UpstreamState: Sendable {
    private let name: String
    private let readiness: Readiness
    private let gauge: Gauge

    /// - Parameter name: the label of the metric, and the name of the remark.
    public init(_ name: String, readiness: Readiness, metrics: MetricsRegistry) {
        self.name = name
        self.readiness = readiness
        self.gauge = Gauge(label: "waybill_upstream_up", dimensions: [("upstream", name)], factory: metrics)
    }

    /// Reports what is known of it now.
    ///
    /// - Parameters:
    ///   - failure: the reason why it cannot be used; nil: it answers.
    ///   - remark: a fault of one that answers. No secrets, as in `failure`.
    public func report(_ failure: String?, remark: String? = nil) {
        self.readiness.note(self.name, failure ?? remark)
        self.gauge.record(failure == nil ? 1 : 0)
    }
}
