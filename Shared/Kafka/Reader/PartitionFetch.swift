import CRDKafka
import Synchronization

/// The sole owner of one `rd_kafka_topic_t *` and of the fetching of one of its partitions.
///
/// Owner: this object; `stop` releases it. Thread: the one of the read, which makes all calls here. Bounded: librdkafka
/// reads ahead up to `queued.max.messages.kbytes`; each call waits for `tick`, or `query` as long as its argument says.
/// Source: rdkafka.h, "Simple Consumer API (legacy)": it needs no group, each partition has its queue
@safe
final class PartitionFetch: @unchecked Sendable {  // tidy: the pointer is constant and rd_kafka_topic_t is thread-safe
    /// The longest delay, in milliseconds, before a cancellation is noticed.
    static let tick: Int32 = 100

    private let handle: KafkaHandle
    private let raw: OpaquePointer
    private let topic: String
    private let partition: Int32
    private let isStarted = Atomic<Bool>(false)
    private let wakeup: Mutex<FetchWakeup>

    /// - Parameter wakeup: due if the queue may be full of records that were read ahead before.
    /// - Throws: `.closed`, or librdkafka's reason for refusing the name.
    init(
        _ handle: KafkaHandle, topic: String, partition: Int32, wakeup: FetchWakeup
    ) throws(KafkaError) {
        self.handle = handle
        self.topic = topic
        self.partition = partition
        self.wakeup = Mutex(wakeup)
        unsafe self.raw = try unsafe handle.use { raw throws(KafkaError) in
            guard let made = unsafe rd_kafka_topic_new(raw, topic, nil) else {
                throw KafkaError(rd_kafka_last_error(), "reading \(topic)/\(partition)")
            }
            return unsafe made
        }
    }

    /// Returns the present bounds of the partition.
    ///
    /// Does not use rd_kafka_query_watermark_offsets: at v2.0.2 it ignores its time limit once the leader is known and
    /// waits for a broker that cannot be reached.
    func query(milliseconds: Int32) throws(KafkaError) -> OffsetRange {
        try unsafe self.handle.use { raw throws(KafkaError) in
            _ = unsafe rd_kafka_poll(raw, 0)
            // The beginning is queried first: an end that is queried later cannot be before it.
            let first = try unsafe OffsetQuery.offset(
                raw, self.topic, self.partition, at: Int64(RD_KAFKA_OFFSET_BEGINNING),
                timeoutMilliseconds: milliseconds)
            let end = try unsafe OffsetQuery.offset(
                raw, self.topic, self.partition, at: Int64(RD_KAFKA_OFFSET_END), timeoutMilliseconds: milliseconds)
            return OffsetRange(partition: self.partition, first: first, end: max(first, end))
        }
    }

    func start(at offset: Int64) throws(KafkaError) {
        let result = try unsafe self.handle.use { _ throws(KafkaError) in
            unsafe rd_kafka_consume_start(self.raw, self.partition, offset)
        }
        guard result == 0 else {
            throw KafkaError(rd_kafka_last_error(), "reading \(self.topic)/\(self.partition) at \(offset)")
        }
        self.isStarted.store(true, ordering: .relaxed)
    }

    /// Ends the fetching and releases the topic. Call it exactly once, as the last call, before the handle may end.
    func stop() {
        try? unsafe self.handle.use { _ throws(KafkaError) in
            // Stopping a fetch that was not started waits forever, if the partition was read before.
            if self.isStarted.load(ordering: .relaxed) {
                _ = unsafe rd_kafka_consume_stop(self.raw, self.partition)
                // It drops records that were read ahead, with which the next fetch of the partition would begin late.
                if let message = unsafe rd_kafka_consume(self.raw, self.partition, 0) {
                    unsafe rd_kafka_message_destroy(message)
                }
            }
            unsafe rd_kafka_topic_destroy(self.raw)
        }
    }

    /// The partition that is read.
    var name: KafkaPartition { KafkaPartition(topic: self.topic, partition: self.partition) }

    /// Wakes the thread of the broker.
    func wake() { try? unsafe self.handle.use { raw in unsafe FetchWakeup.wake(raw, [self.name]) } }

    /// Waits for the first record, then takes the available ones up to the limits.
    ///
    /// - Parameter tick: the milliseconds to wait; none if the thread of the broker must be woken.
    /// - Throws: `.outOfRange` if offsets start over, and errors that waiting cannot cure.
    func take(
        _ progress: inout ReadProgress, records limit: Int, bytes: Int, wait tick: Int32 = PartitionFetch.tick
    ) throws(KafkaError) -> [KafkaRecord] {
        var records: [KafkaRecord] = []
        var size = 0
        var wakeup = self.wakeup.withLock { $0 }
        defer { self.wakeup.withLock { $0 = wakeup } }
        var wait = wakeup.isDue ? 0 : tick
        var cluster: String?
        try unsafe self.handle.use { raw throws(KafkaError) in
            // Serves the callbacks for errors.
            _ = unsafe rd_kafka_poll(raw, 0)
            while records.count < limit, size < bytes, !progress.isDone {
                guard let message = unsafe rd_kafka_consume(self.raw, self.partition, wait) else {
                    if wakeup.foundEmptyQueue() {
                        unsafe FetchWakeup.wake(raw, [self.name])
                    }
                    break
                }
                defer { unsafe rd_kafka_message_destroy(message) }
                wait = 0
                let code = unsafe message.pointee.err
                guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
                    try unsafe self.handle(message, code, &progress)
                    continue
                }
                guard try progress.takes(unsafe message.pointee.offset) else { continue }
                if cluster == nil { cluster = unsafe self.handle.cluster(raw) }
                let record = unsafe KafkaRecord(message, cluster: cluster ?? "", topics: [self.topic])
                size += record.size
                wakeup.note(record)
                records.append(record)
            }
        }
        return records
    }

    /// Handles a message in place of a record: the end of the partition, or an error, transient or not.
    private func handle(
        _ message: UnsafeMutablePointer<rd_kafka_message_t>, _ code: rd_kafka_resp_err_t,
        _ progress: inout ReadProgress
    ) throws(KafkaError) {
        if code == RD_KAFKA_RESP_ERR__PARTITION_EOF {
            try progress.reachedEnd(at: unsafe message.pointee.offset)
            return
        }
        let reason = unsafe rd_kafka_message_errstr(message).map { unsafe String(cString: $0) }
        let error = KafkaError(code, "reading \(progress.name)", reason: reason)
        guard error.mayPass else { throw error }
        progress.complained(error)
    }
}

extension KafkaError {
    /// True if waiting may help, as far as the library knows: it retries by itself.
    var mayPass: Bool {
        switch self.code {
        case .configuration, .outOfMemory, .closed, .cancelled, .authorization, .unsupported, .unknownTopic, .fenced,
            .outOfRange:
            false
        case .busy, .queueFull, .messageTooLarge, .transport, .timedOut, .rebalanced, .refused: !self.isFatal
        }
    }
}
