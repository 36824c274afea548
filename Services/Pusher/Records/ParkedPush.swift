import Kafka
import Model

/// Records of one key that wait before their devices are looked up.
struct ParkedPush: Hashable, Sendable {
    var key: PendingPushKey
    var receipts: [KafkaReceipt]
    /// The time when the newest of the changes was published, milliseconds since 1970; -1: not known.
    var epochMilliseconds: Int64
    /// The time of a device's registration, milliseconds since 1970. The device is notified only if its order changed
    /// shortly before. nil: it is notified in any case.
    var registeredEpochMilliseconds: Int64?

    /// Merges another entry of the same key.
    mutating func merge(_ other: ParkedPush) {
        self.receipts += other.receipts
        self.epochMilliseconds = max(self.epochMilliseconds, other.epochMilliseconds)
        if let registered = self.registeredEpochMilliseconds {
            self.registeredEpochMilliseconds = other.registeredEpochMilliseconds.map { max($0, registered) }
        }
    }
}
