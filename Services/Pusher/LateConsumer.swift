import Kafka
import Synchronization

/// The consumer for those who are made before it and tell it something later.
///
/// Bounded: nothing is kept. Before the consumer is there, there is no record that could be done.
final class LateConsumer: Sendable {
    let consumer = Mutex<KafkaConsumer?>(nil)

    func finish(_ receipts: [KafkaReceipt]) { self.consumer.withLock { $0 }?.finished(receipts) }
}
