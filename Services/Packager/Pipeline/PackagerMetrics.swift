import CoreMetrics
import Model
import Operations

/// The packager's metrics, named once.
struct PackagerMetrics: Sendable {
    /// Records taken from `waybill.order-changes`.
    let changesConsumed: Counter
    /// Changes that changed an order.
    let changesApplied: Counter
    /// Changes that said nothing new.
    let changesUnchanged: Counter
    /// Changes that were seen before or came out of sequence.
    let changesSkipped: [ChangeOutcome.Skip: Counter]
    /// Changes that shared a signature with a later one of their order.
    let changesConflated: Counter
    /// Records that became dead letters.
    let deadLetters: Counter
    /// Packages that were built and signed.
    let packagesBuilt: Counter
    /// Versions that were stored without a package, which is made when somebody asks for it.
    let packagesLeft: Counter
    /// Those that were made then.
    let packagesRequested: Counter
    /// Files that an order names and its brand does not have; they were left out of the package.
    let filesOmitted: Counter
    /// Packaged versions of each brand, and those of them that do not keep a guideline, by brand and guideline.
    let guidelines: GuidelineMetrics
    /// Writes that found another version than was read.
    let conflicts: Counter
    /// Versions that were published after a later one was stored: their partition had moved to another worker.
    let overtaken: Counter
    /// Orders that do not exist yet and whose updates wait.
    let unknownOrders: Gauge
    /// Dead letters that were applied when their order was created.
    let earlyApplied: Counter
    /// Bytes of stored documents that are in memory.
    let documentBytes: Gauge
    /// The time from a change's arrival in Kafka to its package in Redis.
    let age: Timer
    /// The time of each step: reading, writing and publishing of a batch, folding and signing of an order.
    private let steps: [ChangeStep: Timer]

    init(factory: any MetricsFactory) {
        self.changesConsumed = Counter(label: "waybill_changes_consumed_total", factory: factory)
        self.changesApplied = Counter(label: "waybill_changes_applied_total", factory: factory)
        self.changesUnchanged = Counter(label: "waybill_changes_unchanged_total", factory: factory)
        self.changesSkipped = Dictionary(label: "waybill_changes_skipped_total", by: "reason", factory: factory)
        self.changesConflated = Counter(label: "waybill_changes_conflated_total", factory: factory)
        self.deadLetters = Counter(label: "waybill_dead_letters_total", factory: factory)
        self.packagesBuilt = Counter(label: "waybill_packages_built_total", factory: factory)
        self.packagesLeft = Counter(label: "waybill_packages_left_total", factory: factory)
        self.packagesRequested = Counter(label: "waybill_packages_requested_total", factory: factory)
        self.filesOmitted = Counter(label: "waybill_files_omitted_total", factory: factory)
        self.guidelines = GuidelineMetrics(factory: factory)
        self.conflicts = Counter(label: "waybill_write_conflicts_total", factory: factory)
        self.overtaken = Counter(label: "waybill_versions_overtaken_total", factory: factory)
        self.unknownOrders = Gauge(label: "waybill_unknown_orders_waiting", factory: factory)
        self.earlyApplied = Counter(label: "waybill_early_changes_applied_total", factory: factory)
        self.documentBytes = Gauge(label: "waybill_documents_in_hand_bytes", factory: factory)
        self.age = Timer(label: "waybill_change_age_seconds", factory: factory)
        self.steps = Dictionary(
            uniqueKeysWithValues: ChangeStep.allCases.map { step in
                let dimensions = [("step", step.rawValue)]
                return (step, Timer(label: "waybill_change_step_seconds", dimensions: dimensions, factory: factory))
            })
    }

    /// Records the time that a step took since it began.
    func ended(_ step: ChangeStep, since began: ContinuousClock.Instant) {
        self.steps[step]?.recordSeconds((.now - began) / .seconds(1))
    }
}

/// A step on the way of a change, as a label.
enum ChangeStep: String, CaseIterable {
    case read, fold, sign, write, publish
}
