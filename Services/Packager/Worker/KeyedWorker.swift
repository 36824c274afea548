import CoreMetrics
import Kafka
import Logging
import Model
import Operations
import ServiceLifecycle
import Store
import Synchronization

/// The loop of a worker on Kafka whose unit of work is a key.
///
/// Several batches are in hand, each with different keys; records that arrive for a key in work wait and are then
/// processed together. A key that cannot be done yet is parked with growing pauses while the others continue; nothing
/// is dropped, and no position of a partition is committed beyond a record that is not done.
///
/// Groups of keys share the capacity. Records of a group that has its share, or that waits as a whole, are deferred:
/// only their offsets are remembered, and they are read again from Kafka when there is room for them.
///
/// Owner: `run`, which ends after all tasks have ended and the group has been left. Thread: tasks of its own; `process`
/// runs on them.
/// Bounded: records in hand, parked keys included, by `KeyQueue.Limits`; when these are reached and there is only one
/// group, no records are requested, and the consumer pauses its partitions. Deferred records: `DeferredRecords`.
final class KeyedWorker: Service {
    /// The number of batches in work at once: while two sign, others read, write or wait for Kafka. The last one is for
    /// groups without a backlog.
    static let concurrency = 5
    /// The limits on records in hand. Together with the consumer's read-ahead (8 MB) and librdkafka's buffers (8 MB and
    /// an answer of 4 MB) below 48 MB.
    static let limits = KeyQueue.Limits(records: 32_768, bytes: 24 << 20, batchKeys: 256, batchBytes: 2 << 20)
    /// The longest delay before a parked key whose time has come is resumed.
    private static let tick = Duration.milliseconds(100)

    private let consumer: KafkaConsumer
    private let driver: KeyQueueDriver
    private let deferred: DeferredReader
    private let groups: @Sendable () -> [KeyGroup]
    private let keyed: (@Sendable (KafkaRecord) -> [UInt8]?)?
    private let process: @Sendable ([KeyedWork], WorkMark?) async -> [KeyedWork.Outcome]
    private let suspects: SuspectWatch?
    private let onStopped: @Sendable () async -> Void
    private let readiness: Readiness
    private let logger: Logger
    private let metrics: KeyedWorkerMetrics
    private let random: @Sendable (ClosedRange<Double>) -> Double
    private let watch = Mutex(OutageDetector())
    /// That of the fetching task.
    private let heartbeat = Heartbeat()
    /// The times since which batches are in work, by task.
    private let batches = Mutex([ContinuousClock.Instant?](repeating: nil, count: concurrency))

    /// Joins a consumer group and keeps readiness and the log up to date with it.
    ///
    /// - Parameters:
    ///   - group: that of the consumers.
    ///   - limits: the limits on records in hand.
    ///   - groups: returns the present groups of keys; called every second. Default: none, and all keys are one group.
    ///   - startsAtEnd: as for `KafkaConsumer`.
    ///   - keyed: returns the key under which a record is processed, which it then has; nil: its own.
    ///   - onCommit: as for `KafkaConsumer`.
    ///   - suspects: protects the workers from records that end them; nil: nothing does.
    ///   - process: does the work of some keys, sets their mark before it decodes anything, and returns an outcome for
    ///     each of them, in order. Called several times at once, never with one key twice.
    ///   - onStopped: called when the last batch is done and the consumer has left its group.
    convenience init(
        group: String, topics: [String], environment: ServiceEnvironment,
        limits: KeyQueue.Limits = KeyedWorker.limits, groups: @escaping @Sendable () -> [KeyGroup] = { [] },
        startsAtEnd: @escaping @Sendable (String) -> Bool = { _ in false },
        keyed: (@Sendable (KafkaRecord) -> [UInt8]?)? = nil,
        onCommit: (@Sendable (KafkaConsumer.CommitMoment) -> Void)? = nil, suspects: SuspectWatch.Parts? = nil,
        process: @escaping @Sendable ([KeyedWork], WorkMark?) async -> [KeyedWork.Outcome],
        onStopped: @escaping @Sendable () async -> Void
    ) throws(KafkaError) {
        try self.init(
            group: group, topics: topics, environment: environment, limits: limits,
            groups: groups, startsAtEnd: startsAtEnd, keyed: keyed, random: { Double.random(in: $0) },
            onCommit: onCommit, suspects: suspects, process: process, onStopped: onStopped)
    }

