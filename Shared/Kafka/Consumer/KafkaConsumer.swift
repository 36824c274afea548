import Dispatch
import Synchronization

/// A member of a consumer group that hands out batches and commits the finished records.
///
/// Owner: `ConsumerThread` owns the C handle; this object asks it to stop when it is released.
/// Thread: two of its own (polling, committing); no call of this class blocks its caller's thread.
/// Bounded: records read ahead by `readAhead`; records in hand by the worker, which asks only when it has room.
///
/// At least once: a record is delivered again unless it was `finished`, and all before it in its partition, and the
/// broker has the commit. Records of one partition arrive in order. When partitions are revoked, the group waits up to
/// `revokeWait` for their records in hand and for the commit; later results have no effect.
public final class KafkaConsumer: Sendable {
    private let thread: ConsumerThread
    private let lastWaiter = Atomic<UInt64>(0)

    /// A moment in the life of a commit.
    public enum CommitMoment: Sendable {
        /// The broker has not received these positions yet.
        case chosen([KafkaPosition])
        case acknowledged([KafkaPosition])
    }

    /// Joins the group; returns before it has joined.
    ///
    /// Topics that do not exist yet are looked up again every 30 s.
    /// - Parameters:
    ///   - startsAtEnd: returns true for a topic whose partitions begin at their ends if the group has not read them.
    ///     Default: it begins at its first record.
    ///   - instance: a name of this member that outlives restarts (static membership); nil for an ordinary member.
    ///   - revokeWait: below `max.poll.interval.ms` (300 s). Default 10 s.
    ///   - pauseAfter: the time for which the buffer may be full before fetching is paused. Default 3 s.
    ///   - readAhead: the most that waits for the worker, in records and in bytes by `KafkaRecord.size`.
    ///   - onLeaving: called on the polling thread, several times, when partitions leave, the last time when they have
    ///     left; returns the records of them that the worker will not process any more, so that closing does not wait
    ///     for them. Default: it processes all.
    ///   - onCommit: called on the committing thread, which waits for it. Default: no call.
    /// - Throws: `.configuration` naming the property.
    public init(
        _ configuration: KafkaConfiguration, group: String, topics: [String],
        startsAtEnd: @escaping @Sendable (String) -> Bool = { _ in false }, instance: String? = nil,
        revokeWait: Duration = .seconds(10), pauseAfter: Duration = .seconds(3),
        readAhead: (records: Int, bytes: Int) = (2000, 8 << 20),
        onLeaving: @escaping @Sendable (Set<KafkaPartition>) -> [KafkaReceipt] = { _ in [] },
        onCommit: (@Sendable (CommitMoment) -> Void)? = nil
    ) throws(KafkaError) {
        guard !topics.isEmpty else { throw KafkaError(.configuration, "subscribing: no topics") }
        var fixed = ["group.id": group, "enable.auto.commit": "false", "enable.auto.offset.store": "false"]
        if let instance { fixed["group.instance.id"] = instance }
        let properties = try configuration.naming { () throws(KafkaError) in
            try configuration.resolved(defaults: Self.defaults, fixed: fixed)
        }
        self.thread = try configuration.naming { () throws(KafkaError) in
            try ConsumerThread(
                properties: properties, topics: topics, startsAtEnd: startsAtEnd, revokeWait: revokeWait,
                pauseAfter: pauseAfter, readAhead: readAhead, onLeaving: onLeaving, onCommit: onCommit,
                onEvent: configuration.onEvent, onAnswer: configuration.onAnswer)
        }
    }

    deinit {
        self.thread.stop()
    }

    static let sessionTimeout = (name: "session.timeout.ms", usual: Duration.seconds(45))

