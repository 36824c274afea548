import CoreMetrics
import Lua
import Model
import Synchronization

/// The metrics of the role `ingest`. Bounded by the sources, and the fixed values of each label.
final class IngestMetrics: Sendable {
    /// Records that became dead letters.
    let deadLetters: Counter
    /// Keys whose records wait for the order of a parcel.
    let unknownAliases: Gauge
    private let factory: any MetricsFactory
    private let counters = Mutex<[String: Counter]>([:])
    private let timers = Mutex<[String: Timer]>([:])

    init(factory: any MetricsFactory) {
        self.factory = factory
        self.deadLetters = Counter(label: "waybill_dead_letters_total", factory: factory)
        self.unknownAliases = Gauge(label: "waybill_ingest_unknown_aliases_waiting", factory: factory)
    }

    func mapped(_ mapping: SourceMapping, _ source: String, took duration: Duration) {
        self.count("waybill_ingest_records_total", source, "outcome", mapping.outcome.name)
        for value in mapping.unknown {
            self.count("waybill_ingest_unknown_values_total", source, "table", value.table)
        }
        self.record("waybill_ingest_map_seconds", source, duration)
    }

    /// The time from a record's timestamp until it is mapped.
    func age(_ duration: Duration, _ source: String) { self.record("waybill_ingest_age_seconds", source, duration) }

    func published(_ type: ChangeType, _ source: String) {
        self.count("waybill_ingest_changes_total", source, "type", type.rawValue)
    }

    private func count(_ label: String, _ source: String, _ dimension: String, _ value: String) {
        let key = "\(label) \(source) \(value)"
        let counter = self.counters.withLock { counters in
            if let counter = counters[key] { return counter }
            let counter = Counter(
                label: label, dimensions: [("source", source), (dimension, value)], factory: self.factory)
            counters[key] = counter
            return counter
        }
        counter.increment()
    }

    private func record(_ label: String, _ source: String, _ duration: Duration) {
        let timer = self.timers.withLock { timers in
            if let timer = timers["\(label) \(source)"] { return timer }
            let timer = Timer(label: label, dimensions: [("source", source)], factory: self.factory)
            timers["\(label) \(source)"] = timer
            return timer
        }
        timer.recordNanoseconds(Int64(duration / .nanoseconds(1)))
    }
}
