import Kafka
import Model
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
    /// The order as it is kept until it is created; nil for one that exists, or for which nothing waits.
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

extension ChangePosition {
    init(_ record: KafkaRecord) {
        self.init(
            partition: record.partition, offset: record.offset, timestampMilliseconds: record.timestampMilliseconds,
            origin: ChangeOrigin(cluster: record.cluster, topic: record.topic))
    }
}

/// The reason why something was not done; trying again is safe at any point.
struct RetriableFailure: Error, CustomStringConvertible {
    let description: String
}
