import Kafka
import Model

/// One order of a batch, with the changes of it that came.
///
/// Immutable. A class, since an order goes through many arrays.
final class BatchOrder: Sendable {
    typealias Change = (record: KafkaRecord, change: OrderChange)

    /// Which piece of the batch's work it is.
    let place: Int
    let key: OrderKey
    /// In the order in which they came; none of an order that is renewed or restored.
    let changes: [Change]
    /// The number of changes at the front that came before the order was there: each has its dead letter.
    let letters: Int
    /// The places of the changes that Redis keeps for this order: those at the front, and any that come again.
    let kept: Set<String>

    init(place: Int, key: OrderKey, changes: [Change] = [], letters: Int = 0, kept: Set<String> = []) {
        self.place = place
        self.key = key
        self.changes = changes
        self.letters = letters
        self.kept = kept
    }

    /// The same as it came from Kafka.
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
