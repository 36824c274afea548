import Kafka
import Logging
import Model
import Operations
import Store

/// The step between folding and writing for orders that do not exist after their changes: an update that came too early
/// waits, uncommitted; after that it is a dead letter, and a part of the order's entry, until the order is created.
///
/// The entry is written before the dead letter is sent, and both precede the commit of the change's offset. When the
/// order is created, a marker for the dead letter is published before the order is written, which ends the entry. If a
/// worker dies in between, the steps are repeated, and the positions of the order ensure that nothing is applied twice.
struct IncompleteOrders: Sendable {
    let unknown: UnknownOrders
    let topics: Topics
    let producer: KafkaProducer
    let logger: Logger

    /// Makes early changes wait, and has those that waited for long enough written with their order.
    ///
    /// - Returns: the drafts that go on.
    func settle(
        _ drafts: [OrderDraft], now: ContinuousClock.Instant, _ outcomes: inout BatchOutcomes
    ) -> [OrderDraft] {
        drafts.compactMap { draft in
            guard draft.isMissing else { return draft }
            let arrived = draft.order.changes.dropFirst(draft.order.waited)
            if let first = draft.early.first(where: { $0 >= arrived.startIndex }) {
                let bytes = arrived.reduce(0) { $0 + $1.record.size }
                let key = draft.order.changes[first].record.key ?? []
                if let time = self.unknown.wait(key, bytes: bytes, now: now) {
                    outcomes.wait(draft.place, time)
                    return nil
                }
            }
            let early = draft.early.map { draft.order.changes[$0].record }
            let kept = IncompleteOrder.fitting(early)
            if kept.count < early.count {
                self.logger.warning(
                    "changes of an unknown order are only dead letters and are not applied when it is created",
                    metadata: ["order": "\(draft.key)", "changes": "\(early.count - kept.count)"]
                        .traced(draft.traces.first))
            }
            return Set(kept.map { ChangePosition($0) }) == draft.order.waiting ? draft : draft.keeping(kept)
        }
    }

    /// Publishes markers for dead letters whose changes are applied with the order that is about to be written.
    func mark(_ drafts: [OrderDraft], _ outcomes: inout BatchOutcomes) async {
        var markers: [(place: Int, message: KafkaMessage)] = []
        for draft in drafts where draft.exists && draft.order.incomplete != nil {
            let waiting = draft.order.waiting
            for ((record, change), outcome) in zip(draft.order.changes, draft.result.outcomes)
            where waiting.contains(ChangePosition(record)) {
                let origin = DeadLetter.origin(of: record)
                // It remains a dead letter, now for another reason.
                if case .refused(let fault) = outcome {
                    self.logger.warning(
                        "cannot apply a dead letter to its order",
                        metadata: ["origin": "\(origin)", "reason": "\(fault.reason)", "order": "\(draft.key)"]
                            .traced(change.trace))
                    continue
                }
                var message = DeadLetterRecord(
                    record: record, code: ChangeFault.Code.unknownOrder.rawValue, reason: "", origin: origin
                ).note(self.topics)
                // Partitioned by the key, like the dead letter.
                message.partition = nil
                markers.append((draft.place, message))
            }
        }
        for (marker, outcome) in zip(markers, await self.producer.produce(markers.map(\.message))) {
            guard case .failure(let error) = outcome else { continue }
            outcomes.postpone(marker.place, "publishing the marker of a dead letter: \(error.message)")
        }
    }

    /// Has the changes behind a removal wait for the next order, once Redis has the removal.
    func awaitNext(_ drafts: [OrderDraft], _ outcomes: inout BatchOutcomes) {
        for draft in drafts where draft.result.effect == .removed && !draft.early.isEmpty {
            outcomes.wait(draft.place, .zero)
        }
    }
}

extension OrderDraft {
    /// True if there is an order after the changes.
    var exists: Bool { self.state.map { !$0.isRemoved } ?? false }

    /// True if there was no order before the changes and is none after them.
    var isMissing: Bool { !self.exists && self.result.effect != .removed }

    /// The indices of changes that wait for an order that does not exist: those that no removal followed.
    var early: [Int] {
        if self.exists { return [] }
        let changes = self.order.changes
        let removal = changes.indices.last {
            if case .removed = changes[$0].change.kind { self.result.outcomes[$0].isTaken } else { false }
        }
        return self.result.outcomes.indices.dropFirst(removal ?? 0).filter {
            if case .refused(let fault) = self.result.outcomes[$0] { fault.code == .unknownOrder } else { false }
        }
    }

    /// The changes that cannot be applied, whatever comes.
    var refused: [RefusedRecord] {
        let early = Set(self.early)
        return self.letters(self.result.outcomes.indices.filter { !early.contains($0) })
    }

    /// The early changes that waited for long enough.
    var expired: [RefusedRecord] { self.isMissing ? self.letters(self.early) : [] }

    /// - Returns: the refused ones of some changes that have no dead letter yet.
    private func letters(_ indices: [Int]) -> [RefusedRecord] {
        indices.drop { $0 < self.order.waited }.compactMap { index in
            guard case .refused(let fault) = self.result.outcomes[index] else { return nil }
            return RefusedRecord(place: self.place, record: self.order.changes[index].record, fault: fault)
        }
    }
}
