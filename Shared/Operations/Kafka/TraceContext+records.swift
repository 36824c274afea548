public import Kafka
public import Logging
public import Model

extension KafkaRecord {
    /// The trace in the record's headers; nil if there is none.
    public var trace: TraceContext? { TraceContext(headers: self.headers.lazy.map { ($0.name, $0.value) }) }

    /// The same with the traces that it is linked to: the newest first, at most `TraceContext.linkLimit`.
    public var traces: [TraceContext] {
        guard let newest = self.trace else { return [] }
        let others = self.headers.text(.links) ?? ""
        return TraceContext.links(
            others.split(separator: ",", maxSplits: TraceContext.linkLimit)
                .compactMap { TraceContext(traceparent: String($0)) }.reversed() + [newest])
    }
}

extension [TraceContext] {
    /// The headers of a record of these traces, which begin with the newest: its own, and links to the others.
    public var headers: [KafkaHeader] {
        let others = self.dropFirst().map(\.traceparent).joined(separator: ",")
        return self.first.headers + (others.isEmpty ? [] : [KafkaHeader(.links, text: others)])
    }
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
