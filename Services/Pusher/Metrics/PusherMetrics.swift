import CoreMetrics
import Model
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
    /// Changes and registrations of which nobody is told because they are too old.
    let recordsStale: Counter
    /// Records that wait until their credential has room.
    let recordsParked: Meter
    /// Orders, or devices of them, that were written to the pending topic.
    let pendingWritten: Counter
    /// Those that were done since.
    let pendingTold: Counter
    /// 1 when the pending topic is in use, 0 when what waits stays in memory.
    let pendingTopic: Meter
    /// Lookups that failed and are tried again.
    let lookupRetries: Counter
    /// Devices that were not told of a change, since their order has more than are told of one.
    let devicesUntold: Counter
    private let recordsInHand: Meter
    private let waiting: Meter
    private let ready: Meter
    private let inFlight: Meter
    private let settling: Meter
    /// For how long nothing was finished although something is in hand: a stall that the group cannot see.
    private let quietSeconds: Meter
    private let factory: MetricsRegistry
    private let host: String
    private let credentials = Mutex<[String: CredentialMetrics]>([:])

    /// - Parameter host: `host:port` of APNs, a label of all that is told of credentials.
    init(factory: MetricsRegistry, host: String) {
        self.factory = factory
        self.host = host
        self.recordsConsumed = Counter(label: "waybill_records_consumed_total", factory: factory)
        self.recordsUnreadable = Counter(label: "waybill_records_unreadable_total", factory: factory)
        self.recordsStale = Counter(label: "waybill_push_records_stale_total", factory: factory)
        self.recordsParked = Meter(label: "waybill_push_records_parked", factory: factory)
        self.pendingWritten = Counter(label: "waybill_push_pending_written_total", factory: factory)
        self.pendingTold = Counter(label: "waybill_push_pending_told_total", factory: factory)
        self.pendingTopic = Meter(label: "waybill_push_pending_topic", factory: factory)
        self.lookupRetries = Counter(label: "waybill_batch_retries_total", factory: factory)
        self.devicesUntold = Counter(label: "waybill_push_devices_untold_total", factory: factory)
        func targets(_ state: String) -> Meter {
            Meter(label: "waybill_push_targets", dimensions: [("state", state)], factory: factory)
        }
        self.recordsInHand = Meter(label: "waybill_records_in_hand", factory: factory)
        self.waiting = targets("waiting")
        self.ready = targets("ready")
        self.inFlight = targets("in_flight")
        self.settling = targets("settling")
        self.quietSeconds = Meter(label: "waybill_worker_quiet_seconds", factory: factory)
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
    var strangers: CredentialMetrics { self[Self.stranger] }
    static let stranger = "none"

    /// The metrics that a letter belongs to.
    func of(_ letter: PushLetter) -> CredentialMetrics {
        letter.code == .brandMissing ? self.strangers : self[letter.registration.order.orderType.rawValue]
    }

    /// How the desk stands.
    ///
    /// - Parameter quiet: nil when nothing is in hand.
    func report(_ census: PushCensus, quiet: Duration?) {
        self.recordsInHand.set(census.records)
        self.waiting.set(census.waiting)
        self.ready.set(census.ready)
        self.inFlight.set(census.inFlight)
        self.settling.set(census.settling)
        self.quietSeconds.set((quiet ?? .zero) / .seconds(1))
    }

    /// Takes the gauges off of all credentials but these.
    func keep(_ names: Set<String>) {
        let gone = self.credentials.withLock { credentials in credentials.filter { !names.contains($0.key) } }
        for metrics in gone.values { metrics.retire() }
    }
}
