import CRDKafka

/// The CreateTopics request. Source: rdkafka.h, rd_kafka_CreateTopics
enum TopicCreation {
    /// Blocks until the controller has answered, for little more than `timeoutMilliseconds`.
    static func run(_ raw: OpaquePointer, _ topics: [KafkaTopic], timeoutMilliseconds: Int32) throws(KafkaError) {
        try unsafe Self.findController(raw, "creating topics", timeoutMilliseconds)
        var wanted: [OpaquePointer?] = unsafe []
        defer { for index in unsafe wanted.indices { unsafe rd_kafka_NewTopic_destroy(wanted[index]) } }
        for topic in topics { unsafe wanted.append(try unsafe Self.make(topic)) }

        guard let queue = unsafe rd_kafka_queue_new(raw) else { throw KafkaError(.outOfMemory, "making a queue") }
        defer { unsafe rd_kafka_queue_destroy(queue) }
        guard let options = unsafe rd_kafka_AdminOptions_new(raw, RD_KAFKA_ADMIN_OP_CREATETOPICS) else {
            throw KafkaError(.outOfMemory, "making options")
        }
        defer { unsafe rd_kafka_AdminOptions_destroy(options) }
        _ = unsafe rd_kafka_AdminOptions_set_request_timeout(options, timeoutMilliseconds, nil, 0)
        _ = unsafe rd_kafka_AdminOptions_set_operation_timeout(options, timeoutMilliseconds, nil, 0)

        unsafe rd_kafka_CreateTopics(raw, &wanted, wanted.count, options, queue)
        // The request has its own time limit; an extra second ensures that its answer is not missed.
        let wait = timeoutMilliseconds > Int32.max - 1000 ? timeoutMilliseconds : timeoutMilliseconds + 1000
        guard let event = unsafe rd_kafka_queue_poll(queue, wait) else {
            throw KafkaError(RD_KAFKA_RESP_ERR__TIMED_OUT, "creating topics")
        }
        defer { unsafe rd_kafka_event_destroy(event) }
        let code = unsafe rd_kafka_event_error(event)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
            throw KafkaError(
                code, "creating topics",
                reason: unsafe rd_kafka_event_error_string(event).map { unsafe String(cString: $0) })
        }
        try unsafe Self.check(event)
    }

    /// Checks that the controller is known: it alone creates topics and is asked for their settings. The mock broker
    /// names none by itself, and librdkafka would wait for it. Source: rdkafka.h, rd_kafka_controllerid;
    /// rdkafka_mock_handlers.c at v2.0.2
    static func findController(
        _ raw: OpaquePointer, _ action: String, _ timeoutMilliseconds: Int32
    ) throws(KafkaError) {
        var metadata: UnsafePointer<rd_kafka_metadata>?
        let code = unsafe rd_kafka_metadata(raw, 0, nil, &metadata, timeoutMilliseconds)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR, let found = unsafe metadata else {
            throw KafkaError(code, action)
        }
        defer { unsafe rd_kafka_metadata_destroy(found) }
        let controller = unsafe rd_kafka_controllerid(raw, timeoutMilliseconds)
        let brokers = unsafe UnsafeBufferPointer(start: found.pointee.brokers, count: Int(found.pointee.broker_cnt))
        if unsafe brokers.contains(where: { unsafe $0.id == controller }) { return }
        throw KafkaError(.unsupported, "\(action): controller \(controller) is not one of the cluster's brokers")
    }

    private static func make(_ topic: KafkaTopic) throws(KafkaError) -> OpaquePointer {
        var text = [CChar](repeating: 0, count: 512)
        let made = unsafe rd_kafka_NewTopic_new(
            topic.name, Int32(clamping: topic.partitions), Int32(clamping: topic.replication), &text, text.count)
        guard let made = unsafe made else {
            throw KafkaError(.configuration, "creating \(topic.name): \(KafkaHandle.string(text))")
        }
        for (name, value) in topic.configuration.sorted(by: { $0.key < $1.key }) {
            let code = unsafe rd_kafka_NewTopic_set_config(made, name, value)
            if code != RD_KAFKA_RESP_ERR_NO_ERROR {
                unsafe rd_kafka_NewTopic_destroy(made)
                throw KafkaError(code, "creating \(topic.name): setting \(name)")
            }
        }
        return unsafe made
    }

    private static func check(_ event: OpaquePointer) throws(KafkaError) {
        guard let result = unsafe rd_kafka_event_CreateTopics_result(event) else { return }
        var count = 0
        guard let topics = unsafe rd_kafka_CreateTopics_result_topics(result, &count) else { return }
        for index in 0..<count {
            let topic = unsafe topics[index]
            let code = unsafe rd_kafka_topic_result_error(topic)
            if code == RD_KAFKA_RESP_ERR_NO_ERROR || code == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS { continue }
            let name = unsafe rd_kafka_topic_result_name(topic).map { unsafe String(cString: $0) } ?? ""
            let reason = unsafe rd_kafka_topic_result_error_string(topic).map { unsafe String(cString: $0) }
            throw KafkaError(code, "creating \(name)", reason: reason)
        }
    }
}
