/// Names a record that was handed out, so that its work can be ended when its content is long forgotten.
public struct KafkaReceipt: Hashable, Sendable {
    public let topic: String
    public let partition: Int32
    public let offset: Int64
    /// Which coming of its partition to the consumer it was read under; 0 if it did not come from a group's consumer.
    let assignment: UInt64

    /// Where the record stands.
    public var position: KafkaPosition {
        KafkaPosition(topic: self.topic, partition: self.partition, offset: self.offset)
    }

    /// `topic/partition/offset`, as dead letters tell their origin.
    public var origin: String { "\(self.topic)/\(self.partition)/\(self.offset)" }
}

extension KafkaRecord {
    /// What the consumer wants to see again when the record's work is done.
    public var receipt: KafkaReceipt {
        KafkaReceipt(
            topic: self.topic, partition: self.partition, offset: self.offset, assignment: self.assignment)
    }
}

extension KafkaRecord {
    /// The same record as if it had been handed out with another one of its partition.
    public func handedOut(with receipt: KafkaReceipt) -> KafkaRecord {
        var record = self
        record.assignment = receipt.assignment
        return record
    }
}
