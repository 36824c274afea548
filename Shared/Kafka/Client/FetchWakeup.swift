import CRDKafka

/// The detection that librdkafka may have stopped fetching because its queue was full.
///
/// The thread of a broker checks again after a second, or when anything else wakes it; librdkafka 2.2.0 has
/// `fetch.queue.backoff.ms` for that time, 2.0.2 has nothing. So the thread that finds such a queue empty wakes it.
/// Source: librdkafka 2.0.2, rd_kafka_broker_consumer_serve; CHANGELOG 2.2.0, #2879
struct FetchWakeup {
    /// The sizes at which a queue is full.
    private let limits: (records: Int, bytes: Int)
    /// Records and bytes that arrived since the queue was empty: at least as many as it has held since then.
    private var records = 0
    private var bytes = 0

    /// - Parameter properties: those of the client; where they do not set the limits, librdkafka's defaults apply.
    init(_ properties: [(String, String)]) {
        func limit(_ name: String, _ usual: Int) -> Int {
            properties.last { $0.0 == name }.flatMap { Int($0.1) } ?? usual
        }
        self.limits = (limit("queued.min.messages", 100_000), limit("queued.max.messages.kbytes", 65_536) << 10)
    }

    /// True if the queue may have been full: when it is empty, the thread must be woken.
    var isDue: Bool { self.records >= self.limits.records || self.bytes >= self.limits.bytes }

    /// Notes that partitions are read from now on: the queue may be full of their records that were read ahead before.
    mutating func begin() { self.records = self.limits.records }

    /// Notes a record from the queue.
    mutating func note(_ record: KafkaRecord) {
        self.records += 1
        self.bytes += record.size
    }

    /// Notes that the queue is empty.
    ///
    /// - Returns: true if the thread must be woken.
    mutating func foundEmptyQueue() -> Bool {
        defer { (self.records, self.bytes) = (0, 0) }
        return self.isDue
    }

    /// Wakes the threads of the brokers that lead these partitions.
    ///
    /// Any request to a broker wakes its thread. The answer to this one is not awaited.
    static func wake(_ raw: OpaquePointer, _ partitions: [KafkaPartition]) {
        if partitions.isEmpty { return }
        let end = Int64(RD_KAFKA_OFFSET_END)
        let list = try? KafkaPositionList(
            partitions.map { KafkaPosition(topic: $0.topic, partition: $0.partition, offset: end) })
        guard let list else { return }
        try? unsafe list.use { list throws(KafkaError) in _ = unsafe rd_kafka_offsets_for_times(raw, list, 1) }
    }
}
