/// The identity of a record that was handed out, so that its work can be finished after its content has been released.
public struct KafkaReceipt: Hashable, Sendable {
    public let topic: String
    public let partition: Int32
    public let offset: Int64
    /// The assignment of its partition under which it was read; 0 if it did not come from a group's consumer.
    let assignment: UInt64

    /// The position of the record.
    public var position: KafkaPosition {
        KafkaPosition(topic: self.topic, partition: self.partition, offset: self.offset)
    }

    /// `topic/partition/offset`, the form in which dead letters name their origin.
    public var origin: String { "\(self.topic)/\(self.partition)/\(self.offset)" }
}

extension KafkaRecord {
    /// The part of the record that the consumer needs back when its work is done.
    public var receipt: KafkaReceipt {
        KafkaReceipt(
            topic: self.topic, partition: self.partition, offset: self.offset, assignment: self.assignment)
    }
}

extension KafkaRecord {
    /// Returns the record as if it had been handed out together with another one of its partition.
    public func handedOut(with receipt: KafkaReceipt) -> KafkaRecord {
        var record = self
        record.assignment = receipt.assignment
        return record
    }
}
