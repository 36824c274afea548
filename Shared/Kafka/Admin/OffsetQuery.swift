import CRDKafka

/// Blocking queries for partitions and offsets.
enum OffsetQuery {
    /// Returns the first or the next offset of each partition, with one request per broker.
    ///
    /// librdkafka passes the time on as the timestamp of ListOffsets, where -1 is the end and -2 the beginning.
    /// Source: rdkafka.h, rd_kafka_offsets_for_times; Kafka protocol, ListOffsets
    static func offsets(
        _ raw: OpaquePointer, _ topic: String, _ count: Int, at moment: Int64, timeoutMilliseconds: Int32
    ) throws(KafkaError) -> [Int32: Int64] {
        let list = try Self.list(topic, count, offset: moment)
        let code = try unsafe list.use { list throws(KafkaError) in
            unsafe rd_kafka_offsets_for_times(raw, list, timeoutMilliseconds)
        }
        return try Self.found(list, code, "asking for the offsets of \(topic)")
    }

    /// Returns the first or the next offset of one partition.
    static func offset(
        _ raw: OpaquePointer, _ topic: String, _ partition: Int32, at moment: Int64, timeoutMilliseconds: Int32
    ) throws(KafkaError) -> Int64 {
        let list = try KafkaPositionList([KafkaPosition(topic: topic, partition: partition, offset: moment)])
        let code = try unsafe list.use { list throws(KafkaError) in
            unsafe rd_kafka_offsets_for_times(raw, list, timeoutMilliseconds)
        }
        let action = "asking for the offsets of \(topic)/\(partition)"
        guard let offset = try Self.found(list, code, action)[partition] else {
            throw KafkaError(.refused, "\(action): no answer for it")
        }
        return offset
    }

    /// Source: rdkafka.h, rd_kafka_committed: RD_KAFKA_OFFSET_INVALID if there is no commit
    static func committed(
        _ raw: OpaquePointer, _ topic: String, _ count: Int, timeoutMilliseconds: Int32
    ) throws(KafkaError) -> [Int32: Int64] {
        let list = try Self.list(topic, count, offset: Int64(RD_KAFKA_OFFSET_INVALID))
        let code = try unsafe list.use { list throws(KafkaError) in
            unsafe rd_kafka_committed(raw, list, timeoutMilliseconds)
        }
        // Most brokers answer that a group without commits has none; some answer that they do not know the group.
        guard code != RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND else { return [:] }
        let isRefused = unsafe code != RD_KAFKA_RESP_ERR_NO_ERROR && Self.isGroupRefused(raw)
        return try Self.found(
            list, isRefused ? RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED : code,
            "asking for the committed offsets of \(topic)")
    }

    /// True if brokers refuse to name the group's coordinator, which librdkafka reports as an event of the consumer
    /// while the query runs into its time limit. Source: rdkafka_cgrp.c at v2.0.2, rd_kafka_cgrp_handle_FindCoordinator
    private static func isGroupRefused(_ raw: OpaquePointer) -> Bool {
        while let event = unsafe rd_kafka_consumer_poll(raw, 0) {
            defer { unsafe rd_kafka_message_destroy(event) }
            if unsafe event.pointee.err == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED { return true }
        }
        return false
    }

    private static func list(_ topic: String, _ count: Int, offset: Int64) throws(KafkaError) -> KafkaPositionList {
        try KafkaPositionList(
            (0..<count).map { KafkaPosition(topic: topic, partition: Int32(clamping: $0), offset: offset) })
    }

    private static func found(
        _ list: borrowing KafkaPositionList, _ code: rd_kafka_resp_err_t, _ action: String
    ) throws(KafkaError) -> [Int32: Int64] {
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else { throw KafkaError(code, action) }
        var offsets: [Int32: Int64] = [:]
        for (position, code) in list.results {
            guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
                throw KafkaError(code, "\(action), partition \(position.partition)")
            }
            if position.offset >= 0 { offsets[position.partition] = position.offset }
        }
        return offsets
    }
}
