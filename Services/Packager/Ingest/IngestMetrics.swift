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
    /// The tables of a source that had an unknown value.
    private let tables = Mutex<[String: Set<String>]>([:])
    /// The most tables of a source that are told apart: a program names its own.
    private static let tableLimit = 32

    init(factory: any MetricsFactory) {
        self.factory = factory
        self.deadLetters = Counter(label: "waybill_dead_letters_total", factory: factory)
        self.unknownAliases = Gauge(label: "waybill_ingest_unknown_aliases_waiting", factory: factory)
    }

    func mapped(_ mapping: SourceMapping, _ source: String, took duration: Duration) {
        self.count("waybill_ingest_records_total", source, "outcome", mapping.outcome.name)
        if case .ignored(let kind) = mapping.outcome {
            self.count("waybill_ingest_ignored_total", source, "kind", kind.rawValue)
        }
        for value in mapping.unknown {
            self.count("waybill_ingest_unknown_values_total", source, "table", self.name(of: value.table, source))
        }
        for fault in mapping.foreign.faults {
            self.count("waybill_ingest_mended_total", source, "kind", fault.kind, by: fault.count)
        }
        for member in mapping.omitted {
            self.count("waybill_ingest_omitted_total", source, "member", member.name)
        }
        self.record("waybill_ingest_map_seconds", source, duration)
    }

    /// The time from a record's timestamp until it is mapped.
    func age(_ duration: Duration, _ source: String) { self.record("waybill_ingest_age_seconds", source, duration) }

    func published(_ type: ChangeType, _ source: String) {
        self.count("waybill_ingest_changes_total", source, "type", type.rawValue)
    }

    private func name(of table: String, _ source: String) -> String {
        self.tables.withLock { tables in
            if tables[source]?.contains(table) == true { return table }
            guard tables[source, default: []].count < Self.tableLimit else { return "other" }
            tables[source, default: []].insert(table)
            return table
        }
    }

    private func count(
        _ label: String, _ source: String, _ dimension: String, _ value: String, by amount: Int = 1
    ) {
        let key = "\(label) \(source) \(value)"
        let counter = self.counters.withLock { counters in
            if let counter = counters[key] { return counter }
            let counter = Counter(
                label: label, dimensions: [("source", source), (dimension, value)], factory: self.factory)
            counters[key] = counter
            return counter
        }
        counter.increment(by: amount)
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
