import CoreMetrics
import FoundationEssentials
import Kafka
import Logging
import Model
import Operations
import Store

/// Changes that arrive while their order does not exist, because it was not created yet or was removed: they wait for
/// it, and become dead letters if it is not created in time. If it is created later, they are applied together with the
/// changes that create it.
///
/// A change is kept in Redis before its dead letter is sent, and both precede the commit of its offset. When its order
/// is created, a marker for the dead letter is published before the order is written; after that the change is
/// forgotten. If a worker dies in between, the steps are repeated, and the positions of the order ensure that nothing
/// is applied twice.
extension ChangeProcessor {
    /// Puts the kept changes of orders that do not exist in front of their new changes.
    ///
    /// - Returns: the orders in the same sequence; none if the kept changes could not be read.
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
            // A redelivered one may have no dead letter yet: a worker died in between.
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

    /// Makes updates of orders that do not exist wait. Those that waited long enough are kept in Redis, next to their
    /// dead letters.
    ///
    /// - Parameter open: drafts that wait are removed from it.
    /// - Returns: the places of the orders that were created in the meantime.
    func deferEarly(_ open: inout [OrderDraft], _ batchOutcomes: inout BatchOutcomes) async -> Set<Int> {
        var late: [(place: Int, key: OrderKey, records: [KafkaRecord])] = []
        let now = ContinuousClock.now
        for draft in open {
            let records = draft.early
            // Those behind a removal wait once Redis has that.
            guard draft.result.effect != .removed, let key = records.first?.key else { continue }
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
                        metadata: KeyedWork(key: order.records.first?.key, records: order.records).metadata
                            .merging(["error": "\(message)"]) { $1 })
                }
            }
        } catch {
            batchOutcomes.postpone(late.map(\.place), "\(error)")
        }
        open.removeAll { batchOutcomes.isPostponed($0.place) || come.contains($0.place) }
        return come
    }

    /// Publishes markers for dead letters whose changes are applied with the order that is about to be written.
    func note(_ open: [OrderDraft], _ batchOutcomes: inout BatchOutcomes) async {
        let applied = open.filter { !$0.order.kept.isEmpty && $0.exists }
        guard !applied.isEmpty else { return }
        var notes: [(place: Int, message: KafkaMessage)] = []
        for draft in applied {
            for ((record, change), outcome) in zip(draft.order.changes, draft.result.outcomes)
            where draft.order.kept.contains(DeadLetter.origin(of: record)) {
                // It remains a dead letter, now for another reason.
                if case .refused(let fault) = outcome {
                    self.logger.warning(
                        "cannot apply a dead letter to its order",
                        metadata: [
                            "origin": "\(DeadLetter.origin(of: record))", "reason": "\(fault.reason)",
                            "order": "\(draft.key)",
                        ].traced(change.trace))
                    continue
                }
                let letter = DeadLetterRecord(
                    record: record, code: ChangeFault.Code.unknownOrder.rawValue, reason: "",
                    origin: DeadLetter.origin(of: record))
                var message = letter.note(self.topics)
                // Partitioned by the key, like the dead letter.
                message.partition = nil
                notes.append((draft.place, message))
            }
        }
        for (note, outcome) in zip(notes, await self.producer.produce(notes.map(\.message))) {
            guard case .failure(let error) = outcome else { continue }
            batchOutcomes.postpone(note.place, "publishing the marker of a dead letter: \(error.message)")
        }
    }

    /// Forgets the kept changes of orders that exist now, or that a removal followed.
    func forgetLetters(of open: [OrderDraft]) async {
        let over = open.filter { !$0.order.kept.isEmpty && ($0.exists || $0.lastRemoval != nil) }
        guard !over.isEmpty else { return }
        for draft in over where draft.exists {
            self.metrics.earlyApplied.increment(
                by: draft.result.outcomes.prefix(draft.order.letters).count(where: \.isTaken))
        }
        do {
            try await self.store.earlyChanges.forget(over.map { ($0.key, Array($0.order.kept)) })
        } catch {
            // They expire by themselves, and their positions keep them from being applied again.
            self.logger.warning(
                "cannot delete early changes; they expire by themselves", metadata: ["error": "\(error)"])
        }
    }
}

