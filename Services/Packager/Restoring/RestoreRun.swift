import CoreMetrics
import Kafka
import Logging
import Model
import Operations
import Store

/// One packager's part in a restore: takes jobs that no other worker has until none is left.
///
/// Orders are read in ranges backwards from the ends of their partitions, the newest of all partitions first. So each
/// order is written once, and never in a version that is older than one that a device has. Registrations are read from
/// the beginning, once all orders are there: those of removed orders are left out.
/// Bounded: twelve jobs at once, each with one range of at most 2 MiB in memory and what `KafkaReader` reads ahead.
struct RestoreRun: Sendable {
    /// The lease of a job: the time for which it stays with a worker that does not renew it.
    static let lease: Duration = .seconds(15)
    /// Jobs in hand at once: while some decode, others wait for Kafka and Redis.
    static let concurrency = 12
    /// The most offsets of a partition of registrations that are read at a time.
    private static let registrationOffsets: Int64 = 1 << 16
    /// The most records of a chunk, and the most bytes.
    static let chunkRecords = 500
    static let chunkBytes = 2 << 20
    /// The most times that the end of a partition is checked again before the job counts as done.
    private static let endLimit = 3
    private static let idle: Duration = .milliseconds(250)
    let plan: String
    let queue: RestoreJobQueue
    let reader: KafkaReader
    let ordersTopic: String
    let orders: OrderRestorer
    let registrations: RegistrationRestorer
    let metrics: RestoreMetrics
    let logger: Logger
    /// Returns true for the records of orders that are restored.
    var chooses: @Sendable (KafkaRecord) -> Bool = { _ in true }
    /// The sizes of ranges, learned from the ranges of orders that were read.
    let sizes: RangeSizes
    /// Called every second with the progress.
    let report: @Sendable (RestoreProgress) -> Void

    /// The failure of a worker that lost its job to another one, or whose plan is over.
    private struct Lost: Error {}

