import CRDKafka

/// Where a partition begins that the group has not read yet: at its first record, or at its end.
extension ConsumerThread {
    /// The longest wait for one answer.
    private static let startWait: Int32 = 5000
    private static let startAttempts = 3

    /// Sets partitions of `startsAtEnd` that have no commit to their ends. On the polling thread, before the assign.
    ///
    /// The end is committed first: else the records that come while no member runs would be left out by the next one.
    /// If the group cannot be asked, they are read from their beginning: rather too much than too little.
    /// Source: rdkafka.h, rd_kafka_committed: RD_KAFKA_OFFSET_INVALID if there is no commit
    func startAtEnd(
        _ raw: OpaquePointer, _ list: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>?,
        _ partitions: [KafkaPartition]
    ) {
        let chosen = partitions.filter { self.startsAtEnd($0.topic) }
        guard !chosen.isEmpty else { return }
        for attempt in 1...Self.startAttempts {
            do throws(KafkaError) {
                for end in try unsafe self.committedEnds(raw, chosen) {
                    _ = unsafe rd_kafka_topic_partition_list_set_offset(list, end.topic, end.partition, end.offset)
                }
                return
            } catch {
                self.tell(error)
                guard attempt == Self.startAttempts else { continue }
                self.tell(.warning, .error, "reading from the beginning: the ends of partitions could not be committed")
            }
        }
    }

    /// Commits the ends of partitions without a commit.
    private func committedEnds(
        _ raw: OpaquePointer, _ partitions: [KafkaPartition]
    ) throws(KafkaError) -> [KafkaPosition] {
        let asked = try KafkaPositionList(
            partitions.map { KafkaPosition(topic: $0.topic, partition: $0.partition, offset: 0) })
        let code = try unsafe asked.use { list throws(KafkaError) in
            unsafe rd_kafka_committed(raw, list, Self.startWait)
        }
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else { throw KafkaError(code, "asking for committed offsets") }
        var ends: [KafkaPosition] = []
        for (position, code) in asked.results where position.offset < 0 {
            guard code == RD_KAFKA_RESP_ERR_NO_ERROR else { throw KafkaError(code, "asking for committed offsets") }
            var (low, high) = (Int64(0), Int64(0))
            let answer = unsafe rd_kafka_query_watermark_offsets(
                raw, position.topic, position.partition, &low, &high, Self.startWait)
            guard answer == RD_KAFKA_RESP_ERR_NO_ERROR else {
                throw KafkaError(answer, "asking for the end of \(position.topic)/\(position.partition)")
            }
            ends.append(KafkaPosition(topic: position.topic, partition: position.partition, offset: high))
        }
        if !ends.isEmpty { try self.send(ends) }
        return ends
    }
}
