import CoreMetrics
import Kafka
import Logging
import Model
import Operations
import Store

/// One packager's part in a restoring: takes jobs that nobody has until none is left.
///
/// Bounded: eight jobs at once, each with one chunk of records in memory and what `KafkaReader` reads ahead.
struct RestoreRun: Sendable {
    /// How long a job is somebody's who is not heard of.
    static let lease: Duration = .seconds(15)
    /// Jobs in hand at once: while some sign, others wait for Kafka and Redis. Beginning to read a partition and
    /// leaving it takes some 200 ms, nearly all of it waiting for librdkafka's threads.
    static let lanes = 8
    /// Most records of a chunk, and most bytes.
    static let chunkRecords = 500
    static let chunkBytes = 2 << 20
    /// How often the end of a partition is looked at again before the job counts as done.
    private static let endLimit = 3
    private static let idle: Duration = .milliseconds(250)
    let plan: String
    let board: RestoreBoard
    let reader: KafkaReader
    let ordersTopic: String
    let orders: OrderRestorer
    let registrations: RegistrationRestorer
    let metrics: RestoreMetrics
    let logger: Logger
    /// The type whose orders are read, and no others; nil for all.
    var type: OrderTypeIdentifier?
    /// Jobs in hand at once.
    var lanes = RestoreRun.lanes
    /// Called every second with how far it is.
    let report: @Sendable (RestoreProgress) -> Void

    /// The job is in others' hands, or the plan is over.
    private struct Lost: Error {}

    /// The brand that is restored alone cannot be loaded any more.
    private struct BrandIsGone: Error {}

    /// - Returns: the jobs when all are done; nil when the plan is over.
    /// - Throws: `CancellationError`
    func run() async throws -> [RestoreBoard.Job]? {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await self.watch() }
            try await withThrowingTaskGroup(of: Void.self) { lanes in
                // Letters and digits, as the board wants them; who begins alike is one packager.
                let name = ViewKeeper.randomName()
                for lane in 0..<self.lanes { lanes.addTask { try await self.work(as: "\(name)x\(lane)") } }
                try await lanes.waitForAll()
            }
            group.cancelAll()
        }
        guard let jobs = try await self.board.jobs(of: self.plan), jobs.allSatisfy(\.isDone) else { return nil }
        return jobs
    }

    private func watch() async throws {
        var progress = RestoreProgress()
        while !Task.isCancelled {
            if let jobs = try? await self.board.jobs(of: self.plan) {
                progress.take(jobs, at: .now)
                if !progress.awaitedBrands.isEmpty { self.metrics.waiting.record(1) }
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
                switch try await self.board.claim(of: self.plan, by: owner, lease: Self.lease) {
                case .allDone, .over: return
                case .wait: try await Task.sleep(for: Self.idle)
                case .job(let job): try await self.carryOut(job, owner)
                }
                failures = 0
            } catch is Lost {
                continue
            } catch is BrandIsGone {
                return
            } catch {
                try Task.checkCancellation()
                failures += 1
                self.logger.warning("restoring is held up, trying again", metadata: ["error": "\(error)"])
                try await Task.sleep(for: backoff(attempt: failures, random: { Double.random(in: $0) }))
            }
        }
    }

    private func carryOut(_ given: RestoreBoard.Job, _ owner: String) async throws {
        var job = given
        do {
            try await self.read(&job, owner)
        } catch let error as KafkaError where error.code == .outOfRange {
            // The topic was made anew or cut behind our back.
            guard let bounds = try await self.bounds(of: job) else { throw error }
            job.next = bounds.first
            job.to = bounds.end
            try await self.board.giveBack(job, of: self.plan, by: owner, pause: .zero)
            throw error
        } catch is Lost {
            throw Lost()
        } catch {
            // Whoever comes next need not wait for the lease. If that fails too, the lease ends by itself.
            try? await self.board.giveBack(job, of: self.plan, by: owner, pause: .milliseconds(200))
            throw error
        }
    }

    /// Reads a job to the end of its partition, as it is when that is reached.
    private func read(_ job: inout RestoreBoard.Job, _ owner: String) async throws {
        guard let (topic, partition) = RestorePlan.partition(job.name) else {
            job.isDone = true
            try await self.keep(job, owner)
            return
        }
        var awaited: AwaitedOrders?
        for _ in 0..<Self.endLimit {
            var position = job
            try await self.reader.read(
                topic, partition: partition, from: job.next, to: job.to, records: Self.chunkRecords,
                bytes: Self.chunkBytes
            ) { records in
                if topic == self.ordersTopic {
                    if let more = try await self.orders.restore(self.chosen(records)) {
                        guard self.type == nil else { throw BrandIsGone() }
                        awaited = more.merging(awaited)
                    }
                } else {
                    try await self.registrations.restore(records)
                }
                position.next = (records.last?.offset ?? position.next) + 1
                // What has to wait is read again by whoever goes on.
                var noted = position
                if let awaited { noted.next = min(awaited.offset, noted.next) }
                try await self.keep(noted, owner)
            }
            job.next = job.to
            // What was under way when the job began has come by now.
            guard let bounds = try await self.bounds(of: job), bounds.end > job.to else { break }
            job.to = bounds.end
        }
        // Records that wait for their brand are read again when that is loaded, see `LateRestoring`.
        job.next = awaited?.offset ?? job.to
        job.awaited = awaited?.types ?? []
        job.isDone = true
        try await self.keep(job, owner)
    }

    private func chosen(_ records: [KafkaRecord]) -> [KafkaRecord] {
        guard let type = self.type else { return records }
        let prefix = "\(type)/".utf8
        return records.filter { $0.key?.starts(with: prefix) ?? false }
    }

    private func bounds(of job: RestoreBoard.Job) async throws -> KafkaBounds? {
        guard let (topic, partition) = RestorePlan.partition(job.name) else { return nil }
        return try await self.reader.bounds(of: topic).first { $0.partition == partition }
    }

    private func keep(_ job: RestoreBoard.Job, _ owner: String) async throws {
        guard try await self.board.keep(job, of: self.plan, by: owner, lease: Self.lease) else { throw Lost() }
    }
}
