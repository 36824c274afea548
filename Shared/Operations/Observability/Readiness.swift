import CoreMetrics
import Synchronization

/// The conditions that a service still waits for before it can do its work. Ready means that none is left.
///
/// A condition is about what the process can do by its own means. An upstream that is away is a remark.
public final class Readiness: Sendable {
    private let missing: Mutex<[String: String]>
    private let notes = Mutex<[String: String]>([:])

    /// - Parameter conditions: the conditions to be met, each a short name such as `redis`.
    public init(conditions: [String]) {
        self.missing = Mutex(Dictionary(conditions.map { ($0, "not yet") }) { first, _ in first })
    }

    public func met(_ condition: String) { self.missing.withLock { $0[condition] = nil } }

    /// - Parameter reason: for `/readyz`; no secrets.
    public func unmet(_ condition: String, _ reason: String) { self.missing.withLock { $0[condition] = reason } }

    /// Sets the reason of a condition, if it is not met.
    public func explain(_ condition: String, _ reason: String) {
        self.missing.withLock { if $0[condition] != nil { $0[condition] = reason } }
    }

    /// Adds a remark to `/readyz` about a fault that another process of the same kind would have as well; it does not
    /// make the service unready.
    ///
    /// - Parameter reason: no secrets; nil removes the remark.
    public func note(_ condition: String, _ reason: String?) { self.notes.withLock { $0[condition] = reason } }

    /// Remarks about a service that may be ready, `name: reason` sorted.
    public var remarks: [String] {
        self.notes.withLock { $0.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" } }
    }

    /// The names of the unmet conditions, sorted; empty when ready.
    var missingConditions: [String] { self.missing.withLock { $0.keys.sorted() } }

    /// The unmet conditions, `name: reason` sorted; empty when ready.
    public var reasons: [String] {
        self.missing.withLock { $0.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" } }
    }
}

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
