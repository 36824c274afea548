import CRDKafka
import Glibc

extension KafkaRecord {
    /// Copies a record out of librdkafka; the message remains the caller's.
    ///
    /// A tombstone is a null payload without an error. Source: rdkafka.h, rd_kafka_message_t
    /// - Parameters:
    ///   - cluster: the identifier of the cluster that it comes from.
    ///   - topics: likely names, so that not every record makes its own string.
    init(_ message: UnsafeMutablePointer<rd_kafka_message_t>, cluster: String, topics: [String]) {
        let name = unsafe rd_kafka_topic_name(message.pointee.rkt)
        var topic = topics.first { known in
            unsafe known.withCString { known in unsafe name.map { unsafe strcmp(known, $0) == 0 } ?? false }
        }
        if topic == nil { topic = unsafe name.map { unsafe String(cString: $0) } }
        let timestamp = unsafe rd_kafka_message_timestamp(message, nil)
        unsafe self.init(
            cluster: cluster, topic: topic ?? "", partition: message.pointee.partition, offset: message.pointee.offset,
            timestampMilliseconds: timestamp,
            key: Self.bytes(message.pointee.key, message.pointee.key_len),
            value: Self.bytes(message.pointee.payload, message.pointee.len), headers: Self.headers(message))
    }

    private static func bytes(_ start: UnsafeRawPointer?, _ count: Int) -> [UInt8]? {
        guard let start = unsafe start else { return nil }
        return unsafe [UInt8](UnsafeRawBufferPointer(start: start, count: count))
    }

    private static func headers(_ message: UnsafeMutablePointer<rd_kafka_message_t>) -> [KafkaHeader] {
        var list: OpaquePointer?
        guard unsafe rd_kafka_message_headers(message, &list) == RD_KAFKA_RESP_ERR_NO_ERROR, unsafe list != nil
        else { return [] }
        var headers: [KafkaHeader] = []
        var name: UnsafePointer<CChar>?
        var value: UnsafeRawPointer?
        var size = 0
        // Indices end at the first error. Source: rdkafka.h, rd_kafka_header_get_all
        while unsafe rd_kafka_header_get_all(list, headers.count, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR {
            let text = unsafe name.map { unsafe String(cString: $0) } ?? ""
            headers.append(KafkaHeader(name: text, value: unsafe Self.bytes(value, size)))
        }
        return headers
    }
}
