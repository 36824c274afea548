import Dispatch
import Synchronization

/// A member of a consumer group that hands out batches and commits what is done of them.
///
/// Owner: `ConsumerThread` owns the C handle; this object asks it to stop when it goes away.
/// Thread: two of its own (polling, committing); no call of this class blocks its caller's thread.
/// Bounded: what is read ahead by `readAhead`; what is in hand by the worker, which asks only when it has room.
///
/// At least once: a record comes again to somebody unless it was `finished`, and all before it in its partition, and
/// the broker knows. Records of one partition come in order. When partitions are taken away, the group waits up to
/// `revokeWait` for what is in hand of them and for its commit; what comes late moves nothing.
public final class KafkaConsumer: Sendable {
    private let thread: ConsumerThread
    private let lastWaiter = Atomic<UInt64>(0)

    /// A moment of a commit.
    public enum CommitMoment: Sendable {
        /// The broker knows nothing of these positions yet.
        case chosen([KafkaPosition])
        case acknowledged([KafkaPosition])
    }

    /// Joins the group; returns before it has.
    ///
    /// Topics that do not exist yet are looked for every 30 s.
    /// - Parameters:
    ///   - instance: a name of this member that outlives restarts (static membership); nil: an ordinary member.
    ///   - revokeWait: below `max.poll.interval.ms` (300 s). Default 10 s.
    ///   - pauseAfter: how long the buffer may be full before fetching is paused. Default 3 s.
    ///   - readAhead: how much waits for the worker, in records and in bytes by `KafkaRecord.size`.
    ///   - onLeaving: called on the polling thread, several times, when partitions leave, the last time when they are
    ///     gone; it answers the records of them that the worker will not do any more, so that nobody waits for them.
    ///     Default: it does all.
    ///   - onCommit: called on the committing thread, which waits for it. Default: nobody is told.
    /// - Throws: `.configuration` naming the property.
    public init(
        _ configuration: KafkaConfiguration, group: String, topics: [String], instance: String? = nil,
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
                properties: properties, topics: topics, revokeWait: revokeWait, pauseAfter: pauseAfter,
                readAhead: readAhead, onLeaving: onLeaving, onCommit: onCommit, onEvent: configuration.onEvent)
        }
    }

    deinit {
        self.thread.stop()
    }

    /// What the caller's properties may override.
    static let defaults = [
        "client.id": "waybill",
        // Cooperative rebalancing has open bugs before librdkafka 2.6.1: a crash when closed before the first
        // assignment (CHANGELOG 2.3.0, #4381), a hang when one arrives while closing (2.4.0, #4527), an endless loop
        // (2.6.1, #4783), partitions lost by a commit meanwhile (2.10.0, #4059). An operator may choose it all the
        // same.
        "partition.assignment.strategy": "range,roundrobin",
        "auto.offset.reset": "earliest",
        // Kafka's own default. A member that is killed keeps its partitions for so long; one that restarts under its
        // instance name within this time finds them as they were. Source: KIP-735
        "session.timeout.ms": "45000",
        // Done work gathers for so long before it is committed; nothing waits when partitions leave or the consumer
        // closes. librdkafka's own commits, which this property is for elsewhere, are off.
        "auto.commit.interval.ms": "1000",
        // Together with what is read ahead and in hand below 48 MB. One answer may reach over it by its whole size,
        // which is 50 MB by default.
        "queued.max.messages.kbytes": "8192",
        "fetch.max.bytes": "4194304",
        "queued.min.messages": "10000",
        // A broker answers as soon as it has a byte, so a long wait costs no latency and an idle consumer asks twice a
        // second. Only librdkafka's embedded broker waits the time out: what runs it sets 5.
        "fetch.wait.max.ms": "500",
        "fetch.error.backoff.ms": "100",
        "socket.nagle.disable": "true",
        "allow.auto.create.topics": "false",
        // Finds a topic or partitions that are created late. librdkafka's own default is 300 s.
        "topic.metadata.refresh.interval.ms": "30000",
        "reconnect.backoff.max.ms": "2000",
    ]

    /// Waits for the first record up to `wait`, then takes what is there up to the limits. Empty: nothing came.
    ///
    /// Several batches may be in hand; one task at a time may wait.
    /// - Parameters:
    ///   - records: at most this many, at least 1.
    ///   - bytes: at most this much by `KafkaRecord.size`, but always one record.
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
                // A cancellation before this line is seen here; one behind it finds the waiter.
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

    /// Says that the work on some records is done. Their positions are committed in the background, of each partition
    /// as far as everything before is done too.
    ///
    /// In any order, from any thread. Records that are not in hand under the assignment they came with count for
    /// nothing.
    public func finished(_ records: [KafkaRecord]) { self.finished(records.map(\.receipt)) }

    /// The same for records of which only the receipts were kept.
    public func finished(_ records: [KafkaReceipt]) {
        let wants = self.thread.state.withLock { $0.finish(records, now: .now) }
        if wants.commits { self.thread.commitWake.signal() }
        if wants.polls { self.thread.wake.signal() }
    }

    /// Says which records the worker puts off, to read them again later by other means, and which of those it has in
    /// hand again. What is put off is not in hand, and no position behind it is committed.
    ///
    /// From any thread, one call after the other: a later one overrules the holds of an earlier one.
    public func note(_ deferral: KafkaDeferral) {
        let wants = self.thread.state.withLock { $0.note(deferral, now: .now) }
        if wants.commits { self.thread.commitWake.signal() }
        if wants.polls { self.thread.wake.signal() }
    }

    /// True if the partition of a record has been owned without a break since the record was handed out.
    public func isOwned(_ receipt: KafkaReceipt) -> Bool {
        let partition = KafkaPartition(topic: receipt.topic, partition: receipt.partition)
        return self.thread.state.withLock { $0.ledger.isOwned(partition, since: receipt.assignment) }
    }

    /// Waits until all that is done now is committed. A cancelled task waits all the same.
    ///
    /// - Throws: `.closed`; after `limit` what the broker said last, or `.timedOut`. Committing goes on in the
    /// background.
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

    /// Commits what is done, leaves the group and ends the threads, in at most about 20 s. What is in hand is not
    /// waited for and comes again to somebody. Again is harmless.
    ///
    /// A static member does not leave: its partitions wait for it for a session timeout.
    public func close() async {
        self.thread.stop()
        await withCheckedContinuation { continuation in
            if !self.thread.state.withLock({ $0.waitForEnd(continuation) }) { continuation.resume() }
        }
    }

    /// The partitions owned now, sorted.
    public var assignment: [KafkaPartition] { self.thread.state.withLock { $0.ledger.partitions } }

    /// What is read ahead, in records and in bytes by `KafkaRecord.size`.
    public var buffered: (records: Int, bytes: Int) {
        self.thread.state.withLock { ($0.buffer.count, $0.buffer.bytes) }
    }

    /// Fetching stands still because the worker is slow.
    public var isPaused: Bool { self.thread.state.withLock { $0.isPaused } }

    /// How many records are in hand: handed out and not finished.
    public var inHand: Int { self.thread.state.withLock { $0.ledger.inHand } }

    /// For how long nothing in hand was finished; nil: nothing is in hand. For a stall alarm, as the group cannot see a
    /// stuck worker: polling goes on without it.
    public var quietTime: Duration? { self.thread.state.withLock { $0.quietSince }.map { .now - $0 } }
}