    /// Defaults that the caller's properties may override.
    static let defaults = [
        "client.id": "waybill",
        // Cooperative rebalancing has open bugs before librdkafka 2.6.1: a crash when closed before the first
        // assignment (CHANGELOG 2.3.0, #4381), a hang when one arrives while closing (2.4.0, #4527), an endless loop
        // (2.6.1, #4783), partitions lost by a commit meanwhile (2.10.0, #4059). An operator may still choose it.
        "partition.assignment.strategy": "range,roundrobin",
        "auto.offset.reset": "earliest",
        // Kafka's own default. A member that is killed keeps its partitions for this long; one that restarts under its
        // instance name within this time gets them back as they were. Source: KIP-735
        sessionTimeout.name: "\(sessionTimeout.usual.wholeMilliseconds)",
        // The search for a coordinator is sent to any broker that is connected, and has no limit but this one: if that
        // broker is the coordinator that has just gone away, the group waits this long. librdkafka's default is 60 s.
        // Requests that may take longer, those of joining, have separate limits.
        // Source: librdkafka 2.0.2, rd_kafka_cgrp_coord_query
        "socket.timeout.ms": "10000",
        // Finished records gather for this long before they are committed; there is no wait when partitions leave or
        // the consumer closes. librdkafka's own commits, which this property normally controls, are off.
        "auto.commit.interval.ms": "1000",
        // This stays below 48 MB together with the records read ahead and in hand. One answer may exceed it by its
        // whole size, which is 50 MB by default.
        "queued.max.messages.kbytes": "8192",
        "fetch.max.bytes": "4194304",
        "queued.min.messages": "10000",
        // A broker answers as soon as it has a byte, so a long wait costs no latency and an idle consumer asks twice a
        // second. Only librdkafka's embedded broker always waits this long: users of it set 5.
        "fetch.wait.max.ms": "500",
        "fetch.error.backoff.ms": "100",
        "socket.nagle.disable": "true",
        "allow.auto.create.topics": "false",
        // Finds a topic or partitions that are created late. librdkafka's own default is 300 s.
        "topic.metadata.refresh.interval.ms": "30000",
        "reconnect.backoff.max.ms": "2000",
    ]

