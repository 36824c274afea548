import CoreMetrics
import FoundationEssentials
import Kafka
import Model
package import Operations
import Synchronization

/// The pusher's metrics, named in one place.
///
/// Thread: any. Bounded: one entry for each credential since the start.
package final class PusherMetrics: Sendable {
    /// Records taken from `waybill.orders` and `waybill.registrations`.
    let recordsConsumed: Counter
    /// Records that could not be parsed.
    let recordsUnreadable: Counter
    /// Changes and registrations without a notification because they are too old.
    let recordsStale: Counter
    /// Records whose devices were notified before their group lost its offsets.
    let recordsDuplicate: Counter
    /// Records that wait until their credential has room.
    let recordsParked: Meter
    /// Orders, or devices of them, that were written to the pending topic.
    let pendingWritten: Counter
    /// Orders, or devices of them, that were finished in the pending topic.
    let pendingCompleted: Counter
    /// Lookups that failed and are retried.
    let lookupRetries: Counter
    /// Devices that were not notified of a change, since their order has more devices than are notified of one change.
    let devicesSkipped: Counter
    /// Keys that are taken alone, since they were in work when a pusher ended.
    let suspectKeys: Meter
    /// Registrations whose notification waits, since their orders have used up the share of registrations.
    let registrationsLimited: Counter
    private let recordsInHand: Meter
    private let waiting: Meter
    private let ready: Meter
    private let inFlight: Meter
    private let settling: Meter
    /// Time for which nothing was finished although records are in hand: a stall that the consumer group does not
    /// detect.
    private let quietSeconds: Meter
    private let lookupAges: DurationHistogram
    private let progress: Mutex<ConsumerMetrics>
    private let pendingProgress: Mutex<ConsumerMetrics>
    private let factory: MetricsRegistry
    private let host: String
    private let credentials = Mutex<[String: CredentialMetrics]>([:])

    /// - Parameter host: `host:port` of APNs, a label of all metrics about credentials.
    package init(factory: MetricsRegistry, host: String) {
        self.factory = factory
        self.host = host
        self.recordsConsumed = Counter(label: "waybill_records_consumed_total", factory: factory)
        self.recordsUnreadable = Counter(label: "waybill_records_unreadable_total", factory: factory)
        self.recordsStale = Counter(label: "waybill_push_records_stale_total", factory: factory)
        self.recordsDuplicate = Counter(label: "waybill_push_records_duplicate_total", factory: factory)
        self.recordsParked = Meter(label: "waybill_push_records_parked", factory: factory)
        self.pendingWritten = Counter(label: "waybill_push_pending_written_total", factory: factory)
        self.pendingCompleted = Counter(label: "waybill_push_pending_completed_total", factory: factory)
        self.lookupRetries = Counter(label: "waybill_batch_retries_total", factory: factory)
        self.devicesSkipped = Counter(label: "waybill_push_devices_skipped_total", factory: factory)
        self.suspectKeys = Meter(label: "waybill_suspect_keys", factory: factory)
        self.registrationsLimited = Counter(label: "waybill_push_registrations_limited_total", factory: factory)
        func targets(_ state: String) -> Meter {
            Meter(label: "waybill_push_targets", dimensions: [("state", state)], factory: factory)
        }
        self.recordsInHand = Meter(label: "waybill_records_in_hand", factory: factory)
        self.waiting = targets("waiting")
        self.ready = targets("ready")
        self.inFlight = targets("in_flight")
        self.settling = targets("settling")
        self.lookupAges = factory.durations("waybill_push_lookup_age_seconds", bounds: CredentialMetrics.ageBounds)
        self.progress = Mutex(ConsumerMetrics(factory: factory))
        self.pendingProgress = Mutex(ConsumerMetrics(factory: factory))
        self.quietSeconds = Meter(label: "waybill_worker_quiet_seconds", factory: factory)
    }

    /// The metrics of a credential, always the same object; frequent users keep it.
    package subscript(_ credential: String) -> CredentialMetrics {
        self.credentials.withLock { credentials in
            if let metrics = credentials[credential] { return metrics }
            let metrics = CredentialMetrics(name: credential, host: self.host, factory: self.factory)
            credentials[credential] = metrics
            return metrics
        }
    }

    /// The metrics of notifications without a brand, and so without a credential: one name for all, since any publisher
    /// may name order types.
    package var unknownTypes: CredentialMetrics { self[Self.unknownType] }
    static let unknownType = "none"

    /// Sets the gauges of the scheduler.
    ///
    /// - Parameter quiet: nil if nothing is in hand.
    package func report(_ gauges: PushGauges, quiet: Duration?) {
        self.recordsInHand.set(gauges.records)
        self.waiting.set(gauges.waiting)
        self.ready.set(gauges.ready)
        self.inFlight.set(gauges.inFlight)
        self.settling.set(gauges.settling)
        self.quietSeconds.set((quiet ?? .zero) / .seconds(1))
    }

    /// Sets the gauges of what is left to do, in the topics of changes and in the pending topic.
    func report(_ consumer: KafkaConsumer, pending: KafkaConsumer) {
        self.progress.withLock { $0.report(consumer) }
        self.pendingProgress.withLock { $0.report(pending) }
    }

    /// Records the ages of changes whose devices are known now.
    ///
    /// - Parameter times: of their publication, in milliseconds since 1970; a negative one is not known.
    func lookedUp(_ times: some Sequence<Int64>) {
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        self.lookupAges.record(seconds: times.filter { $0 >= 0 }.map { Double(max(0, now - $0)) / 1000 })
    }

    /// Removes the gauges of all credentials but these.
    func removeGauges(except names: Set<String>) {
        let gone = self.credentials.withLock { credentials in credentials.filter { !names.contains($0.key) } }
        for metrics in gone.values { metrics.retire() }
    }
}