extension ChangePosition {
    /// Returns true if this change precedes another one, by partition and offset.
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
    /// True if there is an order after the changes.
    var exists: Bool { self.state.map { !$0.isRemoved } ?? false }

    /// The changes that cannot be applied and have no dead letter yet, except those that wait behind a removal.
    var refused: [RefusedRecord] {
        let waiting = self.result.effect == .removed ? Set(self.early.map(DeadLetter.origin(of:))) : []
        return zip(self.order.changes, self.result.outcomes).dropFirst(self.order.letters).compactMap {
            change, outcome in
            guard case .refused(let fault) = outcome, !waiting.contains(DeadLetter.origin(of: change.record)) else {
                return nil
            }
            return RefusedRecord(place: self.place, record: change.record, fault: fault)
        }
    }

    /// The index of the last removal that took effect.
    var lastRemoval: Int? {
        self.order.changes.indices.last {
            if case .removed = self.order.changes[$0].change.kind { self.result.outcomes[$0].isTaken } else { false }
        }
    }

    /// Updates of an order that does not exist, except those that a removal followed.
    var early: [KafkaRecord] {
        if self.exists { return [] }
        let first = max(self.order.letters, self.lastRemoval ?? 0)
        return zip(self.order.changes, self.result.outcomes).dropFirst(first).compactMap { item, outcome in
            guard case .refused(let fault) = outcome, fault.code == .unknownOrder else { return nil }
            return item.record
        }
    }
}

/// The record of a change that arrived before its order existed, as it is kept in Redis.
///
/// It has the same content as its dead letter, so that both have one identity: see `DeadLetterRecord.identity`.
struct EarlyRecord: Sendable {
    let record: KafkaRecord

    /// The record as Redis keeps it: its place, `topic/partition/offset`, and all but the key, which is the order's;
    /// nil if it is too large.
    var kept: EarlyChanges.Kept? {
        let json: JSON = [
            "cluster": .string(self.record.cluster),
            "headers": .array(
                self.record.headers.map { [.string($0.name), $0.value.map { .string(Self.text($0)) } ?? .null] }),
            "timestamp": .integer(self.record.timestampMilliseconds),
            "value": self.record.value.map { .string(Self.text($0)) } ?? .null,
        ]
        let bytes = json.serialized
        guard bytes.count <= EarlyChanges.recordLimit else { return nil }
        return EarlyChanges.Kept(place: DeadLetter.origin(of: self.record), bytes: bytes)
    }

    init(_ record: KafkaRecord) { self.record = record }

    /// - Returns: nil if it was not made by `kept`.
    init?(_ kept: EarlyChanges.Kept, of key: OrderKey) {
        let parts = kept.place.split(separator: "/")
        guard parts.count == 3, let partition = Int32(parts[1]), let offset = Int64(parts[2]),
            let json = (try? JSON(parsing: kept.bytes))?.object, let timestamp = json["timestamp"]?.integer
        else { return nil }
        var headers: [KafkaHeader] = []
        for pair in json["headers"]?.array ?? [] {
            guard let pair = pair.array, pair.count == 2, let name = pair[0].string else { return nil }
            headers.append(KafkaHeader(name: name, value: Self.bytes(pair[1])))
        }
        self.record = KafkaRecord(
            cluster: json["cluster"]?.string ?? "", topic: String(parts[0]), partition: partition, offset: offset,
            timestampMilliseconds: timestamp, key: Array(key.description.utf8),
            value: Self.bytes(json["value"] ?? .null), headers: headers)
    }

    private static func text(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

    private static func bytes(_ json: JSON) -> [UInt8]? {
        json.string.flatMap { Data(base64Encoded: $0) }.map { Array($0) }
    }
}
