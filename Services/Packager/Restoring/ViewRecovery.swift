import CoreMetrics
import FoundationEssentials
import Kafka
import Logging
import Model
import Operations
import Redis
import ServiceLifecycle
import Store
import Synchronization

/// Maintains the view in Redis as long as a packager runs: checks it when something happened to Redis, restores it from
/// Kafka together with the other packagers, and keeps the tails from which a restore would begin.
///
/// Source: Design §4.3
final class ViewRecovery: Service {
    /// The name of the condition that readiness waits for.
    static let condition = "view"
    /// The time between two looks that were not requested.
    private static let interval: Duration = .seconds(1)
    /// The time between two looks while the view is not complete.
    private static let pause: Duration = .milliseconds(10)
    /// The time that servers and client have to agree on the slots of a cluster.
    private static let settlingTime: Duration = .seconds(5)
    /// The time between two lines about progress in the log.
    private static let logInterval: Duration = .seconds(5)

    private let view: MaterializedView
    private let topics: [String]
    private let reader: KafkaReader
    private let orders: OrderRestorer
    private let registrations: RegistrationRestorer
    private let metrics: RestoreMetrics
    private let readiness: Readiness
    private let logger: Logger
    private let wakes: AsyncStream<Void>
    private let waker: AsyncStream<Void>.Continuation
    private let logged = Mutex<ContinuousClock.Instant?>(nil)
    private let isHistoryTold = Atomic<Bool>(false)
    private let seenEnds = Mutex(SeenEnds())
    private let partitionsBehind: [(topic: String, gauge: Gauge)]
    /// The time since which cluster slots have been moving, so that no shard can be judged.
    private let unsettledSince = Mutex<ContinuousClock.Instant?>(nil)

    init(
        view: MaterializedView, ordersTopic: String, registrationsTopic: String, reader: KafkaReader,
        orders: OrderRestorer, registrations: RegistrationRestorer, metrics: RestoreMetrics, readiness: Readiness,
        logger: Logger, wakes: Wakes
    ) {
        self.view = view
        self.topics = [ordersTopic, registrationsTopic]
        self.reader = reader
        self.orders = orders
        self.registrations = registrations
        self.metrics = metrics
        self.partitionsBehind = [ordersTopic, registrationsTopic].map { ($0, metrics.partitionsBehind(of: $0)) }
        self.readiness = readiness
        self.logger = logger
        (self.wakes, self.waker) = (wakes.stream, wakes.continuation)
    }

    /// A channel for requesting a look, made before the recovery. It holds one request: a request during a look leads
    /// to another look.
    struct Wakes: Sendable {
        fileprivate let stream: AsyncStream<Void>
        fileprivate let continuation: AsyncStream<Void>.Continuation

        init() {
            (self.stream, self.continuation) = AsyncStream.makeStream(
                of: Void.self, bufferingPolicy: .bufferingNewest(1))
        }

        func wake() { self.continuation.yield() }
    }

