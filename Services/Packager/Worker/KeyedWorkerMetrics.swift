import CoreMetrics
import Logging
import Operations

/// The metrics of a `KeyedWorker`.
struct KeyedWorkerMetrics: Sendable {
    /// The number of times that a key had to be retried.
    let retries: Counter
    /// Records and keys per batch.
    private let batchRecords: Recorder
    private let batchKeys: Recorder
    private let parkedKeys: Meter
    private let parkedSeconds: Meter
    private let recordsInHand: Meter
    private let bytesInHand: Meter
    /// The time for which nothing was finished although records are in hand: a stall that the group cannot see.
    private let quietSeconds: Meter
    /// Keys that are worked on alone, since they were in work when a worker ended.
    let suspectKeys: Meter
    /// Records that were deferred and were deleted before they were read again.
    fileprivate let lost: Counter
    let factory: MetricsRegistry

    init(factory: MetricsRegistry) {
        self.retries = Counter(label: "waybill_batch_retries_total", factory: factory)
        self.batchRecords = Recorder(label: "waybill_batch_records", aggregate: true, factory: factory)
        self.batchKeys = Recorder(label: "waybill_batch_keys", aggregate: true, factory: factory)
        self.parkedKeys = Meter(label: "waybill_parked_keys", factory: factory)
        self.parkedSeconds = Meter(label: "waybill_parked_oldest_seconds", factory: factory)
        self.recordsInHand = Meter(label: "waybill_records_in_hand", factory: factory)
        self.bytesInHand = Meter(label: "waybill_bytes_in_hand", factory: factory)
        self.quietSeconds = Meter(label: "waybill_worker_quiet_seconds", factory: factory)
        self.suspectKeys = Meter(label: "waybill_suspect_keys", factory: factory)
        self.lost = Counter(label: "waybill_waiting_records_lost_total", factory: factory)
        self.factory = factory
    }

    func began(_ works: [KeyedWork]) {
        self.batchKeys.record(works.count)
        self.batchRecords.record(works.reduce(0) { $0 + $1.records.count })
    }

    /// - Parameters:
    ///   - oldest: the time for which the first key to be retried has waited; nil: none has to be.
    ///   - quiet: nil if nothing is in hand.
    func report(_ look: KeyQueueDriver.Look, oldest: Duration?, quiet: Duration?) {
        self.parkedKeys.set(look.delayed)
        self.parkedSeconds.set((oldest ?? .zero) / .seconds(1))
        self.recordsInHand.set(look.records)
        self.bytesInHand.set(look.bytes)
        self.quietSeconds.set((quiet ?? .zero) / .seconds(1))
    }
}

/// Reports to metrics and log which groups have deferred records. Bounded by the known groups.
struct DeferralNotes {
    private var meters: [String: Meter] = [:]
    /// Groups whose waiting has been logged.
    private var logged: Set<String> = []
    private var gone = 0

    mutating func report(
        _ putOff: (groups: [(name: String, count: Int, reason: String?)], gone: Int),
        _ metrics: KeyedWorkerMetrics, _ logger: Logger
    ) {
        for group in putOff.groups where group.count > 0 || self.meters[group.name] != nil {
            let meter =
                self.meters[group.name]
                ?? Meter(
                    label: "waybill_waiting_records", dimensions: [("brand", group.name)], factory: metrics.factory)
            self.meters[group.name] = meter
            meter.set(group.count)
            if let reason = group.reason, group.count > 0, self.logged.insert(group.name).inserted {
                logger.warning(
                    "changes of this brand wait until it can be loaded",
                    metadata: ["brand": "\(group.name)", "error": "\(reason)"])
            } else if group.count == 0, self.logged.remove(group.name) != nil {
                logger.info("no changes of this brand are waiting any more", metadata: ["brand": "\(group.name)"])
            }
        }
        guard putOff.gone > self.gone else { return }
        metrics.lost.increment(by: putOff.gone - self.gone)
        logger.error(
            "retention deleted changes before they were processed",
            metadata: [
                "records": "\(putOff.gone - self.gone)", "action": "raise the topic's retention.ms or retention.bytes",
            ])
        self.gone = putOff.gone
    }
}
