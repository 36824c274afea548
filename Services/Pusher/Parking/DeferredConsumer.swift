import Kafka
import Synchronization

/// A reference to a consumer for objects that are made before it and report to it later.
///
/// Bounded: nothing is stored. Before the consumer exists, there is no record that could be done.
final class DeferredConsumer: Sendable {
    let consumer = Mutex<KafkaConsumer?>(nil)

    func finish(_ receipts: [KafkaReceipt]) { self.consumer.withLock { $0 }?.finished(receipts) }
}