    /// Returns a unique name of letters and digits.
    static func randomName() -> String { UUID().uuidString.filter { $0 != "-" }.lowercased() }

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    while true {
                        try await Task.sleep(for: Self.interval)
                        self.waker.yield()
                    }
                }
                group.addTask { try await self.look() }
                // None of them ends except by cancellation.
                try await group.waitForAll()
            }
        }
        await self.reader.close()
    }

    private func look() async throws {
        var samples = TailSamples()
        var failures = 0
        self.waker.yield()
        for await _ in self.wakes {
            let generation = self.view.redis.generation
            do {
                while try await !self.step(&samples) { try await Task.sleep(for: Self.pause) }
                failures = 0
            } catch {
                try Task.checkCancellation()
                failures += 1
                self.logger.warning("cannot check the view, retrying", metadata: ["error": "\(error)"])
                // A view that was complete may still be: what is away is Redis.
                self.readiness.explain(Self.condition, "\(error)")
                try await self.rest(
                    backoff(attempt: failures, random: { Double.random(in: $0) }), under: generation)
                self.waker.yield()
            }
        }
    }

    /// Waits before the next attempt, or until another server answers, which ends the wait early.
    private func rest(_ duration: Duration, under generation: UInt64) async throws {
        let end = ContinuousClock.now + duration
        while ContinuousClock.now < end, self.view.redis.generation == generation {
            try await Task.sleep(for: Self.pause)
        }
    }

    /// - Returns: true if the view is complete; if not, it must be looked at again.
    private func step(_ samples: inout TailSamples) async throws -> Bool {
        let shards = try await self.view.look()
        self.warnOfHiddenHistory(shards)
        let status = ViewStatus(shards)
        if try await self.confirmMoved(shards, status) { return false }
        switch status {
        case .complete:
            if try await !self.view.markSlots(of: shards) {
                self.logger.error(
                    "cluster slots moved to another master without their keys; restoring them")
                return false
            }
            self.readiness.met(Self.condition)
            self.metrics.viewComplete.record(1)
            try await self.keepTails(&samples, shards)
            return true
        case .doubtful:
            self.unmet("Redis was restarted or replaced; the view is being checked")
            if try await self.verify(shards) {
                try await self.view.confirm(shards, epoch: Self.randomName())
                self.logger.info("the view is complete; nothing was lost")
            } else {
                self.logger.warning("Redis lost data; the view must be restored")
                try await self.restore(shards)
            }
            return false
        case .missing, .restoring:
            self.unmet("the view is not complete")
            try await self.restore(shards)
            return false
        }
    }

    /// Declares shards complete if their slots were moved with all keys.
    ///
    /// - Returns: true if the view is to be looked at again.
    private func confirmMoved(_ shards: [MaterializedView.Shard], _ status: ViewStatus) async throws -> Bool {
        guard status == .missing || status == .doubtful else {
            self.unsettledSince.withLock { $0 = nil }
            return false
        }
        switch try await self.view.confirmMoved(shards, epoch: Self.randomName()) {
        case .moved:
            self.logger.info("cluster slots moved with their keys; nothing was lost")
            return true
        case .refused: return false
        case .unsettled:
            // A doubtful view is checked against what was published last, which takes less time than the slots may.
            guard status == .missing else { return false }
            let now = ContinuousClock.now
            let since = self.unsettledSince.withLock { since in
                since = since ?? now
                return since ?? now
            }
            return now - since < Self.settlingTime
        }
    }

    /// Warns once about a server on which data loss cannot be detected.
    private func warnOfHiddenHistory(_ shards: [MaterializedView.Shard]) {
        guard shards.contains(where: \.hidesHistory), !self.isHistoryTold.exchange(true, ordering: .relaxed) else {
            return
        }
        self.logger.error(
            "Redis does not report master_replid, so data loss cannot be detected",
            metadata: ["action": "grant +info, or use a server that reports it"])
    }

    private func unmet(_ reason: String) {
        self.readiness.unmet(Self.condition, reason)
        self.metrics.viewComplete.record(0)
    }

    /// Returns true if Redis has everything that was published after the last moment at which it certainly had
    /// everything.
    ///
    /// Under load this concerns every partition, so as many are read concurrently as in a restore.
    private func verify(_ shards: [MaterializedView.Shard]) async throws -> Bool {
        let bounds = try await self.bounds()
        let jobs = RestorePlan.jobs(bounds, in: self.reader.cluster, tails: shards.map(\.tails))
        var open = jobs.filter { !$0.isDone }[...]
        return try await withThrowingTaskGroup(of: Bool.self) { group in
            for job in open.prefix(RestoreRun.concurrency) { group.addTask { try await self.verify(job) } }
            open = open.dropFirst(RestoreRun.concurrency)
            while let stands = try await group.next() {
                guard stands else {
                    group.cancelAll()
                    return false
                }
                if let job = open.popFirst() { group.addTask { try await self.verify(job) } }
            }
            return true
        }
    }

    private func verify(_ job: RestoreJobQueue.Job) async throws -> Bool {
        guard let (topic, partition) = RestorePlan.partition(job.name) else { return true }
        do {
            try await self.reader.read(
                topic, partition: partition, from: job.from, to: job.to, records: RestoreRun.chunkRecords,
                bytes: RestoreRun.chunkBytes
            ) { records in
                let isThere =
                    topic == self.topics[0]
                    ? try await self.orders.stand(records) : try await self.registrations.stand(records)
                if !isThere { throw FellBack() }
            }
            return true
        } catch is FellBack {
            return false
        }
    }

    private struct FellBack: Error {}

    private func restore(_ shards: [MaterializedView.Shard]) async throws {
        guard let plan = try await self.view.begin(Self.randomName(), seen: shards) else { return }
        self.metrics.restores.increment()
        let bounds = try await self.bounds()
        let cluster = self.reader.cluster
        let queue = RestoreJobQueue(self.view, in: cluster)
        if try await queue.jobs(of: plan) == nil {
            // The tails as they are under the plan: if Redis loses them, it loses the plan too.
            let seen = try await self.view.look()
            guard seen.allSatisfy({ $0.plan == plan }) else { return }
            try await queue.note(RestorePlan.jobs(bounds, in: cluster, tails: seen.map(\.tails)), of: plan)
        }
        self.logger.info("restoring the view from Kafka", metadata: ["plan": "\(plan)"])
        let run = RestoreRun(
            plan: plan, queue: queue, reader: self.reader, ordersTopic: self.topics[0], orders: self.orders,
            registrations: self.registrations, metrics: self.metrics, logger: self.logger,
            sizes: RangeSizes(partitions: bounds[self.topics[0]]?.count ?? 0)
        ) { self.report($0) }
        guard let jobs = try await run.run() else { return }
        let tails = RestorePlan.tails(jobs, in: cluster)
        if try await self.view.complete(plan, epoch: Self.randomName(), tails: tails) {
            try await queue.forget(plan)
            let records = jobs.reduce(0) { $0 &+ ($1.to - $1.from) }
            self.logger.info("the view is restored", metadata: ["records": "\(records)"])
        }
        self.metrics.remaining.record(0)
    }

    private func report(_ progress: RestoreProgress) {
        let left = progress.secondsLeft.map { "\($0) s left" } ?? "time left unknown"
        self.readiness.unmet(Self.condition, "restoring, \(progress.percent)%, \(left)")
        let isDue = self.logged.withLock { logged in
            if let logged, ContinuousClock.now - logged < Self.logInterval { return false }
            logged = .now
            return true
        }
        guard isDue else { return }
        self.logger.info(
            "restoring",
            metadata: [
                "percent": "\(progress.percent)", "rate": "\(Int(progress.rate))/s", "left": "\(left)",
                "remaining": "\(progress.remaining)",
            ])
    }

    private func keepTails(_ samples: inout TailSamples, _ shards: [MaterializedView.Shard]) async throws {
        let now = ContinuousClock.now
        guard samples.isDue(at: now) else { return }
        // An unavailable broker says nothing about the view.
        guard let bounds = try? await self.bounds() else { return }
        let cluster = self.reader.cluster
        let ends = bounds.flatMap { topic, bounds in
            bounds.map { (RestorePlan.tail(RestorePlan.name(topic, $0.partition), in: cluster), $0.end) }
        }
        let named = Dictionary(ends) { first, _ in first }
        self.compare(named, with: shards.map(\.tails), in: cluster)
        if let tails = samples.add(named, in: shards, at: now) { try await self.view.keep(tails: tails, in: shards) }
    }

    /// Reports topics that end before offsets that were seen.
    private func compare(_ ends: [String: Int64], with tails: [[String: Int64]], in cluster: String) {
        let (isNews, behind) = self.seenEnds.withLock { ($0.note(ends, tails: tails), $0.behind) }
        var faults: [String] = []
        for (topic, gauge) in self.partitionsBehind {
            let count = behind.count { $0.hasPrefix(RestorePlan.tail(topic, in: cluster) + "/") }
            gauge.record(count)
            guard count > 0 else { continue }
            faults.append(
                "\(count) partitions of \(topic) end before offsets that were seen: it was made anew, or has lost its "
                    + "end, so Kafka may lack what Redis has; see WaybillPartitionsBehind")
        }
        self.readiness.note("topics", faults.isEmpty ? nil : faults.joined(separator: "; "))
        guard isNews else { return }
        for fault in faults { self.logger.error("Kafka topic needs attention", metadata: ["text": "\(fault)"]) }
    }

    private func bounds() async throws(KafkaError) -> [String: [OffsetRange]] {
        var bounds: [String: [OffsetRange]] = [:]
        for topic in self.topics { bounds[topic] = try await self.reader.bounds(of: topic) }
        return bounds
    }
}

/// A judgement of the view, made from its marks in Redis.
enum ViewStatus: Hashable, Sendable {
    /// Nothing happened since a packager judged it.
    case complete
    /// It was complete, but Redis was restarted or another server took over: it may have fallen back.
    case doubtful
    /// It is not complete, and no packager is restoring it.
    case missing
    /// It is being restored.
    case restoring

    init(_ shards: [MaterializedView.Shard]) {
        if shards.contains(where: { $0.plan != nil }) {
            self = .restoring
        } else if shards.contains(where: { $0.epoch == nil }) || shards.isEmpty {
            self = .missing
        } else {
            self = shards.allSatisfy(\.isHere) ? .complete : .doubtful
        }
    }
}
