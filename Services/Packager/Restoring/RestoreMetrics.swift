import CoreMetrics

/// The metrics of restoring, named once.
struct RestoreMetrics: Sendable {
    /// 1 while the view in Redis is complete, else 0.
    let viewComplete: Gauge
    /// Records that are still to be read, by all packagers together.
    let remaining: Gauge
    /// Records that were read to restore the view.
    let records: Counter
    /// Orders that were packaged again and written.
    let orders: Counter
    /// Restored orders that had to be signed again.
    let signatures: Counter
    /// Those among them whose published signature was not valid.
    let damagedSignatures: Counter
    /// Registrations, and ends of them, that were written.
    let registrations: Counter
    /// Orders whose type has no brand.
    let unknownTypes: Counter
    /// Records that cannot be read and orders that cannot be packaged.
    let refused: Counter
    /// Orders that wait for their brand to load.
    let waiting: Gauge
    /// The number of restores begun because a view was incomplete or had fallen back.
    let restores: Counter

    init(factory: any MetricsFactory) {
        self.viewComplete = Gauge(label: "waybill_view_complete", factory: factory)
        self.remaining = Gauge(label: "waybill_restore_remaining", factory: factory)
        self.records = Counter(label: "waybill_restore_records_total", factory: factory)
        self.orders = Counter(label: "waybill_restore_orders_total", factory: factory)
        self.signatures = Counter(label: "waybill_restore_signatures_total", factory: factory)
        self.damagedSignatures = Counter(label: "waybill_restore_damaged_signatures_total", factory: factory)
        self.registrations = Counter(label: "waybill_restore_registrations_total", factory: factory)
        self.unknownTypes = Counter(label: "waybill_restore_strangers_total", factory: factory)
        self.refused = Counter(label: "waybill_restore_refused_total", factory: factory)
        self.waiting = Gauge(label: "waybill_restore_waiting", factory: factory)
        self.restores = Counter(label: "waybill_restores_total", factory: factory)
    }
}
