import CBindPort
import CRDKafkaMock
import Synchronization

/// A Kafka-protocol broker in this process: librdkafka's mock cluster, one broker over TCP on 127.0.0.1.
///
/// Owner: this object; the broker ends with `close` or with the last reference. Thread: one of librdkafka's.
/// Bounded: 5 MiB and 100,000 message sets per partition, the oldest dropped silently; nothing on disk, no compaction,
/// no CreateTopics, no TLS. Source: rdkafka_mock.h and rdkafka_mock.c at v2.0.2
/// Its port is reserved from the beginning to the end, also while the broker is down.
///
/// The first member of a group waits 3 s for others, which cannot be changed; a member that joins later waits for
/// `session.timeout.ms` - 1 s, so tests set that low (`quick`), but above the 3 s: waiting members send no heartbeat
/// and would be removed. Source: rdkafka_mock_cgrp.c at v2.0.2, rd_kafka_mock_cgrp_rebalance
/// `KafkaBroker.shared` returns the cluster that the environment names, for tests that neither stop nor break it.
@safe
public final class KafkaBroker: Sendable {
    /// Consumer properties that make rebalances, fetches and commits with the mock as quick as possible.
    ///
    /// The mock always waits the whole `fetch.wait.max.ms` before an empty answer, even if a record arrives meanwhile.
    /// Source: rdkafka_mock_handlers.c at v2.0.2, rd_kafka_mock_handle_Fetch
    public static let quick = [
        "session.timeout.ms": "4000", "heartbeat.interval.ms": "200", "fetch.wait.max.ms": "20",
        "topic.metadata.refresh.interval.ms": "5000", "auto.commit.interval.ms": "50",
    ]

    /// Returns the text of a file with `quick`, and with others, which take precedence.
    public static func quickFile(_ others: [String: String] = [:]) -> String {
        self.quick.merging(others) { $1 }.map { "\($0)=\($1)\n" }.joined()
    }

    /// A topic and its number of partitions.
    public struct Topic: Sendable, Hashable {
        public var name: String
        public var partitions: Int

        public init(_ name: String, partitions: Int) {
            self.name = name
            self.partitions = partitions
        }
    }

    /// The reason why a broker did not start, or refused a request.
    public struct Failure: Error, CustomStringConvertible {
        public let description: String
    }

    /// Represents an existing broker, which cannot be stopped or made to fail.
    init(bootstrap: String, topics: [Topic]) {
        self.cluster = Mutex(nil)
        self.port = nil
        self.bootstrap = bootstrap
        self.topics = topics
        // A real broker refuses less than 6 s. Source: Kafka broker setting group.min.session.timeout.ms
        self.properties = [
            "session.timeout.ms": "6000", "heartbeat.interval.ms": "500",
            "topic.metadata.refresh.interval.ms": "5000", "auto.commit.interval.ms": "50",
        ]
    }

    private struct Cluster {
        /// Bit patterns, since pointers are not `Sendable`; both are valid until `close`.
        let handle: UInt
        let cluster: UInt
    }

    private let cluster: Mutex<Cluster?>
    /// Nil if the environment named the broker.
    private let port: ReservedPort?
    /// `127.0.0.1:port`, or the value from the environment.
    public let bootstrap: String
    /// The topics it was started with; for a shared broker the topics created for this test, with their actual
    /// partitions.
    public let topics: [Topic]
    /// A consumer group that no other test uses.
    public let group = uniqueName("group")
    /// Consumer properties for quick rebalances that this broker accepts.
    public let properties: [String: String]

    /// Starts a broker with these topics. Unknown topics that a producer asks for are created with 4 partitions.
    /// - Parameter wish: the port; 0 chooses a free one.
    public init(topics: [Topic] = [], port wish: UInt16 = 0) throws {
        try TestServers.use("Kafka broker")
        let port = try wish == 0 ? ReservedPort() : ReservedPort(wish)
        guard let conf = unsafe rd_kafka_conf_new() else { throw Failure(description: "no configuration") }
        unsafe rd_kafka_conf_set_log_cb(conf) { _, _, _, _ in }
        guard let handle = unsafe rd_kafka_new(RD_KAFKA_PRODUCER, conf, nil, 0) else {
            unsafe rd_kafka_conf_destroy(conf)
            throw Failure(description: "no handle")
        }
        // The mock's broker binds on this thread.
        bindport_next(UInt16(truncatingIfNeeded: port.number))
        let made = unsafe rd_kafka_mock_cluster_new(handle, 1)
        bindport_next(0)
        guard let cluster = unsafe made else {
            unsafe rd_kafka_destroy(handle)
            throw Failure(description: "no mock cluster")
        }
        self.bootstrap = unsafe String(cString: rd_kafka_mock_cluster_bootstraps(cluster))
        let addresses = Cluster(handle: UInt(bitPattern: handle), cluster: UInt(bitPattern: cluster))
        self.cluster = Mutex(addresses)
        self.port = port
        self.topics = topics
        self.properties = Self.quick
        guard self.bootstrap == "127.0.0.1:\(port.number)" else {
            throw Failure(description: "the broker listens on \(self.bootstrap) and not on port \(port.number)")
        }
        for topic in topics { try self.create(topic) }
    }

