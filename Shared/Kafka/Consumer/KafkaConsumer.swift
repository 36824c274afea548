import Synchronization

/// A member of a consumer group that reads batches and commits when their work is done.
///
/// Owner: `ConsumerThread` owns the C handle; this object asks it to stop when it goes away.
/// Thread: two of its own (polling, committing); no call of this class blocks its caller's thread.
/// Bounded: one batch is read ahead, as large as the last `nextBatch` allowed; see `ConsumerThread` for the waits.
///
/// At least once: a record comes again to somebody unless a position behind it was committed. Records of one
/// partition come in order. When partitions are taken away, the group waits up to `revokeWait` for the batch in hand,
/// that is, until the worker asks for its next one; so commit before you ask.
public final class KafkaConsumer: Sendable {
    private let thread: ConsumerThread
    private let lastWaiter = Atomic<UInt64>(0)

    /// Joins the group; returns before it has.
    ///
    /// Topics that do not exist yet are looked for every 5 s.
    /// - Parameters:
    ///   - instance: a name of this member that outlives restarts (static membership); nil: an ordinary member.
    ///   - revokeWait: below `max.poll.interval.ms` (300 s). Default 10 s.
    ///   - pauseAfter: how long the buffer may be full before fetching is paused. Default 3 s.
    /// - Throws: `.configuration` naming the property.
    public init(
        _ configuration: KafkaConfiguration, group: String, topics: [String], instance: String? = nil,
        revokeWait: Duration = .seconds(10), pauseAfter: Duration = .seconds(3)
    ) throws(KafkaError) {
        guard !topics.isEmpty else { throw KafkaError(.configuration, "subscribing: no topics") }
        var fixed = ["group.id": group, "enable.auto.commit": "false", "enable.auto.offset.store": "false"]
        if let instance { fixed["group.instance.id"] = instance }
        self.thread = try ConsumerThread(
            properties: try configuration.resolved(defaults: Self.defaults, fixed: fixed), topics: topics,
            revokeWait: revokeWait, pauseAfter: pauseAfter, onEvent: configuration.onEvent)
    }

    deinit {
        self.thread.stop()
    }

    /// What the caller's properties may override.
    static let defaults = [
        "client.id": "waybill",
        // Cooperative rebalancing has open bugs before librdkafka 2.6.1 (CHANGELOG #4381, #4527, #4783).
        "partition.assignment.strategy": "range,roundrobin",
        "auto.offset.reset": "earliest",
        "session.timeout.ms": "10000",
        "queued.max.messages.kbytes": "16384",
        "queued.min.messages": "10000",
        // A broker answers as soon as it has a byte; a short wait only matters for partitions that were not part of
        // the fetch under way, and for the mock broker, which always waits its time out.
        "fetch.wait.max.ms": "10",
        "fetch.error.backoff.ms": "100",
        "socket.nagle.disable": "true",
        "allow.auto.create.topics": "false",
        // Finds a topic that is created late. librdkafka's own default is 300 s.
        "topic.metadata.refresh.interval.ms": "5000",
        "reconnect.backoff.max.ms": "2000",
    ]

    /// Waits for the first record up to `wait`, then takes what is there up to the limits. Empty: nothing came.
    ///
    /// Asking says that the work on the last batch is done. One task at a time.
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
                    id: id, deadline: now + max(.zero, min(wait, .seconds(86400))), continuation: continuation)
                // A cancellation before this line is seen here; one behind it finds the waiter.
                let isCancelled = Task.isCancelled
                let (answer, isAsleep) = thread.state.withLock { state in
                    let answer = state.ask(
                        records: records, bytes: bytes, waiter: waiter, isCancelled: isCancelled, now: now)
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

    /// Commits and waits for the broker's answer. Give the next offset to read: `KafkaRecord.next`.
    ///
    /// Left out are positions of partitions that were revoked meanwhile, and positions outside of what was handed out
    /// since the partition came. Several tasks may commit at once; one request follows the other. A cancelled task
    /// waits for the answer all the same.
    /// - Returns: what the broker took, one position a partition. What is missing comes again, here or elsewhere.
    /// - Throws: `.transport` or `.timedOut` when the coordinator is away, `.closed`.
    @discardableResult
    public func commit(_ positions: [KafkaPosition]) async throws(KafkaError) -> [KafkaPosition] {
        try await self.thread.commit(positions)
    }

    /// Leaves the group and ends the threads, in at most about 15 s. Work in hand counts as done. Again is harmless.
    public func close() async {
        self.thread.stop()
        await withCheckedContinuation { continuation in
            if !self.thread.state.withLock({ $0.waitForEnd(continuation) }) { continuation.resume() }
        }
    }

    /// The partitions owned now, sorted.
    public var assignment: [KafkaPartition] { self.thread.state.withLock { $0.assignment.partitions } }

    /// What is read ahead, in records and in bytes by `KafkaRecord.size`.
    public var buffered: (records: Int, bytes: Int) {
        self.thread.state.withLock { ($0.buffer.count, $0.buffer.bytes) }
    }

    /// Fetching stands still because the worker is slow.
    public var isPaused: Bool { self.thread.state.withLock { $0.isPaused } }

    /// How long the batch in hand has been worked on; nil: none is. For a stall alarm, as the group cannot see a stuck
    /// worker: polling goes on without it.
    public var batchAge: Duration? { self.thread.state.withLock { $0.handedOutAt }.map { .now - $0 } }
}
