import Kafka
import Model
import Operations

extension OrderDraft {
    /// The traces of the changes that the version is made of, or that announce it again: the newest first.
    var traces: [TraceContext] {
        // Nearly always there is none.
        guard self.order.changes.contains(where: { $0.change.trace != nil }) else { return [] }
        let traces = zip(self.order.changes, self.result.outcomes).compactMap { item, outcome in
            outcome.isTaken || outcome == .skipped(.redelivered) ? item.change.trace : nil
        }
        return TraceContext.links(traces)
    }

    /// The headers by which its record is followed: the newest trace, and links to the others.
    ///
    /// They are no part of the value, which a restored or a renewed version repeats without its changes.
    var traceHeaders: [KafkaHeader] { self.traces.headers }
}
