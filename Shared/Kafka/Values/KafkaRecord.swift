/// One record of a partition.
public struct KafkaRecord: Hashable, Sendable {
    /// The identifier of the cluster; empty if the cluster does not report it.
    public let cluster: String
    public let topic: String
    public let partition: Int32
    public let offset: Int64
    /// Milliseconds since 1970; -1 if the record has none.
    public let timestampMilliseconds: Int64
    /// nil is no key, which is not the empty key.
    public let key: [UInt8]?
    /// nil is a tombstone, which is not the empty value.
    public let value: [UInt8]?
    /// As received: order kept, names may repeat.
    public let headers: [KafkaHeader]
    /// The assignment of its partition under which it was read; 0 if it did not come from a group's consumer.
    var assignment: UInt64 = 0

    public init(
        cluster: String = "", topic: String, partition: Int32, offset: Int64, timestampMilliseconds: Int64,
        key: [UInt8]?, value: [UInt8]?, headers: [KafkaHeader] = []
    ) {
        self.cluster = cluster
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestampMilliseconds = timestampMilliseconds
        self.key = key
        self.value = value
        self.headers = headers
    }

    /// The position to commit once this record and all before it are done: the next to read.
    public var next: KafkaPosition {
        // An offset is below Int64.max: the broker counts records.
        KafkaPosition(topic: self.topic, partition: self.partition, offset: self.offset &+ 1)
    }

    /// The record's size in a bounded buffer in bytes, bookkeeping included.
    public var size: Int {
        var size = 128 + (self.key?.count ?? 0) + (self.value?.count ?? 0)
        for header in self.headers { size += 32 + header.name.utf8.count + (header.value?.count ?? 0) }
        return size
    }
}
