import CoreMetrics
import Kafka
import Logging
import Model
import Operations
import ServiceLifecycle

/// The pusher's loop: takes records, looks up whom they concern, and sees to it that all of them are told.
///
/// Owner: `run`, which ends with nothing in flight and the group left. Thread: tasks of its own; what is sent for
/// replies leaves from the clients' loops. Bounded: by the desk, which says how many records may come in; while it is
/// full none are asked for, and the consumer pauses its partitions.
final class PushWorker: Service {
    /// Most records that are looked up at once; their values are forgotten before the next ones come.
    static let batchRecords = 1000
    static let batchBytes = 8 << 20
    /// How late the end of a window may be noticed.
    static let tick = Duration.milliseconds(100)

    private let consumer: KafkaConsumer
    private let dispatch: PushDispatch
    private let lookup: PushLookup
    private let errands: PushErrands
    private let clients: PushClients
    private let topics: Topics
    private let metrics: PusherMetrics
    private let journal: PushJournal
    private let readiness: Readiness
    private let window: Duration
    private let shutdownLimit: Duration
    private let random: @Sendable (ClosedRange<Double>) -> Double
    private let onStopped: @Sendable () async -> Void

    /// What the worker works with.
    struct Parts {
        let consumer: KafkaConsumer
        let dispatch: PushDispatch
        let lookup: PushLookup
        let errands: PushErrands
        let clients: PushClients
        let metrics: PusherMetrics
        let journal: PushJournal
        var random: @Sendable (ClosedRange<Double>) -> Double = { Double.random(in: $0) }
    }

    /// - Parameter onStopped: called when the consumer has left its group.
    init(
        _ parts: Parts, limits: PushLimits, environment: ServiceEnvironment,
        onStopped: @escaping @Sendable () async -> Void
    ) {
        self.consumer = parts.consumer
        self.dispatch = parts.dispatch
        self.lookup = parts.lookup
        self.errands = parts.errands
        self.clients = parts.clients
        self.metrics = parts.metrics
        self.journal = parts.journal
        self.random = parts.random
        self.topics = environment.common.topics
        self.readiness = environment.readiness
        self.window = limits.window
        self.shutdownLimit = environment.common.shutdownLimit
        self.onStopped = onStopped
    }

    func run() async throws {
        var failure: KafkaError?
        await withTaskGroup { group in
            for _ in 0..<PushErrands.lanes { group.addTask { await self.errands.work() } }
            group.addTask { await self.watch() }
            do {
                // Only the taking ends with a graceful shutdown.
                try await cancelWhenGracefulShutdown { try await self.take() }
            } catch let error as KafkaError where error.code != .cancelled {
                failure = error
            } catch {
                self.journal.stopping()
            }
            self.readiness.unmet(WorkerCondition.joined, "stopping")
            let began = ContinuousClock.now
            self.dispatch.stop()
            // Every client gives every notification its verdict before it is closed.
            await self.clients.close()
            while self.errands.queue.count > 0, .now - began < self.shutdownLimit * 2 / 5 {
                try? await Task.sleep(for: .milliseconds(10))
            }
            self.errands.queue.end()
            group.cancelAll()
        }
        self.report()
        do throws(KafkaError) {
            try await self.consumer.commit()
        } catch {
            self.journal.warn("offsets not committed", error)
        }
        await self.consumer.close()
        await self.onStopped()
        if let failure { throw failure }
    }

    // MARK: taking

    /// Takes records as long as there is room for them.
    ///
    /// - Throws: `CancellationError` or `KafkaError` with code `.cancelled` on graceful shutdown; another one when the
    ///   consumer cannot go on.
    private func take() async throws {
        while true {
            let room = min(self.dispatch.room, Self.batchRecords)
            guard room > 0 else {
                try await Task.sleep(for: .milliseconds(5))
                continue
            }
            let records = try await self.consumer.nextBatch(
                records: room, bytes: Self.batchBytes, wait: .milliseconds(500))
            if records.isEmpty { continue }
            let batch = PushBatch(records, topics: self.topics)
            self.metrics.recordsConsumed.increment(by: records.count)
            self.metrics.recordsUnreadable.increment(by: batch.unreadable.count)
            for (origin, reason) in batch.unreadable { self.journal.unreadable(origin: origin, reason: reason) }
            let numbers = self.dispatch.take(batch.records)
            self.dispatch.add(try await self.look(batch), numbers)
        }
    }

    /// Looks up until it succeeds.
    ///
    /// - Throws: only when the task is cancelled: then nothing of the batch is done.
    private func look(_ batch: PushBatch) async throws -> [PushLookup.Found] {
        var attempt = 0
        while true {
            do {
                let found = try await self.lookup.look(batch)
                if attempt > 0 { self.journal.isBack(.lookups) }
                return found
            } catch {
                try Task.checkCancellation()
                attempt += 1
                self.metrics.lookupRetries.increment()
                self.journal.isAway(.lookups, "\(error)")
                try await Task.sleep(for: backoff(attempt: attempt, random: self.random))
            }
        }
    }

    // MARK: the time

    /// Sends what becomes due, and tells how things stand.
    private func watch() async {
        let tick = self.window > .zero ? max(.milliseconds(10), min(Self.tick, self.window)) : Self.tick
        var reportAt = ContinuousClock.now
        while !Task.isCancelled {
            let next = self.dispatch.look()
            let now = ContinuousClock.now
            if now >= reportAt {
                reportAt = now + .seconds(1)
                self.report()
            }
            // A millisecond gathers what is due next to each other.
            let pause = next.map { max(.milliseconds(1), min($0 - now, tick)) } ?? tick
            do { try await Task.sleep(for: pause) } catch { return }
        }
    }

    private func report() {
        for (type, tally) in self.dispatch.takeTallies() {
            (type.map { self.metrics[$0.rawValue] } ?? self.metrics.strangers).count(tally)
            self.journal.dropped(tally.dropped)
        }
        self.metrics.report(self.dispatch.census, quiet: self.consumer.quietTime)
    }
}