    /// Waits for the first record up to `wait`, then returns the available records up to the limits; none if nothing
    /// arrived.
    ///
    /// Several batches may be in hand; one task at a time may wait.
    /// - Parameters:
    ///   - records: at most this many, at least 1.
    ///   - bytes: at most this much by `KafkaRecord.size`, but always at least one record.
    /// - Throws: `.cancelled`, `.closed`, `.busy` for a second task, or the fatal error that ended the consumer.
    public func nextBatch(records: Int, bytes: Int, wait: Duration) async throws(KafkaError) -> [KafkaRecord] {
        let id = self.lastWaiter.add(1, ordering: .relaxed).newValue
        let thread = self.thread
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let now = ContinuousClock.now
                let waiter = ConsumerState.Waiter(
                    id: id, records: records, bytes: bytes,
                    deadline: now + max(.zero, min(wait, .seconds(86400))), continuation: continuation)
                // A cancellation before this line is seen here; one after it finds the waiter.
                let isCancelled = Task.isCancelled
                let (answer, isAsleep) = thread.state.withLock { state in
                    let answer = state.ask(waiter, isCancelled: isCancelled, now: now)
                    return (answer, state.isAsleep || state.isPaused)
                }
                var wakes = isAsleep
                switch answer {
                case .batch(let batch): continuation.resume(returning: .success(batch))
                case .refused(let error): continuation.resume(returning: .failure(error))
                case .later(let soon): wakes = wakes || soon
                }
                if wakes { thread.nudge() }
            }
        } onCancel: {
            let waiter = thread.state.withLock { $0.cancel(id) }
            waiter?.continuation.resume(
                returning: .failure(KafkaError(.cancelled, "waiting for records: cancelled")))
        }
        return try result.get()
    }

    /// Marks some records as processed. Their positions are committed in the background, in each partition as far as
    /// everything before is processed too.
    ///
    /// In any order, from any thread. Records that are no longer in hand under their assignment have no effect.
    public func finished(_ records: [KafkaRecord]) { self.finished(records.map(\.receipt)) }

    /// Marks records as processed of which only the receipts were kept.
    public func finished(_ records: [KafkaReceipt]) {
        let wants = self.thread.state.withLock { $0.finish(records, now: .now) }
        if wants.commits { self.thread.commitWake.signal() }
        if wants.polls { self.thread.wake.signal() }
    }

    /// Notes which records the worker defers, to read them again later by other means, and which of those it has in
    /// hand again. Deferred records are not in hand, and no position after them is committed.
    ///
    /// From any thread, one call at a time: a later one overrides the holds of an earlier one.
    public func apply(_ deferral: KafkaDeferral) {
        let wants = self.thread.state.withLock { $0.apply(deferral, now: .now) }
        if wants.commits { self.thread.commitWake.signal() }
        if wants.polls { self.thread.wake.signal() }
    }

    /// Returns true if the partition of a record has been owned without interruption since the record was handed out.
    public func isOwned(_ receipt: KafkaReceipt) -> Bool {
        let partition = KafkaPartition(topic: receipt.topic, partition: receipt.partition)
        return self.thread.state.withLock { $0.ledger.isOwned(partition, since: receipt.assignment) }
    }

    /// Waits until everything done so far is committed, even in a cancelled task.
    ///
    /// - Throws: `.closed`; after `limit` the broker's last error, or `.timedOut`. Committing continues in the
    ///   background.
    public func commit(within limit: Duration = .seconds(5)) async throws(KafkaError) {
        let thread = self.thread
        let result = await withCheckedContinuation { continuation in
            let (isTaken, wakes) = thread.state.withLock { state in
                let waiter = CommitSchedule.Waiter(
                    ticket: state.commits.request(), deadline: .now + limit, continuation: continuation)
                return (state.commits.add(waiter), state.commits.wake())
            }
            if !isTaken {
                continuation.resume(returning: .failure(KafkaError(.closed, "committing with a closed consumer")))
            }
            if wakes { thread.commitWake.signal() }
        }
        try result.get()
    }

    /// Commits finished records, leaves the group and ends the threads, in at most about 20 s. It does not wait for
    /// records in hand, which are delivered again to another member. Calling it again is harmless.
    ///
    /// A static member does not leave: its partitions are reserved for it for a session timeout.
    public func close() async {
        self.thread.stop()
        await withCheckedContinuation { continuation in
            if !self.thread.state.withLock({ $0.waitForEnd(continuation) }) { continuation.resume() }
        }
    }

    /// The partitions owned at the moment, sorted.
    public var assignment: [KafkaPartition] { self.thread.state.withLock { $0.ledger.partitions } }

    /// The amount read ahead, in records and in bytes by `KafkaRecord.size`.
    var buffered: (records: Int, bytes: Int) {
        self.thread.state.withLock { ($0.buffer.count, $0.buffer.bytes) }
    }

    /// True if fetching is paused because the worker is slow.
    var isPaused: Bool { self.thread.state.withLock { $0.isPaused } }

    /// The number of records in hand: handed out and not finished.
    public var inHand: Int { self.thread.state.withLock { $0.ledger.inHand } }

    /// The work that is left, by topic. Does not wait: ends of partitions are those of the last fetch.
    public var progress: [String: KafkaProgress] {
        let ends = self.thread.ends(of: self.assignment)
        return self.thread.state.withLock { $0.ledger.progress(ends) }
    }

    /// The number of commits that failed since the start, each of which is repeated.
    public var commitFailures: Int { self.thread.state.withLock { $0.commits.failures } }

    /// The time of the polling thread's last turn, at most 20 s ago unless it hangs; nil if it does not run.
    public var turnedAt: ContinuousClock.Instant? { self.thread.state.withLock { $0.turnedAt } }

    /// Time for which nothing in hand was finished; nil: nothing is in hand. For a stall alarm, as the group cannot see
    /// a stuck worker: polling continues without it.
    public var quietTime: Duration? { self.thread.state.withLock { $0.quietSince }.map { .now - $0 } }
}