    /// - Returns: the jobs when all are done; nil when the plan is over.
    /// - Throws: `CancellationError`
    func run() async throws -> [RestoreJobQueue.Job]? {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await self.watch() }
            try await withThrowingTaskGroup(of: Void.self) { group in
                // Letters and digits, as the queue requires; names with the same beginning belong to one packager.
                let name = ViewRecovery.randomName()
                for number in 0..<Self.concurrency { group.addTask { try await self.work(as: "\(name)x\(number)") } }
                try await group.waitForAll()
            }
            group.cancelAll()
        }
        guard let jobs = try await self.queue.jobs(of: self.plan), jobs.allSatisfy(\.isDone) else { return nil }
        return jobs
    }

    private func watch() async throws {
        var progress = RestoreProgress()
        while !Task.isCancelled {
            if let jobs = try? await self.queue.jobs(of: self.plan) {
                progress.update(jobs, at: .now)
                self.metrics.remaining.record(progress.remaining)
                self.report(progress)
            }
            try? await Task.sleep(for: .seconds(1))
        }
    }

    private func work(as owner: String) async throws {
        var failures = 0
        while true {
            try Task.checkCancellation()
            do {
                switch try await self.queue.claim(
                    of: self.plan, by: owner, lease: Self.lease, first: self.ordersTopic)
                {
                case .allDone, .over: return
                case .wait: try await Task.sleep(for: Self.idle)
                case .job(let job): try await self.carryOut(job, owner)
                }
                failures = 0
            } catch is Lost {
                continue
            } catch {
                try Task.checkCancellation()
                failures += 1
                self.logger.warning("restore is blocked, retrying", metadata: ["error": "\(error)"])
                try await Task.sleep(for: backoff(attempt: failures, random: { Double.random(in: $0) }))
            }
        }
    }

    private func carryOut(_ given: RestoreJobQueue.Job, _ owner: String) async throws {
        var job = given
        do {
            try await self.read(&job, owner)
        } catch let error as KafkaError where error.code == .outOfRange {
            // The topic was recreated or truncated in the meantime.
            guard let bounds = try await self.bounds(of: job) else { throw error }
            (job.from, job.to, job.done) = (bounds.first, bounds.end, 0)
            try await self.queue.giveBack(job, of: self.plan, by: owner, pause: .zero)
            throw error
        } catch is Lost {
            throw Lost()
        } catch {
            // So that the next packager need not wait for the lease. If that fails too, the lease ends by itself.
            try? await self.queue.giveBack(job, of: self.plan, by: owner, pause: .milliseconds(200))
            throw error
        }
    }

    /// Reads a range of a job. When none is left, reads on to the present end of the partition and completes the job.
    private func read(_ job: inout RestoreJobQueue.Job, _ owner: String) async throws {
        guard let (topic, partition) = RestorePlan.partition(job.name) else {
            job.isDone = true
            try await self.keep(job, owner)
            return
        }
        if job.done < job.to - job.from {
            if topic == self.ordersTopic {
                try await self.readBackwards(&job, topic, partition)
            } else {
                let end = min(job.to, job.from + job.done + Self.registrationOffsets)
                try await self.readForwards(&job, topic, partition, to: end) { try await self.keep($0, owner) }
            }
        }
        if job.done < job.to - job.from {
            // To the end of the queue: the newest of all partitions come first.
            return try await self.queue.giveBack(job, of: self.plan, by: owner, pause: .zero)
        }
        for _ in 0..<Self.endLimit {
            // Records that were on their way when the job began have arrived. The job ends where it did until all of
            // them are read: a worker that takes it over begins with them again.
            guard let bounds = try await self.bounds(of: job), bounds.end > job.to else { break }
            var tail = RestoreJobQueue.Job(name: job.name, from: job.to, to: bounds.end)
            let standing = job
            try await self.readForwards(&tail, topic, partition, to: tail.to) { _ in
                try await self.keep(standing, owner)
            }
            (job.to, job.done) = (tail.to, tail.to - job.from)
        }
        job.isDone = true
        try await self.keep(job, owner)
    }

    /// Reads the newest range that is left.
    private func readBackwards(_ job: inout RestoreJobQueue.Job, _ topic: String, _ partition: Int32) async throws {
        let end = job.to - job.done
        let start = max(job.from, end - self.sizes.next(of: job))
        var range = NewestRecords(from: start)
        try await self.reader.read(
            topic, partition: partition, from: start, to: end, records: Self.chunkRecords, bytes: NewestRecords.limit
        ) { range.append($0.filter(self.chooses)) }
        try await self.orders.restore(range.records)
        self.sizes.note(job.name, range, to: end)
        job.done = job.to - range.from
    }

    /// - Parameter keep: called with the progress.
    private func readForwards(
        _ job: inout RestoreJobQueue.Job, _ topic: String, _ partition: Int32, to end: Int64,
        keep: (RestoreJobQueue.Job) async throws -> Void
    ) async throws {
        var position = job
        let start = job.from + job.done
        try await self.reader.read(
            topic, partition: partition, from: start, to: end, records: Self.chunkRecords, bytes: Self.chunkBytes
        ) { records in
            if topic == self.ordersTopic {
                try await self.orders.restore(records.filter(self.chooses))
            } else {
                try await self.registrations.restore(records)
            }
            position.done = (records.last?.offset ?? start) + 1 - position.from
            try await keep(position)
        }
        job = position
        job.done = max(start, end) - job.from
    }

    private func bounds(of job: RestoreJobQueue.Job) async throws -> OffsetRange? {
        guard let (topic, partition) = RestorePlan.partition(job.name) else { return nil }
        return try await self.reader.bounds(of: topic).first { $0.partition == partition }
    }

    private func keep(_ job: RestoreJobQueue.Job, _ owner: String) async throws {
        guard try await self.queue.keep(job, of: self.plan, by: owner, lease: Self.lease) else { throw Lost() }
    }
}

/// The metrics of restoring, named once.
struct RestoreMetrics: Sendable {
    /// 1 while the view in Redis is complete, else 0.
    let viewComplete: Gauge
    /// Records that are still to be read, by all packagers together.
    let remaining: Gauge
    /// Records that were read to restore the view.
    let records: Counter
    /// Orders that were written.
    let orders: Counter
    /// Registrations, and ends of them, that were written.
    let registrations: Counter
    /// Records that cannot be read.
    let refused: Counter
    /// The number of restores begun because a view was incomplete or had fallen back.
    let restores: Counter
    private let factory: any MetricsFactory

    /// The partitions of a topic that end before an offset that was seen.
    func partitionsBehind(of topic: String) -> Gauge {
        Gauge(label: "waybill_topic_partitions_behind", dimensions: [("topic", topic)], factory: self.factory)
    }

    init(factory: any MetricsFactory) {
        self.viewComplete = Gauge(label: "waybill_view_complete", factory: factory)
        self.remaining = Gauge(label: "waybill_restore_remaining", factory: factory)
        self.records = Counter(label: "waybill_restore_records_total", factory: factory)
        self.orders = Counter(label: "waybill_restore_orders_total", factory: factory)
        self.registrations = Counter(label: "waybill_restore_registrations_total", factory: factory)
        self.refused = Counter(label: "waybill_restore_refused_total", factory: factory)
        self.restores = Counter(label: "waybill_restores_total", factory: factory)
        self.factory = factory
    }
}
