import CRDKafka
import Dispatch
import Synchronization

/// The polling thread of one consumer: serves librdkafka and fills the buffer.
///
/// Owner: the thread itself, from start until it has destroyed the handle; `KafkaConsumer` only asks it to stop.
/// Thread: `rd_kafka_consumer_poll` and the rebalance callback run on it and nowhere else.
/// Bounded: the buffer by `readAhead`, librdkafka's own queue by `queued.max.messages.kbytes`, the wait for a worker on
/// revoke by `revokeWait`, for a commit after that by `commitWait`, closing by `closeWait` and `destroyWait`.
///
/// Records are read with `rd_kafka_consumer_poll` alone: `rd_kafka_consume_batch_queue` skips some when partitions are
/// paused (librdkafka CHANGELOG 2.1.0, #4208). Any poll counts for `max.poll.interval.ms` (#4176), so a stalled worker
/// must be detected by `KafkaConsumer.quietTime`.
final class ConsumerThread: Sendable {
    /// The longest time for closing before the handle is given up.
    static let closeWait = Duration.seconds(10)
    /// The longest wait for the end of the handle after that.
    static let destroyWait = Duration.seconds(5)
    /// The longest time that the group waits for the last commit of partitions that leave.
    static let commitWait = Duration.seconds(5)

    let state: Mutex<ConsumerState>
    let handle: KafkaHandle
    private let topics: [String]
    let revokeWait: Duration
    /// Notifies the worker that partitions leave; it returns the records of them that it will not process.
    let onLeaving: @Sendable (Set<KafkaPartition>) -> [KafkaReceipt]
    let onCommit: (@Sendable (KafkaConsumer.CommitMoment) -> Void)?
    private let onEvent: (@Sendable (KafkaEvent) -> Void)?
    private let role: KafkaRole
    /// Topics for which a broker refuses to send us records.
    private let refused = Mutex<Set<String>>([])
    private let isRefused = Atomic<Bool>(false)
    let wake = DispatchSemaphore(value: 0)
    /// The same for the committing thread, and the signal that it has ended.
    let commitWake = DispatchSemaphore(value: 0)
    let commitsEnded = DispatchSemaphore(value: 0)

    init(
        properties: [(String, String)], topics: [String], revokeWait: Duration, pauseAfter: Duration,
        readAhead: (records: Int, bytes: Int), onLeaving: @escaping @Sendable (Set<KafkaPartition>) -> [KafkaReceipt],
        onCommit: (@Sendable (KafkaConsumer.CommitMoment) -> Void)? = nil,
        onEvent: (@Sendable (KafkaEvent) -> Void)?
    ) throws(KafkaError) {
        var state = ConsumerState(
            pauseAfter: pauseAfter, readAhead: readAhead, wakeup: FetchWakeup(properties))
        state.commits = CommitSchedule(pause: Self.commitPause(properties))
        self.state = Mutex(state)
        self.topics = topics
        self.revokeWait = revokeWait
        self.onLeaving = onLeaving
        self.onCommit = onCommit
        self.onEvent = onEvent
        self.role = .member(group: properties.first { $0.0 == "group.id" }?.1 ?? "", topics: topics)
        let reference = ConsumerThreadReference()
        self.handle = try unsafe KafkaHandle(
            RD_KAFKA_CONSUMER, properties: properties,
            callbacks: KafkaCallbacks(
                onEvent: onEvent, role: self.role, onRebalance: { unsafe reference.thread?.rebalance($0, $1, $2) },
                onFatal: { reference.thread?.fail($0) }))
        do throws(KafkaError) {
            try self.subscribe()
            try KafkaThread.start("kafka-commit") { self.runCommits() }
            // From here on the thread keeps itself alive; it clears the reference when it ends.
            reference.set(self)
            try KafkaThread.start("kafka-consumer") {
                self.run()
                reference.set(nil)
            }
        } catch {
            reference.set(nil)
            self.state.withLock { _ = $0.commits.finish() }
            self.commitWake.signal()
            throw error
        }
    }

    /// Source: librdkafka CONFIGURATION.md, auto.commit.interval.ms: 0 to 86,400,000
    private static func commitPause(_ properties: [(String, String)]) -> Duration {
        let given = properties.first { $0.0 == "auto.commit.interval.ms" }.flatMap { Int($0.1) }
        return .milliseconds(given ?? 1000)
    }

