import CoreMetrics
import Operations
import Synchronization

/// The pusher's metrics, named once.
///
/// Thread: any. Bounded: one entry for each credential that was there since the start.
final class PusherMetrics: Sendable {
    /// Records taken from `waybill.orders` and `waybill.registrations`.
    let recordsConsumed: Counter
    /// Records that could not be understood.
    let recordsUnreadable: Counter
    private let factory: MetricsRegistry
    private let host: String
    private let credentials = Mutex<[String: CredentialMetrics]>([:])

    /// - Parameter host: `host:port` of APNs, a label of all that is told of credentials.
    init(factory: MetricsRegistry, host: String) {
        self.factory = factory
        self.host = host
        self.recordsConsumed = Counter(label: "waybill_records_consumed_total", factory: factory)
        self.recordsUnreadable = Counter(label: "waybill_records_unreadable_total", factory: factory)
    }

    /// The metrics of a credential, always the same ones; whoever uses them often keeps them.
    subscript(_ credential: String) -> CredentialMetrics {
        self.credentials.withLock { credentials in
            if let metrics = credentials[credential] { return metrics }
            let metrics = CredentialMetrics(name: credential, host: self.host, factory: self.factory)
            credentials[credential] = metrics
            return metrics
        }
    }

    /// What has no brand, and so no credential: one name for all, since anybody may publish order types.
    var strangers: CredentialMetrics { self["none"] }

    /// Takes the gauges off of all credentials but these.
    func keep(_ names: Set<String>) {
        let gone = self.credentials.withLock { credentials in credentials.filter { !names.contains($0.key) } }
        for metrics in gone.values { metrics.retire() }
    }
}
