import CoreMetrics

/// The pusher's metrics, named once.
struct PusherMetrics: Sendable {
    /// Records taken from `waybill.orders` and `waybill.registrations`.
    let recordsConsumed: Counter
    /// Records that could not be understood.
    let recordsUnreadable: Counter
    /// Notifications that APNs took.
    let delivered: Counter
    /// Push tokens that APNs said are gone, and that were taken off.
    let retired: Counter
    /// Attempts that are repeated.
    let retried: Counter
    /// Notifications that were given up.
    let dropped: Counter
    /// Notifications that were saved because the device was told in the same batch anyway.
    let merged: Counter
    /// From a version's publication to APNs' answer.
    let age: Timer

    init(factory: any MetricsFactory) {
        func pushes(_ outcome: String) -> Counter {
            Counter(label: "waybill_pushes_total", dimensions: [("outcome", outcome)], factory: factory)
        }
        self.recordsConsumed = Counter(label: "waybill_records_consumed_total", factory: factory)
        self.recordsUnreadable = Counter(label: "waybill_records_unreadable_total", factory: factory)
        self.delivered = pushes("delivered")
        self.retired = pushes("retired")
        self.retried = pushes("retried")
        self.dropped = pushes("dropped")
        self.merged = pushes("merged")
        self.age = Timer(label: "waybill_push_age_seconds", factory: factory)
    }
}
