import CoreMetrics
public import Kafka
import Logging
public import ServiceLifecycle

/// The loop of a worker on Kafka: take a batch, work on it until it is done, commit, take the next.
///
/// One batch is in hand at a time; the consumer gathers the next one meanwhile. Work is repeated, with growing pauses,
/// until it succeeds: what is in hand is never dropped, and nothing is committed before it is done.
public final class BatchWorker: Service {
    /// What readiness waits for: that the consumer group has let this worker in.
    public static let joined = "consumer-group"
    /// What makes a worker unready while it lasts: that a batch cannot be finished.
    static let upstreams = "upstreams"
    /// Most records of a batch; with `batchBytes` it bounds the worker's memory.
    static let batchRecords = 1000
    /// Most bytes of keys and values of a batch.
    static let batchBytes = 16 << 20

    private let consumer: KafkaConsumer
    private let process: @Sendable ([KafkaRecord]) async throws -> Void
    private let onStopped: @Sendable () async -> Void
    private let readiness: Readiness
    private let logger: Logger
    private let retries: Counter
    private let batchSize: Recorder
    private let random: @Sendable (ClosedRange<Double>) -> Double

    /// Joins a consumer group and makes readiness and the log follow what happens there.
    ///
    /// - Parameters:
    ///   - group: of the consumers.
    ///   - process: does what the records ask for; when it throws, the same records are given again.
    ///   - onStopped: called when the last batch is done and the consumer has left its group.
    public init(
        group: String, topics: [String], environment: ServiceEnvironment,
        random: @escaping @Sendable (ClosedRange<Double>) -> Double = { Double.random(in: $0) },
        process: @escaping @Sendable ([KafkaRecord]) async throws -> Void,
        onStopped: @escaping @Sendable () async -> Void
    ) throws(KafkaError) {
        let log = environment.kafka.onEvent
        var configuration = environment.kafka
        configuration.onEvent = { [readiness = environment.readiness] event in
            if event.kind == .assigned { readiness.met(Self.joined) }
            // Of one broker among others that let us in it says nothing.
            if event.kind == .denied { readiness.explain(Self.joined, event.message) }
            log?(event)
        }
        self.consumer = try KafkaConsumer(
            configuration, group: group, topics: topics, instance: environment.common.instance(of: group))
        self.process = process
        self.onStopped = onStopped
        self.readiness = environment.readiness
        self.logger = environment.logger
        self.retries = Counter(label: "waybill_batch_retries_total", factory: environment.metrics)
        self.batchSize = Recorder(label: "waybill_batch_records", aggregate: true, factory: environment.metrics)
        self.random = random
    }

    public func run() async throws {
        var failure: KafkaError?
        do {
            try await self.work()
        } catch let error as KafkaError where error.code != .cancelled {
            failure = error
        } catch {
            self.logger.info("stopping, what was in hand is done or goes back uncommitted")
        }
        self.readiness.unmet(Self.joined, "stopping")
        await self.consumer.close()
        await self.onStopped()
        if let failure { throw failure }
    }

    /// - Throws: `CancellationError` on graceful shutdown; `KafkaError` when the consumer cannot go on.
    private func work() async throws {
        while true {
            // With a backlog the next batch is there at once and would win against the cancellation, again and again.
            guard !Task.isShuttingDownGracefully else { throw CancellationError() }
            // Only the waiting ends with a graceful shutdown; a batch that was taken is finished.
            let records = try await cancelWhenGracefulShutdown {
                try await self.consumer.nextBatch(
                    records: Self.batchRecords, bytes: Self.batchBytes, wait: .milliseconds(500))
            }
            guard !records.isEmpty else { continue }
            self.batchSize.record(records.count)
            try await self.finish(records)
        }
    }

    /// Works on a batch until it is done, however long an upstream is away, and commits.
    private func finish(_ records: [KafkaRecord]) async throws {
        var attempt = 0
        while true {
            do {
                try await self.process(records)
                break
            } catch let error where !(error is CancellationError) {
                attempt += 1
                self.retries.increment()
                self.readiness.unmet(Self.upstreams, "\(error)")
                let delay = backoff(attempt: attempt, random: self.random)
                self.logger.warning(
                    "batch not done, trying again",
                    metadata: ["error": "\(error)", "attempt": "\(attempt)", "delay": "\(delay)"])
                // Uncommitted work is repeated by whoever comes next, so a shutdown need not wait for an upstream.
                try await cancelWhenGracefulShutdown { try await Task.sleep(for: delay) }
            }
        }
        if attempt > 0 { self.readiness.met(Self.upstreams) }
        self.consumer.finished(records)
        do throws(KafkaError) {
            try await self.consumer.commit()
        } catch {
            // It costs no more than a repetition: the consumer goes on trying, and who takes over the partition before
            // that does the batch again.
            self.logger.warning("offsets not committed", metadata: ["error": "\(error)"])
        }
    }
}

/// How long to wait before something is tried again: exponential from 100 ms to 5 s, up to half of it taken off at
/// random, so that workers do not come back in step.
///
/// - Parameters:
///   - attempt: how often it was tried, from 1.
///   - random: a number of the given range.
public func backoff(attempt: Int, random: (ClosedRange<Double>) -> Double) -> Duration {
    let full = min(5.0, 0.1 * Double(1 << (min(max(attempt, 1), 10) - 1)))
    return .seconds(full * random(0.5...1))
}
