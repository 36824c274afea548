import CoreMetrics
import Kafka
import Logging
import Model
import Operations
import Store

/// Changes that come before their order is there: they wait for it, and are dead letters when it does not come in time.
/// When it comes later, they are applied with what makes it.
///
/// A change is kept in Redis before its letter is sent, and both before its offset is committed. When its order comes
/// into being, a note beside the letter says so before the order is written; after that the change is forgotten. So a
/// worker that dies in between does it again, and the positions of the order see to it that nothing is applied twice.
extension ChangeProcessor {
    /// Puts what is kept of some orders, none of which is there, in front of their changes.
    ///
    /// - Returns: those whose changes could be read.
    func withLetters(_ orders: [BatchOrder], _ batchOutcomes: inout BatchOutcomes) async -> [BatchOrder] {
        let all: [[EarlyChanges.Kept]]
        do {
            all = try await self.store.earlyChanges.read(orders.map(\.key))
        } catch {
            batchOutcomes.postpone(orders.map(\.place), "\(error)")
            return []
        }
        var complete: [BatchOrder] = []
        for (order, kept) in zip(orders, all) {
            var letters: [BatchOrder.Change] = []
            // One that comes again may have no letter yet: a worker died in between.
            let here = Set(order.changes.map { DeadLetter.origin(of: $0.record) })
            for entry in kept where !here.contains(entry.place) {
                guard let record = EarlyRecord(entry, of: order.key)?.record,
                    let change = try? OrderChange.decode(
                        key: record.key, value: record.value, headers: record.headers.map { ($0.name, $0.value) })
                else { continue }
                letters.append((record, change))
            }
            letters.sort { ChangePosition($0.record).isBefore(ChangePosition($1.record)) }
            complete.append(
                BatchOrder(
                    place: order.place, key: order.key, changes: letters + order.changes, letters: letters.count,
                    kept: Set(kept.map(\.place))))
        }
        return complete
    }

    /// Lets updates of orders that are not there wait, and keeps those that waited long enough beside their letters.
    ///
    /// - Parameter open: loses those that wait.
    /// - Returns: the places of the orders that came into being meanwhile.
    func deferEarly(_ open: inout [OrderDraft], _ batchOutcomes: inout BatchOutcomes) async -> Set<Int> {
        var late: [(place: Int, key: OrderKey, records: [KafkaRecord])] = []
        let now = ContinuousClock.now
        for draft in open {
            let records = draft.early
            guard let key = records.first?.key else { continue }
            let bytes = draft.order.changes.dropFirst(draft.order.letters).reduce(0) { $0 + $1.record.size }
            if let time = self.unknown.wait(key, bytes: bytes, now: now) {
                batchOutcomes.wait(draft.place, time)
            } else {
                late.append((draft.place, draft.key, records))
            }
        }
        open.removeAll { batchOutcomes.isPostponed($0.place) }
        guard !late.isEmpty else { return [] }
        var come: Set<Int> = []
        do {
            let answers = try await self.store.earlyChanges.keep(
                late.map { ($0.key, $0.records.compactMap { EarlyRecord($0).kept }) })
            for (order, answer) in zip(late, answers) {
                switch answer {
                case .kept: break
                case .orderExists: come.insert(order.place)
                case .refused(let message):
                    self.logger.warning(
                        "changes of an unknown order are only dead letters and are not applied when it is created",
                        metadata: ["order": "\(order.key)", "error": "\(message)"])
                }
            }
        } catch {
            batchOutcomes.postpone(late.map(\.place), "\(error)")
        }
        open.removeAll { batchOutcomes.isPostponed($0.place) || come.contains($0.place) }
        return come
    }

    /// Notes beside letters that their changes are applied with the order that is about to be written.
    func note(_ open: [OrderDraft], _ batchOutcomes: inout BatchOutcomes) async {
        let applied = open.filter { !$0.order.kept.isEmpty && $0.state != nil }
        guard !applied.isEmpty else { return }
        var notes: [(place: Int, message: KafkaMessage)] = []
        for draft in applied {
            for ((record, _), outcome) in zip(draft.order.changes, draft.result.outcomes)
            where draft.order.kept.contains(DeadLetter.origin(of: record)) {
                // Its letter is still one, now for another reason.
                if case .refused(let fault) = outcome {
                    self.logger.warning(
                        "cannot apply a dead letter to its order",
                        metadata: ["origin": "\(DeadLetter.origin(of: record))", "reason": "\(fault.reason)"])
                    continue
                }
                let letter = DeadLetterRecord(
                    record: record, code: ChangeFault.Code.unknownOrder.rawValue, reason: "",
                    origin: DeadLetter.origin(of: record))
                var message = letter.note(self.topics)
                // By the key, as the letter's.
                message.partition = nil
                notes.append((draft.place, message))
            }
        }
        for (note, outcome) in zip(notes, await self.producer.produce(notes.map(\.message))) {
            guard case .failure(let error) = outcome else { continue }
            batchOutcomes.postpone(note.place, "publishing the marker of a dead letter: \(error.message)")
        }
    }

    /// Forgets what was kept of orders that are there now, or that were removed before they were.
    func forgetLetters(of open: [OrderDraft]) async {
        let over = open.filter { !$0.order.kept.isEmpty && ($0.state != nil || $0.lastRemoval != nil) }
        guard !over.isEmpty else { return }
        for draft in over where draft.state != nil {
            self.metrics.earlyApplied.increment(
                by: draft.result.outcomes.prefix(draft.order.letters).count { $0 == .applied || $0 == .unchanged })
        }
        do {
            try await self.store.earlyChanges.forget(over.map { ($0.key, Array($0.order.kept)) })
        } catch {
            // They end by themselves, and their positions keep them from being applied again.
            self.logger.warning(
                "cannot delete early changes; they expire by themselves", metadata: ["error": "\(error)"])
        }
    }
}

extension ChangePosition {
    /// The order of letters: that of their partition.
    fileprivate func isBefore(_ other: ChangePosition) -> Bool {
        (self.partition, self.offset) < (other.partition, other.offset)
    }
}

extension KeyedWork.Outcome {
    var isWaiting: Bool {
        if case .awaits = self { true } else { false }
    }
}

extension OrderDraft {
    /// The changes that cannot be applied and have no letter yet.
    var refused: [RefusedRecord] {
        zip(self.order.changes, self.result.outcomes).dropFirst(self.order.letters).compactMap { change, outcome in
            guard case .refused(let fault) = outcome else { return nil }
            return RefusedRecord(place: self.place, record: change.record, fault: fault)
        }
    }

    /// The place of the last removal among the changes.
    var lastRemoval: Int? {
        self.order.changes.lastIndex { if case .removed = $0.change.kind { true } else { false } }
    }

    /// Updates of an order that was never there, but for those that a removal followed.
    var early: [KafkaRecord] {
        guard self.stored == nil, self.state == nil else { return [] }
        let first = max(self.order.letters, self.lastRemoval ?? 0)
        return zip(self.order.changes, self.result.outcomes).dropFirst(first).compactMap { item, outcome in
            guard case .refused(let fault) = outcome, fault.code == .unknownOrder else { return nil }
            return item.record
        }
    }
}
