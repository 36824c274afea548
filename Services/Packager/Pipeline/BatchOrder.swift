import FoundationEssentials
import Kafka
import Model
import Operations
import Packaging
import Store

/// One order of a batch, with the changes that arrived for it.
///
/// Immutable. A class, since an order goes through many arrays.
final class BatchOrder: Sendable {
    typealias Change = (record: KafkaRecord, change: OrderChange)

    /// Its index in the batch's work.
    let place: Int
    let key: OrderKey
    /// The changes that waited for the order, then those of the batch, in order of arrival; none for an order that is
    /// renewed or restored.
    let changes: [Change]
    /// The number of changes that waited.
    let waited: Int
    /// The order as it is kept until it is created, and until the dead letters of the changes are closed after that;
    /// nil if nothing waits.
    let incomplete: IncompleteOrder?

    init(place: Int, key: OrderKey, changes: [Change] = [], waited: Int = 0, incomplete: IncompleteOrder? = nil) {
        self.place = place
        self.key = key
        self.changes = changes
        self.waited = waited
        self.incomplete = incomplete
    }

    /// The positions of the changes that wait in its entry.
    var waiting: Set<ChangePosition> { Set(self.incomplete?.changes.map { ChangePosition($0.record) } ?? []) }

    /// Returns the records of the changes that waited in its entry and were applied, or are no news.
    func applied(_ outcomes: [ChangeOutcome]) -> [KafkaRecord] {
        guard self.incomplete != nil else { return [] }
        let waiting = self.waiting
        return zip(self.changes, outcomes).compactMap { change, outcome in
            if case .refused = outcome { return nil }
            return waiting.contains(ChangePosition(change.record)) ? change.record : nil
        }
    }

    /// Returns the order with the changes in front that wait for it. One that is redelivered stays among those of the
    /// batch: it may have no dead letter yet.
    func following(_ entry: OrderStore.Entry) -> BatchOrder {
        guard let incomplete = IncompleteOrder(entry, of: self.key) else { return self }
        let here = Set(self.changes.map { ChangePosition($0.record) })
        let waiting = incomplete.changes.filter { !here.contains(ChangePosition($0.record)) }
        return BatchOrder(
            place: self.place, key: self.key, changes: waiting + self.changes, waited: waiting.count,
            incomplete: incomplete)
    }
}

extension BatchOrder {
    /// The order with its changes from the last removal or replacement on: nothing of what was before is in the
    /// result. Nil if it has none.
    var fromLastWhole: BatchOrder? {
        let index = self.changes.lastIndex { change in
            switch change.change.kind {
            case .replaced, .removed: true
            case .merged, .patched, .fulfillmentUpdated, .returnUpdated, .announced: false
            }
        }
        return index.map { BatchOrder(place: self.place, key: self.key, changes: Array(self.changes[$0...])) }
    }

    /// True if its first change happened, and was published, after a version was made, by the clocks of all: it cannot
    /// be in it. One that does not tell its time may be a repetition of one that is.
    func isNewer(than state: OrderState) -> Bool {
        guard let first = self.changes.first, let time = first.change.epochMilliseconds else { return false }
        return min(time, first.record.timestampMilliseconds) / 1000 > state.modifiedEpochSeconds
    }
}

extension ChangePosition {
    init(_ record: KafkaRecord) {
        self.init(
            partition: record.partition, offset: record.offset, timestampMilliseconds: record.timestampMilliseconds,
            origin: ChangeOrigin(cluster: record.cluster, topic: record.topic))
    }
}

/// The reason why something was not done; trying again is safe at any point.
struct RetriableFailure: UpstreamFailure {
    let description: String
    let origin: FailureOrigin
}

extension PackagingError {
    var origin: FailureOrigin {
        self.code == .signing ? FailureOrigin(.brand, .everything) : FailureOrigin(.order, .order)
    }
}

/// An order that does not exist, since it was not created yet or was removed, and the changes that wait until it does.
/// Each of them waited for long enough to have a dead letter.
///
/// Redis has them in the order's entry, for a week, and they are written as the order is: by a compare-and-set. Those
/// that are applied stay with the order until markers close their dead letters, so that none is left open. They
/// are part of the view alone: after a loss of Redis only the dead letters are left.
struct IncompleteOrder: Sendable {
    /// The most changes that wait.
    static let limit = 32
    /// The most bytes of each, by `KafkaRecord.size`.
    static let recordLimit = 64 << 10

