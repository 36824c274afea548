import Kafka
import Model

/// One order of a batch, with the changes of it that came.
struct BatchOrder: Sendable {
    /// Which piece of the batch's work it is.
    let place: Int
    let key: OrderKey
    /// In the order in which they came; none of an order that is renewed or restored.
    var changes: [(record: KafkaRecord, change: OrderChange)] = []
    /// The number of changes at the front that came before the order was there: each has its dead letter.
    var letters = 0
    /// The places of the changes that Redis keeps for this order: those at the front, and any that come again.
    var kept: Set<String> = []

    /// The same as it came from Kafka.
    var withoutLetters: BatchOrder {
        guard !self.kept.isEmpty else { return self }
        var order = self
        order.changes.removeFirst(self.letters)
        order.letters = 0
        order.kept = []
        return order
    }
}

extension ChangePosition {
    init(_ record: KafkaRecord) {
        self.init(
            partition: record.partition, offset: record.offset, timestampMilliseconds: record.timestampMilliseconds,
            origin: ChangeOrigin(cluster: record.cluster, topic: record.topic))
    }
}
