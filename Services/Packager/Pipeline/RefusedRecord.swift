import Kafka
import Model

/// A record that cannot be applied.
struct RefusedRecord {
    /// The place of its work in the batch.
    let place: Int
    let record: KafkaRecord
    let fault: ChangeFault
}
