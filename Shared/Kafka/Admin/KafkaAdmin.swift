import CRDKafka

/// A client that creates topics and queries partitions, offsets and lag.
///
/// Owner: this object owns one C handle; queries about a group open another one for their duration.
/// Thread: one of its own; calls are queued for it.
/// Bounded: each call by `timeout` (default 10 s), 1024 calls may wait.
public final class KafkaAdmin: Sendable {
    private let properties: [(String, String)]
    private let configuration: KafkaConfiguration
    private let handle: KafkaHandle
    private let line: BlockingExecutor
    private let timeout: Int32

    /// Connects in the background.
    ///
    /// - Throws: `.configuration` naming the property.
    public init(_ configuration: KafkaConfiguration, timeout: Duration = .seconds(10)) throws(KafkaError) {
        self.configuration = configuration
        self.timeout = Int32(clamping: timeout.wholeMilliseconds)
        self.properties = try configuration.naming { () throws(KafkaError) in
            try configuration.resolved(defaults: Self.defaults, fixed: [:])
        }
        let properties = self.properties
        self.handle = try configuration.naming { () throws(KafkaError) in
            try unsafe KafkaHandle(
                RD_KAFKA_PRODUCER, properties: properties, callbacks: KafkaCallbacks(onEvent: configuration.onEvent))
        }
        self.line = try BlockingExecutor(name: "kafka-admin")
    }

    deinit {
        let handle = self.handle
        self.line.end { handle.destroy() }
    }

    private static let defaults = [
        "client.id": "waybill", "socket.nagle.disable": "true", "reconnect.backoff.max.ms": "2000",
        "allow.auto.create.topics": "false",
    ]

    /// Creates topics; one that exists already is left as it is, regardless of its settings.
    ///
    /// - Throws: `.unsupported` where the broker has no CreateTopics (the mock broker); `.configuration` for a setting
    ///   the broker refuses.
    public func createTopics(_ topics: [KafkaTopic]) async throws(KafkaError) {
        if topics.isEmpty { return }
        let (handle, timeout) = (self.handle, self.timeout)
        try await self.line.run { () throws(KafkaError) in
            try unsafe handle.use { raw throws(KafkaError) in
                try unsafe TopicCreation.run(raw, topics, timeoutMilliseconds: timeout)
            }
        }
    }

    /// Returns the number of partitions of a topic.
    ///
    /// - Throws: `.unknownTopic`
    public func partitions(_ topic: String) async throws(KafkaError) -> Int {
        try await self.partitionStates(topic).count
    }

    /// Returns the partitions of a topic.
    ///
    /// - Throws: `.unknownTopic`; `.authorization` if no operation on the topic is allowed.
    public func partitionStates(_ topic: String) async throws(KafkaError) -> [KafkaPartitionState] {
        let (handle, timeout) = (self.handle, self.timeout)
        return try await self.line.run { () throws(KafkaError) in
            try unsafe handle.use { raw throws(KafkaError) in
                try unsafe TopicQuery.partitions(raw, topic, timeoutMilliseconds: timeout)
            }
        }
    }

    /// Returns the settings in effect of some topics, by topic; a failure for a topic whose settings the broker does
    /// not return.
    ///
    /// - Throws: `.unsupported` where the broker has no DescribeConfigs (the mock broker).
    public func settings(
        of topics: [String]
    ) async throws(KafkaError) -> [String: Result<[String: String], KafkaError>] {
        let (handle, timeout) = (self.handle, self.timeout)
        return try await self.line.run { () throws(KafkaError) in
            try unsafe handle.use { raw throws(KafkaError) in
                try unsafe TopicQuery.settings(raw, topics, timeoutMilliseconds: timeout)
            }
        }
    }

    /// Returns the next offset to be written, per partition.
    public func endOffsets(_ topic: String) async throws(KafkaError) -> [Int32: Int64] {
        try await self.offsets(topic, at: Int64(RD_KAFKA_OFFSET_END))
    }

    /// Returns the first offset that still exists, per partition.
    public func beginningOffsets(_ topic: String) async throws(KafkaError) -> [Int32: Int64] {
        try await self.offsets(topic, at: Int64(RD_KAFKA_OFFSET_BEGINNING))
    }

    /// Returns the offsets that a group has committed; partitions without a commit are left out.
    public func committed(group: String, topic: String) async throws(KafkaError) -> [Int32: Int64] {
        var properties = self.properties.filter { $0.0 != "group.id" }
        properties.append(("group.id", group))
        let (given, onEvent, handle, timeout) = (properties, self.configuration.onEvent, self.handle, self.timeout)
        return try await self.line.run { () throws(KafkaError) in
            let count = try unsafe handle.use { raw throws(KafkaError) in
                try unsafe TopicQuery.partitions(raw, topic, timeoutMilliseconds: timeout).count
            }
            // Only a handle with this group.id may query; it never subscribes, so it does not join.
            let member = try unsafe KafkaHandle(
                RD_KAFKA_CONSUMER, properties: given, callbacks: KafkaCallbacks(onEvent: onEvent))
            defer { member.destroy() }
            return try unsafe member.use { raw throws(KafkaError) in
                try unsafe OffsetQuery.committed(raw, topic, count, timeoutMilliseconds: timeout)
            }
        }
    }

    /// Returns the number of records that a group has yet to process, per partition. Without a commit all existing
    /// records count.
    public func lag(group: String, topic: String) async throws(KafkaError) -> [Int32: Int64] {
        // Committed first: a committed offset cannot exceed an end that was queried later.
        let committed = try await self.committed(group: group, topic: topic)
        let beginnings = try await self.beginningOffsets(topic)
        var lag = try await self.endOffsets(topic)
        for (partition, end) in lag {
            lag[partition] = max(0, end - max(committed[partition] ?? 0, beginnings[partition] ?? 0))
        }
        return lag
    }

    /// Ends the thread after the queued calls. Calling it again is harmless.
    public func close() async {
        let handle = self.handle
        await withCheckedContinuation { continuation in
            let isFirst = self.line.end {
                handle.destroy()
                continuation.resume()
            }
            if !isFirst { continuation.resume() }
        }
    }

    private func offsets(_ topic: String, at moment: Int64) async throws(KafkaError) -> [Int32: Int64] {
        let (handle, timeout) = (self.handle, self.timeout)
        return try await self.line.run { () throws(KafkaError) in
            try unsafe handle.use { raw throws(KafkaError) in
                let count = try unsafe TopicQuery.partitions(raw, topic, timeoutMilliseconds: timeout).count
                return try unsafe OffsetQuery.offsets(raw, topic, count, at: moment, timeoutMilliseconds: timeout)
            }
        }
    }
}
