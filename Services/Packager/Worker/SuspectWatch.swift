import CoreMetrics
import Kafka
import Logging
import Operations
import Store

/// Keeps a record that ends each worker from stopping the others: marks what is in work, works alone on what ended
/// workers had in work, and turns a record that ended several of them into a dead letter.
///
/// A service of a `KeyedWorker`, whose queue decides what is in work alone.
struct SuspectWatch: Sendable {
    /// The parts that the service gives.
    struct Parts: Sendable {
        let marks: WorkMarks
        /// Publishes a dead letter for a record instead of beginning it again.
        let refuse: @Sendable (KafkaRecord) async -> KeyedWork.Outcome
    }

    private static let tick = Duration.milliseconds(50)

    private let parts: Parts
    private let driver: KeyQueueDriver
    /// The time after which a batch in work counts as stalled.
    private let limit: Duration
    private let readiness: Readiness
    private let logger: Logger
    private let metrics: KeyedWorkerMetrics

    init(
        _ parts: Parts, _ driver: KeyQueueDriver, limit: Duration, readiness: Readiness, logger: Logger,
        metrics: KeyedWorkerMetrics
    ) {
        self.parts = parts
        self.driver = driver
        self.limit = limit
        self.readiness = readiness
        self.logger = logger
        self.metrics = metrics
    }

    /// Tells other workers that this one lives, and reads what ended ones had in work, until the task is cancelled.
    func run() async {
        var beatAt = ContinuousClock.now
        var failingSince: ContinuousClock.Instant?
        while !Task.isCancelled {
            await self.examine(&failingSince)
            let now = ContinuousClock.now
            if now >= beatAt {
                beatAt = now + WorkMarks.beat
                let (released, left) = self.driver.release(now: now)
                self.metrics.suspectKeys.set(left)
                // Both are repeated: a beat at the next time, and a suspect is one again for its next owner.
                try? await self.parts.marks.beat()
                try? await self.parts.marks.forget(released)
            }
            do { try await Task.sleep(for: Self.tick) } catch { return }
        }
    }

    /// Reads the marks if partitions came; nothing is handed out before, for `SuspectKeys.patience` at most: one of
    /// several servers may be away.
    private func examine(_ failingSince: inout ContinuousClock.Instant?) async {
        guard let assignment = self.driver.unexamined else { return }
        do {
            let count = self.driver.learn(try await self.parts.marks.examine(), after: assignment, now: .now)
            failingSince = nil
            self.readiness.note(WorkerCondition.upstreams, nil)
            guard count > 0 else { return }
            self.logger.notice(
                "a worker ended with work in hand: its keys are worked on alone", metadata: ["keys": "\(count)"])
        } catch {
            let since = failingSince ?? .now
            failingSince = since
            self.readiness.note(WorkerCondition.upstreams, "\(error)")
            guard ContinuousClock.now - since >= SuspectKeys.patience else { return }
            failingSince = nil
            _ = self.driver.learn([:], after: assignment, now: .now)
            self.logger.warning(
                "what ended workers had in work is not known, and is not worked on alone",
                metadata: ["error": "\(error)"])
        }
    }

    /// Returns the mark of a batch.
    func mark(_ works: [KeyedWork], slot: Int) -> WorkMark { self.parts.marks.mark(slot: slot, works.map(\.key)) }

    /// Removes the marks.
    func end() async { try? await self.parts.marks.end() }

    /// Works on one record while nothing else is in work.
    func alone(
        _ work: KeyedWork, _ process: @escaping @Sendable () async -> [KeyedWork.Outcome]
    ) async -> [KeyedWork.Outcome] {
        guard let record = work.records.first else { return await process() }
        let beginnings = self.driver.begin(work.key, at: record.receipt.origin, now: .now)
        if beginnings.count > SuspectKeys.mostBeginnings {
            let outcome = await self.parts.refuse(record)
            if outcome == .done {
                self.driver.end(work.key, isDone: true, now: .now)
                try? await self.parts.marks.note(SuspectKeys.Digest(work.key), SuspectKeys.Beginnings())
            }
            return [outcome]
        }
        let outcomes = await self.parts.marks.alone(work.key, beginnings, limit: self.limit, process)
        self.driver.end(work.key, isDone: outcomes == [.done], now: .now)
        return outcomes
    }
}