    private func subscribe() throws(KafkaError) {
        let list = try KafkaPositionList(
            self.topics.map { KafkaPosition(topic: $0, partition: RD_KAFKA_PARTITION_UA, offset: 0) })
        try unsafe self.handle.use { raw throws(KafkaError) in
            // Messages of the main queue (errors, log) then arrive with the consumer's.
            unsafe rd_kafka_poll_set_consumer(raw)
            let code = try unsafe list.use { list throws(KafkaError) in unsafe rd_kafka_subscribe(raw, list) }
            guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
                throw KafkaError(code, "subscribing to \(self.topics.joined(separator: ", "))")
            }
        }
    }

    // MARK: from other threads

    /// Makes the polling thread check the state immediately.
    func nudge() {
        if self.state.withLock({ $0.isAsleep }) { self.wake.signal() }
        try? unsafe self.handle.use { raw throws(KafkaError) in
            guard let queue = unsafe rd_kafka_queue_get_consumer(raw) else { return }
            unsafe rd_kafka_queue_yield(queue)
            unsafe rd_kafka_queue_destroy(queue)
        }
    }

    func stop() {
        self.state.withLock { $0.stop() }
        self.nudge()
    }

    // MARK: the polling thread

    private func run() {
        while true {
            let step = self.state.withLock { $0.next(now: .now) }
            switch step {
            case .poll(let milliseconds): self.poll(milliseconds)
            case .wait(let milliseconds): _ = self.wake.wait(timeout: .now() + .milliseconds(milliseconds))
            case .pause: self.pause()
            case .resume: self.resume()
            case .shutDown:
                self.shutDown()
                return
            }
            self.answerWaiter()
        }
    }

    private func answerWaiter() {
        if let (waiter, result) = self.state.withLock({ $0.takeAnswer(now: .now) }) {
            waiter.continuation.resume(returning: result)
        }
    }

    /// Waits for a first record, then takes all that librdkafka has, up to the limits of the buffer.
    private func poll(_ milliseconds: Int32) {
        var wait = milliseconds
        var cluster: String?
        try? unsafe self.handle.use { raw throws(KafkaError) in
            while let message = unsafe rd_kafka_consumer_poll(raw, wait) {
                let isFull: Bool
                if unsafe message.pointee.err == RD_KAFKA_RESP_ERR_NO_ERROR {
                    if cluster == nil { cluster = unsafe self.handle.cluster(raw) }
                    let record = unsafe KafkaRecord(message, cluster: cluster ?? "", topics: self.topics)
                    isFull = self.state.withLock { $0.receive(record) }
                    if self.isRefused.load(ordering: .relaxed) { self.granted(record.topic) }
                } else {
                    unsafe self.report(message, raw)
                    isFull = false
                }
                unsafe rd_kafka_message_destroy(message)
                if isFull { return }
                wait = 0
            }
            unsafe FetchWakeup.wake(raw, self.state.withLock { $0.foundEmptyQueue() })
        }
    }

    /// Handles an error in place of a record. Only a fatal one ends the consumer; librdkafka retries the rest.
    private func report(_ message: UnsafeMutablePointer<rd_kafka_message_t>, _ raw: OpaquePointer) {
        let code = unsafe message.pointee.err
        if code == RD_KAFKA_RESP_ERR__PARTITION_EOF { return }
        if code == RD_KAFKA_RESP_ERR__FATAL, let error = unsafe KafkaHandle.fatal(raw) {
            self.fail(error)
            return
        }
        let reason = unsafe rd_kafka_message_errstr(message).map { unsafe String(cString: $0) }
        let error = KafkaError(code, "consuming \(self.topics.joined(separator: ", "))", reason: reason)
        let topic = unsafe message.pointee.rkt.flatMap { unsafe rd_kafka_topic_name($0) }
            .map { unsafe String(cString: $0) }
        let event = KafkaEvent(.warning, error, self.role, topic: topic)
        if case .read(let topic) = event.denial {
            self.refused.withLock { _ = $0.insert(topic) }
            self.isRefused.store(true, ordering: .relaxed)
        }
        self.onEvent?(event)
    }

    /// Notes that a topic is no longer refused, since a record of it arrived.
    private func granted(_ topic: String) {
        let wasRefused = self.refused.withLock { refused in
            let wasRefused = refused.remove(topic) != nil
            self.isRefused.store(!refused.isEmpty, ordering: .relaxed)
            return wasRefused
        }
        guard wasRefused else { return }
        self.onEvent?(
            KafkaEvent(severity: .info, kind: .granted, message: "consuming \(topic)", denial: .read(topic: topic)))
    }

    /// Reports an error that is handled by a retry.
    func tell(_ error: KafkaError) { self.onEvent?(KafkaEvent(.warning, error, self.role)) }

    func fail(_ error: KafkaError) {
        self.state.withLock { $0.fail(error) }
        self.tell(.error, .error, error.message)
    }

    func tell(_ severity: KafkaEvent.Severity, _ kind: KafkaEvent.Kind, _ message: String) {
        self.onEvent?(KafkaEvent(severity: severity, kind: kind, message: message))
    }

    private func pause() {
        let partitions = self.state.withLock { state in
            state.isPaused = true
            return state.ledger.partitions
        }
        self.setPaused(true, partitions)
        self.tell(.warning, .paused, "\(partitions.count) partitions: the worker is slow")
    }

    private func resume() {
        // While paused, all assigned partitions are paused, new ones too; so only paused ones are resumed (resuming
        // others jumps back: librdkafka CHANGELOG 2.4.0, #4686).
        let partitions = self.state.withLock { state in
            state.isPaused = false
            return state.ledger.partitions
        }
        self.setPaused(false, partitions)
        try? unsafe self.handle.use { raw throws(KafkaError) in unsafe FetchWakeup.wake(raw, partitions) }
        self.tell(.info, .resumed, "\(partitions.count) partitions")
    }

    func setPaused(_ pause: Bool, _ partitions: [KafkaPartition]) {
        if partitions.isEmpty { return }
        let positions = partitions.map { KafkaPosition(topic: $0.topic, partition: $0.partition, offset: 0) }
        do throws(KafkaError) {
            let list = try KafkaPositionList(positions)
            try unsafe self.handle.use { raw throws(KafkaError) in
                try unsafe list.use { list throws(KafkaError) in
                    _ = unsafe pause ? rd_kafka_pause_partitions(raw, list) : rd_kafka_resume_partitions(raw, list)
                }
            }
            for (position, code) in list.results where code != RD_KAFKA_RESP_ERR_NO_ERROR {
                let error = KafkaError(code, "pausing \(position.topic)/\(position.partition)")
                self.tell(.warning, .error, error.message)
            }
        } catch {
            self.tell(.warning, .error, error.message)
        }
    }

    // MARK: the end

    /// Leaves the group, which returns the partitions and so commits finished records.
    private func shutDown() {
        var isClosed = false
        try? unsafe self.handle.use { raw throws(KafkaError) in isClosed = unsafe self.leaveGroup(raw) }
        let isQuiet = self.endCommits()
        if !isClosed || !isQuiet {
            // librdkafka may never finish closing (CHANGELOG 2.1.0, #4187): the handle is leaked, the process continues
            // to its end.
            self.handle.abandon()
            self.tell(.error, .error, "closing the consumer timed out after \(Self.closeWait)")
        } else if !self.destroy() {
            self.tell(.error, .error, "destroying the consumer timed out after \(Self.destroyWait)")
        }
        let (waiter, closers) = self.state.withLock { $0.end() }
        waiter?.continuation.resume(
            returning: .failure(KafkaError(.closed, "waiting for records: the consumer was closed")))
        for closer in closers { closer.resume() }
    }

    /// Destroys the handle on another thread, since librdkafka may never finish that either if fetched messages are
    /// left over (CHANGELOG 2.6.1, #4724).
    ///
    /// - Returns: false if it took too long.
    private func destroy() -> Bool {
        let isDone = DispatchSemaphore(value: 0)
        do throws(KafkaError) {
            try KafkaThread.start("kafka-destroy") { [handle = self.handle] in
                handle.destroy()
                isDone.signal()
            }
        } catch {
            self.handle.abandon()
            return false
        }
        return isDone.wait(timeout: .now() + .milliseconds(Self.destroyWait.wholeMilliseconds)) == .success
    }

    /// Source: rdkafka.h, rd_kafka_consumer_close_queue: the queue is served until rd_kafka_consumer_closed
    private func leaveGroup(_ raw: OpaquePointer) -> Bool {
        guard let queue = unsafe rd_kafka_queue_get_consumer(raw) else { return false }
        defer { unsafe rd_kafka_queue_destroy(queue) }

        if let error = unsafe rd_kafka_consumer_close_queue(raw, queue) {
            // A fatal error has closed it already.
            let isFatal = unsafe rd_kafka_error_is_fatal(error) == 1
            unsafe rd_kafka_error_destroy(error)
            return isFatal
        }
        let deadline = ContinuousClock.now + Self.closeWait
        while unsafe rd_kafka_consumer_closed(raw) == 0 {
            if deadline < .now { return false }
            if let message = unsafe rd_kafka_consumer_poll(raw, 20) { unsafe rd_kafka_message_destroy(message) }
        }
        return true
    }
}

/// Breaks the reference cycle handle -> callbacks -> thread -> handle when the thread ends.
private final class ConsumerThreadReference: Sendable {
    private let held = Mutex<ConsumerThread?>(nil)

    var thread: ConsumerThread? { self.held.withLock { $0 } }
    func set(_ thread: ConsumerThread?) { self.held.withLock { $0 = thread } }
}
