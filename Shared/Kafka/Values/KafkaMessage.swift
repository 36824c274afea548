/// A message to be produced.
public struct KafkaMessage: Hashable, Sendable {
    public var topic: String
    /// nil: chosen by the key's murmur2 hash, as Java producers do, or at random without a key.
    public var partition: Int32?
    public var key: [UInt8]?
    /// nil is a tombstone.
    public var value: [UInt8]?
    public var headers: [KafkaHeader]
    /// Milliseconds since 1970, above 0; nil: the moment at which it is produced.
    public var timestampMilliseconds: Int64?

    public init(
        topic: String, partition: Int32? = nil, key: [UInt8]?, value: [UInt8]?, headers: [KafkaHeader] = [],
        timestampMilliseconds: Int64? = nil
    ) {
        self.topic = topic
        self.partition = partition
        self.key = key
        self.value = value
        self.headers = headers
        self.timestampMilliseconds = timestampMilliseconds
    }
}
