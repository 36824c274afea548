public import Kafka
public import Logging
public import Model

extension KafkaRecord {
    /// The trace in the record's headers; nil if there is none.
    public var trace: TraceContext? { TraceContext(headers: self.headers.lazy.map { ($0.name, $0.value) }) }
}

extension TraceContext? {
    /// The headers of a record of this trace; none without a trace.
    public var headers: [KafkaHeader] {
        guard let self else { return [] }
        let state = self.tracestate.map { [KafkaHeader(name: TraceHeader.tracestate, text: $0)] } ?? []
        return [KafkaHeader(name: TraceHeader.traceparent, text: self.traceparent)] + state
    }
}

extension Logger.Metadata {
    /// Returns the metadata with the identifier of a trace as `trace_id`.
    public func traced(_ trace: TraceContext?) -> Self {
        guard let trace else { return self }
        var metadata = self
        metadata["trace_id"] = "\(trace.traceID)"
        return metadata
    }
}
