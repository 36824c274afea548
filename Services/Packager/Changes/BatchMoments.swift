import Model
import Operations

/// The moments of a batch's work that the spans of its orders show. The steps of a batch are done for all of its orders
/// together, so their spans have the same times.
struct BatchMoments: Sendable {
    /// Nanoseconds since 1970.
    let start: Int64
    private(set) var events: [(name: String, nanoseconds: Int64)] = []

    init(start: Int64 = TraceSpan.now) { self.start = start }

    /// Notes that a step ended.
    mutating func ended(_ step: ChangeStep, at now: Int64 = TraceSpan.now) {
        self.events.append((step.rawValue, now))
    }

    /// Returns the span of an order whose work ended with the last step; nil if no trace of it is recorded.
    func span(of draft: OrderDraft, _ outcome: KeyedWork.Outcome) -> TraceSpan? {
        let contexts = draft.traces
        guard !contexts.isEmpty, let end = self.events.last?.nanoseconds else { return nil }
        let isDone = outcome == .done
        var attributes: [(name: String, value: JSON)] = [
            ("waybill.order_type", .string(draft.key.orderType.rawValue)),
            ("waybill.outcome", .string(isDone ? draft.effectName : outcome.isWaiting ? "waits" : "retried")),
        ]
        if let version = draft.state?.version { attributes.append(("waybill.version", .integer(version))) }
        return TraceSpan(
            "waybill.package", .consumer, of: contexts, from: self.start, to: end, attributes: attributes,
            events: self.events, isError: !isDone && !outcome.isWaiting)
    }
}

extension OrderDraft {
    /// The effect of its changes, as spans name it.
    fileprivate var effectName: String {
        switch self.result.effect {
        case .changed: "published"
        case .removed: "removed"
        case .advanced, .none: self.needsPublishing ? "announced" : "unchanged"
        }
    }
}
