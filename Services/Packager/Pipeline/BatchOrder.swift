import Kafka
import Model

/// One order of a batch, with the changes that arrived for it.
///
/// Immutable. A class, since an order goes through many arrays.
final class BatchOrder: Sendable {
    typealias Change = (record: KafkaRecord, change: OrderChange)

    /// Its index in the batch's work.
    let place: Int
    let key: OrderKey
    /// The changes in order of arrival; none for an order that is renewed or restored.
    let changes: [Change]
    /// The number of changes at the front that arrived before the order existed: each has a dead letter.
    let letters: Int
    /// The origins of the changes that Redis keeps for this order: those at the front, and any that are redelivered.
    let kept: Set<String>

    init(place: Int, key: OrderKey, changes: [Change] = [], letters: Int = 0, kept: Set<String> = []) {
        self.place = place
        self.key = key
        self.changes = changes
        self.letters = letters
        self.kept = kept
    }

    /// The order with only the changes from this batch.
    var withoutLetters: BatchOrder {
        guard !self.kept.isEmpty else { return self }
        return BatchOrder(place: self.place, key: self.key, changes: Array(self.changes.dropFirst(self.letters)))
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
