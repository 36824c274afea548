import CoreMetrics

/// What a `KeyedWorker` tells of itself.
struct KeyedWorkerMetrics: Sendable {
    /// How often a key had to be put off.
    let retries: Counter
    /// Records and keys of a batch.
    private let batchRecords: Recorder
    private let batchKeys: Recorder
    private let parkedKeys: Meter
    private let parkedSeconds: Meter
    private let recordsInHand: Meter
    private let bytesInHand: Meter
    /// For how long nothing was finished although something is in hand: a stall that the group cannot see.
    private let quietSeconds: Meter

    init(factory: any MetricsFactory) {
        self.retries = Counter(label: "waybill_batch_retries_total", factory: factory)
        self.batchRecords = Recorder(label: "waybill_batch_records", aggregate: true, factory: factory)
        self.batchKeys = Recorder(label: "waybill_batch_keys", aggregate: true, factory: factory)
        self.parkedKeys = Meter(label: "waybill_parked_keys", factory: factory)
        self.parkedSeconds = Meter(label: "waybill_parked_oldest_seconds", factory: factory)
        self.recordsInHand = Meter(label: "waybill_records_in_hand", factory: factory)
        self.bytesInHand = Meter(label: "waybill_bytes_in_hand", factory: factory)
        self.quietSeconds = Meter(label: "waybill_worker_quiet_seconds", factory: factory)
    }

    func began(_ works: [KeyedWork]) {
        self.batchKeys.record(works.count)
        self.batchRecords.record(works.reduce(0) { $0 + $1.records.count })
    }

    /// - Parameters:
    ///   - oldest: how long the first key waits that has to be tried again; nil: none has to.
    ///   - quiet: nil when nothing is in hand.
    func report(_ look: KeyedDesk.Look, oldest: Duration?, quiet: Duration?) {
        self.parkedKeys.set(look.delayed)
        self.parkedSeconds.set((oldest ?? .zero) / .seconds(1))
        self.recordsInHand.set(look.records)
        self.bytesInHand.set(look.bytes)
        self.quietSeconds.set((quiet ?? .zero) / .seconds(1))
    }
}