    init(
        group: String, topics: [String], environment: ServiceEnvironment, limits: KeyQueue.Limits,
        groups: @escaping @Sendable () -> [KeyGroup] = { [] },
        startsAtEnd: @escaping @Sendable (String) -> Bool = { _ in false },
        keyed: (@Sendable (KafkaRecord) -> [UInt8]?)? = nil,
        random: @escaping @Sendable (ClosedRange<Double>) -> Double,
        onCommit: (@Sendable (KafkaConsumer.CommitMoment) -> Void)? = nil, suspects: SuspectWatch.Parts? = nil,
        process: @escaping @Sendable ([KeyedWork], WorkMark?) async -> [KeyedWork.Outcome],
        onStopped: @escaping @Sendable () async -> Void
    ) throws(KafkaError) {
        let driver = KeyQueueDriver(limits: limits, concurrency: Self.concurrency, examines: suspects != nil)
        self.consumer = try KafkaConsumer(
            environment.joining.onAssignment(driver.assigned), group: group, topics: topics, startsAtEnd: startsAtEnd,
            instance: environment.common.instance(of: group),
            onLeaving: { driver.drop($0).map(\.receipt) }, onCommit: onCommit)
        self.driver = driver
        self.deferred = DeferredReader(
            driver, self.consumer, environment.kafka, keyed: keyed, logger: environment.logger)
        self.groups = groups
        self.keyed = keyed
        self.process = process
        self.onStopped = onStopped
        self.readiness = environment.readiness
        self.logger = environment.logger
        let metrics = KeyedWorkerMetrics(factory: environment.metrics)
        self.metrics = metrics
        self.suspects = suspects.map {
            SuspectWatch(
                $0, driver, limit: environment.common.shutdownLimit, readiness: environment.readiness,
                logger: environment.logger, metrics: metrics)
        }
        self.random = random
        let liveness = environment.liveness
        liveness.watch("kafka-consumer \(group)") { [consumer] in consumer.turnedAt }
        liveness.watch("worker") { [heartbeat] in heartbeat.last }
        // Its waits for upstreams are bounded so that a batch ends within the limit of a shutdown.
        let limit = environment.common.shutdownLimit
        liveness.watch("batch of changes") { [weak self] in
            self?.batches.withLock { $0.compactMap { $0 }.min() }.map { $0 + limit }
        }
    }

    func run() async throws {
        var failure: KafkaError?
        await withTaskGroup { group in
            for task in 0..<Self.concurrency { group.addTask { await self.work(task) } }
            do {
                // Only fetching ends with a graceful shutdown; work in progress is finished.
                try await cancelWhenGracefulShutdown {
                    try await withThrowingTaskGroup { reading in
                        reading.addTask { await self.deferred.run() }
                        if let suspects = self.suspects { reading.addTask { await suspects.run() } }
                        defer { reading.cancelAll() }
                        try await self.fetch()
                    }
                }
            } catch let error as KafkaError where error.code != .cancelled {
                failure = error
            } catch {
                self.logger.info("stopping: finishing work in progress; waiting records stay uncommitted")
            }
            self.readiness.unmet(WorkerCondition.joined, "stopping")
            self.driver.stop()
        }
        do throws(KafkaError) {
            try await self.consumer.commit()
        } catch {
            self.logger.warning("cannot commit offsets", metadata: ["error": "\(error)"])
        }
        await self.consumer.close()
        await self.suspects?.end()
        await self.onStopped()
        if let failure { throw failure }
    }

