import CRDKafka

/// The sole owner of one `rd_kafka_topic_partition_list_t *`.
@safe
struct KafkaPositionList: ~Copyable {
    private let raw: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>

    /// - Throws: `.outOfMemory`
    init(_ positions: [KafkaPosition]) throws(KafkaError) {
        guard let raw = unsafe rd_kafka_topic_partition_list_new(Int32(clamping: positions.count)) else {
            throw KafkaError(.outOfMemory, "making a list of \(positions.count) positions")
        }
        unsafe self.raw = raw
        for position in positions {
            let element = unsafe rd_kafka_topic_partition_list_add(raw, position.topic, position.partition)
            if let element = unsafe element { unsafe element.pointee.offset = position.offset }
        }
    }

    deinit {
        unsafe rd_kafka_topic_partition_list_destroy(self.raw)
    }

    /// Lends the list. The pointer must not leave the closure.
    func use<Value>(
        _ body: (UnsafeMutablePointer<rd_kafka_topic_partition_list_t>) throws(KafkaError) -> Value
    ) throws(KafkaError) -> Value {
        try unsafe body(self.raw)
    }

    /// Each position with librdkafka's result for it.
    var results: [(position: KafkaPosition, code: rd_kafka_resp_err_t)] { unsafe Self.read(self.raw) }

    /// Copies a list that librdkafka owns.
    static func read(
        _ list: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>
    ) -> [(position: KafkaPosition, code: rd_kafka_resp_err_t)] {
        guard let elements = unsafe list.pointee.elems else { return [] }
        return unsafe UnsafeBufferPointer(start: elements, count: Int(list.pointee.cnt)).map { element in
            let topic = unsafe element.topic.map { unsafe String(cString: $0) } ?? ""
            let position = unsafe KafkaPosition(topic: topic, partition: element.partition, offset: element.offset)
            return unsafe (position, element.err)
        }
    }
}
