import Kafka
import Logging
import Model
import Operations

extension KeyedWork {
    /// The facts by which its log lines are found: the order, and the newest trace of its records.
    var metadata: Logger.Metadata {
        let traces = self.records.reversed().lazy.compactMap { record in
            TraceContext(value: record.value, headers: record.headers.map { ($0.name, $0.value) })
        }
        return Logger.Metadata(order: self.key).traced(traces.first)
    }
}

extension Logger.Metadata {
    /// The order that a record's key names; a source's key names something else.
    init(order key: [UInt8]?) {
        self.init()
        if let key = key.flatMap({ String(validating: $0, as: UTF8.self) }), let order = try? OrderKey(key) {
            self["order"] = "\(order)"
        }
    }
}