    /// Fetches records as long as there is room for them.
    ///
    /// - Throws: `KafkaError` with code `.cancelled` on graceful shutdown, or if the consumer cannot continue.
    private func fetch() async throws {
        var reportAt = ContinuousClock.now
        var notes = DeferralNotes()
        var progress = ConsumerMetrics(factory: self.metrics.factory)
        var pause = BacklogLinger()
        self.driver.update(self.groups())
        var isHeld = false
        defer { self.heartbeat.end() }
        while true {
            self.heartbeat.beat()
            let room = self.driver.look.room
            var records: [KafkaRecord] = []
            if room.records > 0, room.bytes > 0 {
                records = try await self.consumer.nextBatch(
                    records: room.records, bytes: room.bytes, wait: isHeld ? BacklogLinger.quiet : Self.tick)
            } else {
                // A finished batch makes room for hundreds, so a few milliseconds cost nothing.
                try await Task.sleep(for: .milliseconds(5))
            }
            if let keyed = self.keyed { records = records.map { $0.keyed(keyed($0)) } }
            let now = ContinuousClock.now
            isHeld = pause.isDue(inHand: self.driver.look.records + records.count, came: records.count, now: now)
            self.driver.add(records, now: now, isHeld: isHeld, ledger: self.consumer)
            guard now >= reportAt else { continue }
            reportAt = now + .seconds(1)
            self.driver.update(self.groups())
            progress.report(self.consumer, deferred: self.driver.deferredByTopic)
            notes.report(self.driver.putOff, self.metrics, self.logger)
            self.metrics.report(
                self.driver.look, oldest: self.driver.delayedSince.map { now - $0 }, quiet: self.consumer.quietTime)
        }
    }

    /// One task: processes one batch after the other until none is handed out any more.
    private func work(_ task: Int) async {
        while let (works, isAlone) = await self.driver.next() {
            self.metrics.began(works)
            self.batches.withLock { $0[task] = .now }
            let mark = self.suspects?.mark(works, slot: task)
            let outcomes: [KeyedWork.Outcome]
            if isAlone, let suspects = self.suspects {
                let process = self.process
                outcomes = await suspects.alone(works[0]) { await process(works, mark) }
            } else {
                outcomes = await self.process(works, mark)
            }
            self.batches.withLock { $0[task] = nil }
            self.complete(works, outcomes)
        }
    }

    private func complete(_ works: [KeyedWork], _ outcomes: [KeyedWork.Outcome]) {
        precondition(works.count == outcomes.count, "one outcome for each piece of work")
        let now = ContinuousClock.now
        // First, so that no finished record is let go on a revoke.
        self.consumer.finished(zip(works, outcomes).flatMap { $0.finished(by: $1) })
        let look = self.driver.complete(works, outcomes, now: now) { backoff(attempt: $0, random: self.random) }
        var retried: [(work: KeyedWork, reason: String)] = []
        for case (let work, .later(let reason)) in zip(works, outcomes) { retried.append((work, reason)) }
        self.metrics.retries.increment(by: retried.count)
        let done = zip(works, outcomes).count { !$0.finished(by: $1).isEmpty }
        let (change, isLogged) = self.watch.withLock { watch in
            let change = watch.record(done: done, delayed: look.delayed, now: now)
            return (change, retried.isEmpty ? false : watch.isLogged(now: now))
        }
        switch change {
        case .away?: self.readiness.note(WorkerCondition.upstreams, retried.first?.reason ?? "no work completes")
        case .back?: self.readiness.note(WorkerCondition.upstreams, nil)
        case nil: break
        }
        guard isLogged, let (work, reason) = retried.first else { return }
        let oldest = self.driver.delayedSince.map { now - $0 } ?? .zero
        let facts: Logger.Metadata = [
            "error": "\(reason)", "keys": "\(look.delayed)", "oldest": "\(oldest)", "records": "\(look.records)",
        ]
        self.logger.warning("keys are waiting for a retry", metadata: work.metadata.merging(facts) { $1 })
    }
}

/// All records of one key that are processed together.
struct KeyedWork: Sendable {
    /// The key of the records; nil for those that have none.
    let key: [UInt8]?
    /// Never empty; those of one partition in the order of their offsets.
    let records: [KafkaRecord]
    /// The number of times this key had to wait, without having been done in between.
    let attempts: Int

    init(key: [UInt8]?, records: [KafkaRecord], attempts: Int = 0) {
        self.key = key
        self.records = records
        self.attempts = attempts
    }

    /// The outcome of a piece of work.
    enum Outcome: Hashable, Sendable {
        /// Fully processed.
        case done
        /// The first so many records are done, perhaps none. The rest was not tried, and is handed out again at once.
        case partly(Int)
        /// It must be retried; a retry is safe at any point.
        ///
        /// - Parameter reason: for people; no secrets.
        case later(reason: String)
        /// It waits for records that may still arrive for its key, and is tried again when one does, at the latest
        /// after this time. Nothing is wrong with it.
        case awaits(Duration)

        var isWaiting: Bool { if case .awaits = self { true } else { false } }

