/// The choice of a partition for a message that has a key and names no partition.
///
/// Source: librdkafka `murmur2_random`, which is what Kafka's Java producers do with a key
public enum KafkaPartitioner {
    /// Returns the partition of a key in a topic.
    ///
    /// - Parameter count: partitions of the topic, above 0.
    public static func partition(of key: [UInt8], count: Int) -> Int32 {
        Int32((Self.murmur2(key) & 0x7FFF_FFFF) % UInt32(clamping: max(1, count)))
    }

    /// Source: org.apache.kafka.common.utils.Utils, murmur2
    private static func murmur2(_ bytes: [UInt8]) -> UInt32 {
        let factor: UInt32 = 0x5BD1_E995
        var hash = 0x9747_B28C ^ UInt32(truncatingIfNeeded: bytes.count)
        var index = 0
        while bytes.count - index >= 4 {
            var word =
                UInt32(bytes[index]) | UInt32(bytes[index + 1]) << 8 | UInt32(bytes[index + 2]) << 16
                | UInt32(bytes[index + 3]) << 24
            word &*= factor
            word ^= word >> 24
            word &*= factor
            hash &*= factor
            hash ^= word
            index += 4
        }
        let rest = bytes[index...]
        for (place, byte) in rest.enumerated() { hash ^= UInt32(byte) << UInt32(8 * place) }
        if !rest.isEmpty { hash &*= factor }
        hash ^= hash >> 13
        hash &*= factor
        hash ^= hash >> 15
        return hash
    }
}
