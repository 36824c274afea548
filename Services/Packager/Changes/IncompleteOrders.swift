import CoreMetrics
import Kafka
import Logging
import Model
import Operations
import Store
import Synchronization

/// The step between folding and writing for orders that do not exist after their changes: an update that came too early
/// waits, uncommitted; after that it is a dead letter, and a part of the order's entry, until the order is created.
///
/// The entry is written before the dead letter is sent, and both precede the commit of the change's offset. The order
/// is created with the changes that waited, and keeps them until a marker for the dead letter of each is published. If
/// a worker dies in between, the steps are repeated, and the positions of the order ensure that nothing is applied
/// twice.
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

    /// Publishes markers for dead letters whose changes are applied with the order, which Redis has by now, and ends
    /// the wait of these changes. A marker before that would close the dead letter of a change that a loss of Redis
    /// takes away.
    func mark(_ drafts: [OrderDraft], _ store: OrderStore, _ outcomes: inout BatchOutcomes) async {
        let applied = drafts.filter { $0.exists && $0.order.incomplete != nil }
        guard !applied.isEmpty else { return }
        var markers: [(place: Int, message: KafkaMessage)] = []
        for draft in applied {
            self.warnOfRefused(draft)
            for record in draft.order.applied(draft.result.outcomes) {
                var message = DeadLetterRecord(
                    record: record, code: ChangeFault.Code.unknownOrder.rawValue, reason: "",
                    origin: DeadLetter.origin(of: record)
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
        let closed = outcomes.open(applied)
        do {
            try await store.endWaiting(closed.map { ($0.key, $0.waitingBytes) })
        } catch {
            outcomes.postpone(closed.map(\.place), "\(error)")
        }
    }

    /// Tells of the changes that waited and cannot be applied: they remain dead letters, now for another reason.
    private func warnOfRefused(_ draft: OrderDraft) {
        let waiting = draft.order.waiting
        for ((record, change), outcome) in zip(draft.order.changes, draft.result.outcomes) {
            guard case .refused(let fault) = outcome, waiting.contains(ChangePosition(record)) else { continue }
            self.logger.warning(
                "cannot apply a dead letter to its order",
                metadata: [
                    "origin": "\(DeadLetter.origin(of: record))", "reason": "\(fault.reason)", "order": "\(draft.key)",
                ].traced(change.trace))
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
    /// The changes that the order's entry has until their dead letters are closed.
    var waitingBytes: [UInt8] {
        if let written = self.write?.waiting, !written.isEmpty { return written }
        return self.order.incomplete?.bytes ?? []
    }

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

/// The orders that do not exist yet, and the deadlines until which their updates wait.
///
/// The time runs from when this worker saw the first update; another worker that gets the partition starts over.
/// Bounded by `keyLimit` and `byteLimit`, a share of what a worker has in hand: an update that finds no room does not
/// wait.
final class UnknownOrders: Sendable {
    /// The most orders that are waited for.
    static let keyLimit = 2048
    /// The most bytes of records that wait.
    static let byteLimit = 4 << 20

    private struct Waiting {
        let deadline: ContinuousClock.Instant
        let bytes: Int
    }

    private let patience: Duration
    private let waiting = Mutex<[[UInt8]: Waiting]>([:])
    private let gauge: Gauge

    /// - Parameter patience: how long an update waits; zero: not at all.
    init(patience: Duration, gauge: Gauge) {
        self.patience = patience
        self.gauge = gauge
    }

    /// Decides whether the updates of an order that does not exist wait.
    ///
    /// - Parameter bytes: the bytes of all its records in hand.
    /// - Returns: the time that they still wait; nil if they wait no longer.
    func wait(_ key: [UInt8], bytes: Int, now: ContinuousClock.Instant) -> Duration? {
        guard self.patience > .zero else { return nil }
        return self.change { waiting in
            let known = waiting.removeValue(forKey: key)
            if known == nil, waiting.count >= Self.keyLimit {
                // Those that should have returned by now: their partition went to another worker.
                waiting = waiting.filter { $0.value.deadline + .seconds(10) >= now }
            }
            let deadline = known?.deadline ?? now + self.patience
            let others = waiting.values.reduce(0) { $0 + $1.bytes }
            guard deadline > now, waiting.count < Self.keyLimit, others + bytes <= Self.byteLimit else { return nil }
            waiting[key] = Waiting(deadline: deadline, bytes: bytes)
            return deadline - now
        }
    }

    /// Forgets orders that exist now, or of which nothing waits any more.
    func forget(_ keys: some Sequence<[UInt8]>) {
        self.change { waiting in
            if waiting.isEmpty { return }
            for key in keys { waiting[key] = nil }
        }
    }

    private func change<Value>(_ body: (inout [[UInt8]: Waiting]) -> Value) -> Value {
        let (value, count) = self.waiting.withLock { (body(&$0), $0.count) }
        self.gauge.record(count)
        return value
    }
}