        var isPart: Bool { if case .partly = self { true } else { false } }

        /// True if what was made of its records stands.
        fileprivate var isGood: Bool { self == .done || self.isPart }
    }

    /// Returns the records that are done with an outcome.
    func finished(by outcome: Outcome) -> ArraySlice<KafkaRecord> {
        switch outcome {
        case .done: self.records[...]
        case .partly(let count): self.records.prefix(count)
        case .later, .awaits: []
        }
    }
}

/// The outcome of each piece of a batch's work: done, unless it must wait or be tried again.
struct BatchOutcomes: Sendable {
    /// In the order of the work.
    private(set) var outcomes: [KeyedWork.Outcome]
    /// Pieces that another worker overtook: they are to be done again at once.
    private var overtaken: Set<Int> = []

    init(count: Int) { self.outcomes = Array(repeating: .done, count: count) }

    /// Postpones a piece of work; one that must wait already keeps its first reason.
    mutating func postpone(_ place: Int, _ reason: String) {
        if self.outcomes[place].isGood { self.outcomes[place] = .later(reason: reason) }
    }

    /// Ends a piece of work after some of its records.
    mutating func end(_ place: Int, after count: Int) {
        if self.outcomes[place] == .done { self.outcomes[place] = .partly(count) }
    }

    /// Makes a piece of work wait for records that may still arrive.
    mutating func wait(_ place: Int, _ time: Duration) {
        if self.outcomes[place].isGood { self.outcomes[place] = .awaits(time) }
    }

    mutating func postpone(_ places: some Sequence<Int>, _ reason: String) {
        for place in places { self.postpone(place, reason) }
    }

    /// Stops a piece of work that another worker overtook.
    mutating func overtake(_ place: Int) { self.overtaken.insert(place) }

    /// Opens the pieces again that were overtaken, and returns them.
    mutating func takeOvertaken() -> Set<Int> {
        defer { self.overtaken = [] }
        return self.overtaken
    }

    func isPostponed(_ place: Int) -> Bool { !self.outcomes[place].isGood || self.isOvertaken(place) }

    func isOvertaken(_ place: Int) -> Bool { self.overtaken.contains(place) }
}

/// Distinguishes an outage of an upstream from a single key that cannot be done: in an outage several keys wait and
/// none gets done.
struct OutageDetector {
    /// The report to readiness.
    enum Change: Hashable {
        case away
        case back
    }

    /// The time without a finished key after which it is an outage.
    static let patience = Duration.seconds(2)
    /// The time between two log lines about waiting keys, regardless of their number.
    static let logPause = Duration.seconds(10)

    private var failingSince: ContinuousClock.Instant?
    private var isAway = false
    private var loggedAt: ContinuousClock.Instant?

    /// Processes the result of a batch.
    ///
    /// - Parameters:
    ///   - done: the number of keys that got done.
    ///   - delayed: the number of keys that must be retried, of all that are in hand.
    mutating func record(done: Int, delayed: Int, now: ContinuousClock.Instant) -> Change? {
        if done > 0 || delayed == 0 {
            self.failingSince = nil
            defer { self.isAway = false }
            return self.isAway ? .back : nil
        }
        let since = self.failingSince ?? now
        self.failingSince = since
        guard !self.isAway, delayed > 1, now - since >= Self.patience else { return nil }
        self.isAway = true
        return .away
    }

    /// Returns true if a log line is due.
    mutating func isLogged(now: ContinuousClock.Instant) -> Bool {
        if let loggedAt = self.loggedAt, now - loggedAt < Self.logPause { return false }
        self.loggedAt = now
        return true
    }
}

extension KeyedWork {
    /// The facts by which its log lines are found: the order, and the newest trace of its records.
    var metadata: Logger.Metadata {
        let traces = self.records.reversed().lazy.compactMap { record in
            TraceContext(value: record.value, headers: record.headers.map { ($0.name, $0.value) })
        }
        return Logger.Metadata(order: self.key).traced(traces.first)
    }
}

extension Logger.Metadata {
    /// The order that a record's key names; a source's key names something else.
    init(order key: [UInt8]?) {
        self.init()
        if let key = key.flatMap({ String(validating: $0, as: UTF8.self) }), let order = try? OrderKey(key) {
            self["order"] = "\(order)"
        }
    }
}
