import CRDKafka

/// The cluster's view of a partition.
public struct KafkaPartitionState: Hashable, Sendable {
    /// Brokers that hold a copy.
    public let replicas: Int
    /// Those of them whose copy is up to date.
    public let inSync: Int
    /// False for a partition that nobody can read or write.
    public let hasLeader: Bool

    public init(replicas: Int, inSync: Int, hasLeader: Bool = true) {
        self.replicas = replicas
        self.inSync = inSync
        self.hasLeader = hasLeader
    }
}

/// Blocking queries about topics.
enum TopicQuery {
    /// Source: rdkafka.h, rd_kafka_metadata
    static func partitions(
        _ raw: OpaquePointer, _ topic: String, timeoutMilliseconds: Int32
    ) throws(KafkaError) -> [KafkaPartitionState] {
        let action = "asking for the partitions of \(topic)"
        guard let handle = unsafe rd_kafka_topic_new(raw, topic, nil) else {
            throw KafkaError(rd_kafka_last_error(), action)
        }
        defer { unsafe rd_kafka_topic_destroy(handle) }

        var metadata: UnsafePointer<rd_kafka_metadata>?
        let code = unsafe rd_kafka_metadata(raw, 0, handle, &metadata, timeoutMilliseconds)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR, let found = unsafe metadata else { throw KafkaError(code, action) }
        defer { unsafe rd_kafka_metadata_destroy(found) }

        guard unsafe found.pointee.topic_cnt > 0, let first = unsafe found.pointee.topics else {
            throw KafkaError(RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, action)
        }
        let topicCode = unsafe first.pointee.err
        guard topicCode == RD_KAFKA_RESP_ERR_NO_ERROR else { throw KafkaError(topicCode, action) }
        let partitions = unsafe UnsafeBufferPointer(
            start: first.pointee.partitions, count: Int(first.pointee.partition_cnt))
        return unsafe partitions.map {
            // Without a leader Kafka lists the last replica as in sync, although its broker is dead.
            let hasLeader = unsafe $0.leader >= 0
            return unsafe KafkaPartitionState(
                replicas: Int($0.replica_cnt), inSync: hasLeader ? Int($0.isr_cnt) : 0, hasLeader: hasLeader)
        }
    }

    /// Returns the settings in effect of some topics, including those that the cluster sets for all.
    ///
    /// Blocks until the broker has answered, for little more than `timeoutMilliseconds`.
    /// Source: rdkafka.h, rd_kafka_DescribeConfigs
    static func settings(
        _ raw: OpaquePointer, _ topics: [String], timeoutMilliseconds: Int32
    ) throws(KafkaError) -> [String: Result<[String: String], KafkaError>] {
        let action = "asking for the settings of \(topics.joined(separator: ", "))"
        // The request goes to the controller.
        try unsafe TopicCreation.findController(raw, action, timeoutMilliseconds)
        var resources: [OpaquePointer?] = unsafe topics.map {
            unsafe rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, $0)
        }
        defer { for index in unsafe resources.indices { unsafe rd_kafka_ConfigResource_destroy(resources[index]) } }
        guard let queue = unsafe rd_kafka_queue_new(raw) else { throw KafkaError(.outOfMemory, action) }
        defer { unsafe rd_kafka_queue_destroy(queue) }
        guard let options = unsafe rd_kafka_AdminOptions_new(raw, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS) else {
            throw KafkaError(.outOfMemory, action)
        }
        defer { unsafe rd_kafka_AdminOptions_destroy(options) }
        _ = unsafe rd_kafka_AdminOptions_set_request_timeout(options, timeoutMilliseconds, nil, 0)

        unsafe rd_kafka_DescribeConfigs(raw, &resources, resources.count, options, queue)
        // The request has its own time limit; an extra second ensures that its answer is not missed.
        let wait = timeoutMilliseconds > Int32.max - 1000 ? timeoutMilliseconds : timeoutMilliseconds + 1000
        guard let event = unsafe rd_kafka_queue_poll(queue, wait) else {
            throw KafkaError(RD_KAFKA_RESP_ERR__TIMED_OUT, action)
        }
        defer { unsafe rd_kafka_event_destroy(event) }
        let code = unsafe rd_kafka_event_error(event)
        guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
            throw KafkaError(
                code, action, reason: unsafe rd_kafka_event_error_string(event).map { unsafe String(cString: $0) })
        }
        return unsafe Self.read(event)
    }

    private static func read(_ event: OpaquePointer) -> [String: Result<[String: String], KafkaError>] {
        guard let result = unsafe rd_kafka_event_DescribeConfigs_result(event) else { return [:] }
        var count = 0
        guard let found = unsafe rd_kafka_DescribeConfigs_result_resources(result, &count) else { return [:] }
        var settings: [String: Result<[String: String], KafkaError>] = [:]
        for index in 0..<count {
            let resource = unsafe found[index]
            let name = unsafe rd_kafka_ConfigResource_name(resource).map { unsafe String(cString: $0) } ?? ""
            let code = unsafe rd_kafka_ConfigResource_error(resource)
            guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
                let reason = unsafe rd_kafka_ConfigResource_error_string(resource).map { unsafe String(cString: $0) }
                settings[name] = .failure(KafkaError(code, "asking for the settings of \(name)", reason: reason))
                continue
            }
            settings[name] = unsafe .success(Self.entries(resource))
        }
        return settings
    }

    private static func entries(_ resource: OpaquePointer?) -> [String: String] {
        var count = 0
        guard let entries = unsafe rd_kafka_ConfigResource_configs(resource, &count) else { return [:] }
        var values: [String: String] = [:]
        for index in 0..<count {
            let entry = unsafe entries[index]
            guard let name = unsafe rd_kafka_ConfigEntry_name(entry),
                let value = unsafe rd_kafka_ConfigEntry_value(entry)
            else { continue }
            unsafe values[String(cString: name)] = unsafe String(cString: value)
        }
        return values
    }
}