    /// By partition and offset.
    let changes: [BatchOrder.Change]
    /// As the entry has them.
    let bytes: [UInt8]
    /// That of the entry, 0 if there is none.
    let revision: Int64

    /// - Returns: nil if nothing waits.
    init?(_ entry: OrderStore.Entry, of key: OrderKey) {
        guard !entry.waiting.isEmpty else { return nil }
        self.changes = Self.decode(entry.waiting, of: key)
        self.bytes = entry.waiting
        self.revision = entry.revision
    }

    /// Returns those changes that an order may keep.
    static func fitting(_ records: [KafkaRecord]) -> [KafkaRecord] {
        Array(records.filter { $0.size <= Self.recordLimit }.prefix(Self.limit))
    }

    /// Returns the bytes for the order's entry: for each change its record as JSON, without the key, which is the
    /// order's. It has the same content as its dead letter, so that both have one identity: see
    /// `DeadLetterRecord.identity`.
    static func encode(_ records: [KafkaRecord]) -> [UInt8] {
        records.isEmpty ? [] : JSON.array(records.map(Self.json)).serialized
    }

    private static func json(_ record: KafkaRecord) -> JSON {
        [
            "cluster": .string(record.cluster),
            "headers": .array(
                record.headers.withoutReserved().map { [.string($0.name), $0.value.map(Self.text) ?? .null] }),
            "offset": .integer(record.offset), "partition": .integer(Int64(record.partition)),
            "timestamp": .integer(record.timestampMilliseconds), "topic": .string(record.topic),
            "value": record.value.map(Self.text) ?? .null,
        ]
    }

    /// Returns the changes of an order's entry; what is not as `encode` made it is left out.
    static func decode(_ bytes: [UInt8], of key: OrderKey) -> [BatchOrder.Change] {
        let records = ((try? JSON(parsing: bytes, entries: .max))?.array ?? []).compactMap { Self.record($0, of: key) }
        let changes = records.compactMap { record -> BatchOrder.Change? in
            let change = try? OrderChange.decode(
                key: record.key, value: record.value, headers: record.headers.map { ($0.name, $0.value) })
            return change.map { (record, $0) }
        }
        return changes.sorted { ($0.record.partition, $0.record.offset) < ($1.record.partition, $1.record.offset) }
    }

    private static func record(_ json: JSON, of key: OrderKey) -> KafkaRecord? {
        guard let json = json.object, let topic = json["topic"]?.string, let offset = json["offset"]?.integer,
            let partition = json["partition"]?.integer.flatMap({ Int32(exactly: $0) }),
            let timestamp = json["timestamp"]?.integer
        else { return nil }
        let headers = (json["headers"]?.array ?? []).compactMap { pair -> KafkaHeader? in
            guard let pair = pair.array, pair.count == 2, let name = pair[0].string else { return nil }
            return KafkaHeader(name: name, value: Self.bytes(pair[1]))
        }
        return KafkaRecord(
            cluster: json["cluster"]?.string ?? "", topic: topic, partition: partition, offset: offset,
            timestampMilliseconds: timestamp, key: Array(key.description.utf8),
            value: Self.bytes(json["value"] ?? .null), headers: headers)
    }

    private static func text(_ bytes: [UInt8]) -> JSON { .string(Data(bytes).base64EncodedString()) }

    private static func bytes(_ json: JSON) -> [UInt8]? {
        json.string.flatMap { Data(base64Encoded: $0) }.map { Array($0) }
    }
}

/// A record that cannot be applied.
struct RefusedRecord {
    /// The place of its work in the batch.
    let place: Int
    let record: KafkaRecord
    let fault: ChangeFault
    /// The trace of the record's event, which may be no valid change; nil if it has none.
    let trace: TraceContext?

    init(place: Int, record: KafkaRecord, fault: ChangeFault) {
        self.place = place
        self.record = record
        self.fault = fault
        self.trace = TraceContext(value: record.value, headers: record.headers.map { ($0.name, $0.value) })
    }

    /// A record that must not be decoded; the only one of its work.
    init(undecoded record: KafkaRecord, fault: ChangeFault) {
        self.place = 0
        self.record = record
        self.fault = fault
        self.trace = nil
    }
}
