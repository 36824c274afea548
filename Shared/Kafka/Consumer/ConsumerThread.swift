import CRDKafka
import Dispatch
import Glibc
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
    /// True for topics of which a partition that was never read begins at its end.
    let startsAtEnd: @Sendable (String) -> Bool
    let revokeWait: Duration
    /// Notifies the worker that partitions leave; it returns the records of them that it will not process.
    let onLeaving: @Sendable (Set<KafkaPartition>) -> [KafkaReceipt]
    let onCommit: (@Sendable (KafkaConsumer.CommitMoment) -> Void)?
    private let onEvent: (@Sendable (KafkaEvent) -> Void)?
    private let onAnswer: (@Sendable (String, Duration) -> Void)?
    private let role: KafkaRole
    /// Topics for which a broker refuses to send us records.
    private let refused = Mutex<Set<String>>([])
    private let isRefused = Atomic<Bool>(false)
    let wake = DispatchSemaphore(value: 0)
    /// The same for the committing thread, and the signal that it has ended.
    let commitWake = DispatchSemaphore(value: 0)
    let commitsEnded = DispatchSemaphore(value: 0)

    init(
        properties: [(String, String)], topics: [String],
        startsAtEnd: @escaping @Sendable (String) -> Bool = { _ in false }, revokeWait: Duration, pauseAfter: Duration,
        readAhead: (records: Int, bytes: Int), onLeaving: @escaping @Sendable (Set<KafkaPartition>) -> [KafkaReceipt],
        onCommit: (@Sendable (KafkaConsumer.CommitMoment) -> Void)? = nil,
        onEvent: (@Sendable (KafkaEvent) -> Void)?, onAnswer: (@Sendable (String, Duration) -> Void)? = nil
    ) throws(KafkaError) {
        var state = ConsumerState(
            pauseAfter: pauseAfter, readAhead: readAhead, wakeup: FetchWakeup(properties))
        state.commits = CommitSchedule(pause: Self.commitPause(properties))
        self.state = Mutex(state)
        self.topics = topics
        self.startsAtEnd = startsAtEnd
        self.revokeWait = revokeWait
        self.onLeaving = onLeaving
        self.onCommit = onCommit
        self.onEvent = onEvent
        self.onAnswer = onAnswer
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

    /// Returns the offsets after the last records of some partitions, as of their last fetch.
    ///
    /// Source: rdkafka.h, rd_kafka_get_watermark_offsets: a local query
    func ends(of partitions: [KafkaPartition]) -> [KafkaPartition: Int64] {
        var ends: [KafkaPartition: Int64] = [:]
        try? unsafe self.handle.use { raw throws(KafkaError) in
            for partition in partitions {
                var (low, high) = (Int64(0), Int64(0))
                let code = unsafe rd_kafka_get_watermark_offsets(
                    raw, partition.topic, partition.partition, &low, &high)
                if code == RD_KAFKA_RESP_ERR_NO_ERROR, high >= 0 { ends[partition] = high }
            }
        }
        return ends
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

/// The committing thread: commits finished records to the broker, one request at a time.
///
/// A commit that waits in librdkafka for a coordinator is given up after one session timeout, within which the group
/// does not assign our partitions to another member, so it cannot be sent under a later generation.
/// Source: librdkafka 2.0.2, rd_kafka_cgrp_defer_offset_commit
extension ConsumerThread {
    /// Commits until `endCommits`.
    func runCommits() {
        defer { self.commitsEnded.signal() }
        while true {
            switch self.state.withLock({ $0.nextCommit(now: .now) }) {
            case .commit(let request): self.commit(request)
            case .wait(let milliseconds, let resumptions):
                Self.answer(resumptions)
                // The polling thread may wait for a ticket that is served because there is nothing to commit.
                if self.state.withLock({ $0.isAsleep }) { self.wake.signal() }
                _ = self.commitWake.wait(timeout: .now() + .milliseconds(milliseconds))
            case .end: return
            }
        }
    }

    /// Waits until everything done so far is committed; returns false if that takes too long. For the polling thread,
    /// which keeps the group waiting meanwhile.
    func commitNow(within limit: Duration) -> Bool {
        let deadline = ContinuousClock.now + limit
        let ticket = self.state.withLock { $0.commits.request() }
        self.commitWake.signal()
        while true {
            let (isServed, isHopeless) = self.state.withLock { state in
                let (isServed, isHopeless) = (state.commits.served >= ticket, state.commits.isHopeless(ticket))
                state.setAsleep(!isServed && !isHopeless)
                return (isServed, isHopeless)
            }
            if isServed { return true }
            if isHopeless { return false }
            let left = deadline - .now
            if left <= .zero { return false }
            _ = self.wake.wait(timeout: .now() + .milliseconds(min(100, left.wholeMilliseconds)))
        }
    }

    /// Ends the committing thread.
    ///
    /// - Returns: false if it hangs in a request.
    func endCommits() -> Bool {
        Self.answer(self.state.withLock { $0.commits.finish() })
        self.commitWake.signal()
        return self.commitsEnded.wait(timeout: .now() + .seconds(3)) == .success
    }

    static func answer(_ resumptions: [CommitSchedule.Resumption]) {
        for (continuation, result) in resumptions { continuation.resume(returning: result) }
    }

    private func commit(_ request: CommitSchedule.Request) {
        var failure: KafkaError?
        self.onCommit?(.chosen(request.positions))
        let began = ContinuousClock.now
        do throws(KafkaError) {
            try self.send(request.positions)
            self.onCommit?(.acknowledged(request.positions))
        } catch {
            failure = error
        }
        self.onAnswer?("commit", .now - began)
        let (resumptions, polls, isLogged) = self.state.withLock { state in
            let (resumptions, polls) = state.commitEnded(
                request, failure, jitter: Double.random(in: 0.5...1), now: .now)
            return (resumptions, polls, state.commits.isFailureLogged)
        }
        if let failure {
            if failure.isFatal { self.fail(failure) } else if isLogged { self.tell(failure) }
        }
        Self.answer(resumptions)
        if polls { self.wake.signal() }
    }

    func send(_ positions: [KafkaPosition]) throws(KafkaError) {
        let list = try KafkaPositionList(positions)
        try unsafe self.handle.use { raw throws(KafkaError) in
            let code = try unsafe list.use { list throws(KafkaError) in unsafe rd_kafka_commit(raw, list, 0) }
            guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
                throw KafkaError(code, "committing \(positions.count) positions")
            }
        }
        for (position, code) in list.results where code != RD_KAFKA_RESP_ERR_NO_ERROR {
            throw KafkaError(code, "committing \(position.topic)/\(position.partition)@\(position.offset)")
        }
    }
}

extension ConsumerThread {
    /// Answers a rebalance. librdkafka calls it inside `rd_kafka_consumer_poll`, so on the polling thread.
    ///
    /// Every call must be answered by an assign or unassign, or the group stops.
    /// Source: rdkafka.h, rd_kafka_conf_set_rebalance_cb
    func rebalance(
        _ raw: OpaquePointer, _ code: rd_kafka_resp_err_t,
        _ list: UnsafeMutablePointer<rd_kafka_topic_partition_list_t>?
    ) {
        let partitions = unsafe list.map { unsafe KafkaPositionList.read($0) } ?? []
        let names = partitions.map { KafkaPartition(topic: $0.position.topic, partition: $0.position.partition) }
        let isCooperative = unsafe rd_kafka_rebalance_protocol(raw).map { unsafe String(cString: $0) } == "COOPERATIVE"
        guard code != RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS else {
            let isPaused = self.state.withLock { state in
                state.assign(names)
                return state.isPaused
            }
            unsafe self.startAtEnd(raw, list, names)
            if isCooperative {
                unsafe self.check(rd_kafka_incremental_assign(raw, list))
            } else {
                unsafe self.check(rd_kafka_assign(raw, list))
            }
            // Partitions assigned while the buffer is full must be paused too, or it grows without bound
            // (reactor-kafka#237).
            if isPaused { self.setPaused(true, names) }
            self.tell(.info, .assigned, names.map(\.description).joined(separator: " "))
            return
        }
        let isLost = unsafe rd_kafka_assignment_lost(raw) == 1 || code != RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS
        self.leave(names, isLost: isLost)
        if isCooperative {
            unsafe self.check(rd_kafka_incremental_unassign(raw, list))
        } else {
            unsafe self.check(rd_kafka_assign(raw, nil))
        }
    }

    /// Drops the waiting records, lets work in progress finish, commits, then forgets the partitions.
    private func leave(_ partitions: [KafkaPartition], isLost: Bool) {
        let leaving = Set(partitions)
        // Commits for a lost partition are no longer ours.
        self.state.withLock { $0.beginLeaving(partitions, isLost: isLost) }
        let deadline = ContinuousClock.now + self.revokeWait
        while true {
            // Repeatedly: a batch may just have been on its way to the worker, or work may be returned undone.
            let waiting = self.onLeaving(leaving)
            let isDone = self.state.withLock { state in
                state.letGo(waiting)
                return isLost || state.isDone(leaving)
            }
            if isDone { break }
            let left = deadline - .now
            if left <= .zero {
                self.tell(.warning, .error, "giving partitions back: the worker was not done in \(self.revokeWait)")
                break
            }
            _ = self.wake.wait(timeout: .now() + .milliseconds(min(100, left.wholeMilliseconds)))
        }
        // Records whose commit the group refuses or does not accept in time are delivered again to the next owner.
        if !isLost, !self.commitNow(within: min(Self.commitWait, self.revokeWait)) {
            self.tell(.warning, .error, "giving partitions back: not committed in time")
        }
        // librdkafka keeps a partition paused beyond its assignment: it would still be paused when assigned again.
        if self.state.withLock({ $0.isPaused }) { self.setPaused(false, partitions) }
        self.state.withLock { $0.forget(partitions) }
        // The worker may have taken in or deferred records since the last call.
        _ = self.onLeaving(leaving)
        self.tell(.info, isLost ? .lost : .revoked, partitions.map(\.description).joined(separator: " "))
    }

    private func check(_ error: OpaquePointer?) {
        guard let error = unsafe error else { return }
        let code = unsafe rd_kafka_error_code(error)
        unsafe rd_kafka_error_destroy(error)
        self.check(code)
    }

    private func check(_ code: rd_kafka_resp_err_t) {
        if code == RD_KAFKA_RESP_ERR_NO_ERROR { return }
        self.tell(.warning, .error, KafkaError(code, "answering a rebalance").message)
    }
}

extension KafkaRecord {
    /// Copies a record out of librdkafka; the message remains the caller's.
    ///
    /// A tombstone is a null payload without an error. Source: rdkafka.h, rd_kafka_message_t
    /// - Parameters:
    ///   - cluster: the identifier of the cluster that it comes from.
    ///   - topics: likely names, so that not every record makes its own string.
    init(_ message: UnsafeMutablePointer<rd_kafka_message_t>, cluster: String, topics: [String]) {
        let name = unsafe rd_kafka_topic_name(message.pointee.rkt)
        var topic = topics.first { known in
            unsafe known.withCString { known in unsafe name.map { unsafe strcmp(known, $0) == 0 } ?? false }
        }
        if topic == nil { topic = unsafe name.map { unsafe String(cString: $0) } }
        let timestamp = unsafe rd_kafka_message_timestamp(message, nil)
        unsafe self.init(
            cluster: cluster, topic: topic ?? "", partition: message.pointee.partition, offset: message.pointee.offset,
            timestampMilliseconds: timestamp,
            key: Self.bytes(message.pointee.key, message.pointee.key_len),
            value: Self.bytes(message.pointee.payload, message.pointee.len), headers: Self.headers(message))
    }

    private static func bytes(_ start: UnsafeRawPointer?, _ count: Int) -> [UInt8]? {
        guard let start = unsafe start else { return nil }
        return unsafe [UInt8](UnsafeRawBufferPointer(start: start, count: count))
    }

    private static func headers(_ message: UnsafeMutablePointer<rd_kafka_message_t>) -> [KafkaHeader] {
        var list: OpaquePointer?
        guard unsafe rd_kafka_message_headers(message, &list) == RD_KAFKA_RESP_ERR_NO_ERROR, unsafe list != nil
        else { return [] }
        var headers: [KafkaHeader] = []
        var name: UnsafePointer<CChar>?
        var value: UnsafeRawPointer?
        var size = 0
        // Indices end at the first error. Source: rdkafka.h, rd_kafka_header_get_all
        while unsafe rd_kafka_header_get_all(list, headers.count, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR {
            let text = unsafe name.map { unsafe String(cString: $0) } ?? ""
            headers.append(KafkaHeader(name: text, value: unsafe Self.bytes(value, size)))
        }
        return headers
    }
}