    deinit { self.close() }

    public func create(_ topic: Topic) throws {
        try unsafe self.use("creating \(topic.name)") { cluster in
            unsafe rd_kafka_mock_topic_create(cluster, topic.name, Int32(clamping: topic.partitions), 1)
        }
    }

    /// Cuts every connection and refuses new ones. Stored records remain.
    ///
    /// The broker closes its socket and immediately binds another one to the port; if it cannot, it aborts the process.
    /// It cannot while a starting child still holds the old socket, so the lock keeps children from starting.
    /// Source: rdkafka_mock.c at v2.0.2, rd_kafka_mock_broker_cmd
    public func setDown() throws {
        try spawning.withLock { _ in
            try unsafe self.use("going down") { unsafe rd_kafka_mock_broker_set_down($0, 1) }
        }
    }

    public func setUp() throws {
        try unsafe self.use("coming up") { unsafe rd_kafka_mock_broker_set_up($0, 1) }
    }

    /// Answers requests about this topic with an error; 0 ends that. Source: Kafka protocol, error codes
    public func setError(topic: String, code: Int32) throws {
        try unsafe self.use("setting an error") { cluster in
            unsafe rd_kafka_mock_topic_set_error(cluster, topic, rd_kafka_resp_err_t(rawValue: code))
            return RD_KAFKA_RESP_ERR_NO_ERROR
        }
    }

    /// Takes the leader from a partition, as if its broker were dead, or gives it back.
    public func setLeader(of topic: String, partition: Int32, exists: Bool) throws {
        try unsafe self.use("setting a leader") {
            unsafe rd_kafka_mock_partition_set_leader($0, topic, partition, exists ? 1 : -1)
        }
    }

    /// Delays all answers by this time; 0 ends that.
    public func setDelay(milliseconds: Int) throws {
        try unsafe self.use("setting a delay") {
            unsafe rd_kafka_mock_broker_set_rtt($0, 1, Int32(clamping: milliseconds))
        }
    }

    /// Answers the next requests of a kind with these codes, one each. Source: Kafka protocol, API keys and error codes
    public func fail(apiKey: Int16, with codes: [Int32]) throws {
        try unsafe self.use("setting errors") { cluster in
            let errors = codes.map { rd_kafka_resp_err_t(rawValue: $0) }
            unsafe errors.withUnsafeBufferPointer { buffer in
                unsafe rd_kafka_mock_push_request_errors_array(cluster, apiKey, buffer.count, buffer.baseAddress)
            }
            return RD_KAFKA_RESP_ERR_NO_ERROR
        }
    }

    /// Answers requests of a kind without the errors that are left of `fail`.
    public func recover(apiKey: Int16) throws {
        try unsafe self.use("clearing errors") { cluster in
            unsafe rd_kafka_mock_clear_request_errors(cluster, apiKey)
            return RD_KAFKA_RESP_ERR_NO_ERROR
        }
    }

    /// Ends the broker. Calling it again is harmless.
    public func close() {
        let cluster = self.cluster.withLock { held in
            let taken = held.map { ($0.handle, $0.cluster) }
            held = nil
            return taken
        }
        guard let (handle, address) = cluster else { return }
        unsafe rd_kafka_mock_cluster_destroy(OpaquePointer(bitPattern: address))
        unsafe rd_kafka_destroy(OpaquePointer(bitPattern: handle))
    }

    private func use(_ action: String, _ body: (OpaquePointer) -> rd_kafka_resp_err_t) throws {
        try self.cluster.withLock { held in
            guard let address = held?.cluster, let cluster = unsafe OpaquePointer(bitPattern: address) else {
                throw Failure(description: "\(action): the broker is closed, or the environment gave it")
            }
            let code = unsafe body(cluster)
            guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
                throw Failure(description: "\(action): \(unsafe String(cString: rd_kafka_err2str(code)))")
            }
        }
    }
}
