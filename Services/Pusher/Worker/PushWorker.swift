import CoreMetrics
import Kafka
import Logging
import Model
import Operations
import ServiceLifecycle
import Store
import Synchronization

/// The pusher's loop: fetches records, looks up the devices they concern, and ensures that all of them are notified.
///
/// Owner: `run`, which ends with nothing in flight and after leaving the group. Thread: its own tasks; notifications
/// that follow replies are submitted from the clients' event loops. Bounded: by the scheduler, which limits the number
/// of records; while it is full none are requested, and the consumer pauses its partitions.
final class PushWorker: Service {
    /// Most records of one batch; their values are released before the next batch.
    static let batchRecords = 1000
    static let batchBytes = 8 << 20
    /// The longest delay before the end of a window is noticed.
    static let tick = Duration.milliseconds(100)

    let consumer: KafkaConsumer
    let dispatcher: PushDispatcher
    var scheduler: PushScheduler { self.dispatcher.scheduler }
    let parking: PushParking
    let pending: PendingPushes
    let lookup: PushLookup
    let notified: NotifiedLedger
    let positions: NotifiedPositions
    private let followUps: FollowUps
    private let clients: PushClients
    let topics: Topics
    let metrics: PusherMetrics
    let log: PusherLog
    private let readiness: Readiness
    /// That of the task that sends what is due.
    private let schedule = Heartbeat()
    /// Most records of one lookup: the devices that several lookups find for one brand must not fill the scheduler.
    let mostRecords: Int
    /// That of fetching, which waits for lookups.
    let heartbeat = Heartbeat()
    private let window: Duration
    private let shutdownLimit: Duration
    let random: @Sendable (ClosedRange<Double>) -> Double
    let registrationShare: Mutex<RegistrationShare>
    private let onStopped: @Sendable () async -> Void

    /// The parts that the worker uses.
    struct Parts {
        let consumer: KafkaConsumer
        let dispatcher: PushDispatcher
        let parking: PushParking
        let pending: PendingPushes
        let lookup: PushLookup
        let notified: NotifiedLedger
        let positions: NotifiedPositions
        let followUps: FollowUps
        let clients: PushClients
        let metrics: PusherMetrics
        let log: PusherLog
        var random: @Sendable (ClosedRange<Double>) -> Double = { Double.random(in: $0) }
    }

    /// - Parameter onStopped: called when the consumer has left its group.
    init(
        _ parts: Parts, limits: PushLimits, environment: ServiceEnvironment,
        onStopped: @escaping @Sendable () async -> Void
    ) {
        self.consumer = parts.consumer
        self.dispatcher = parts.dispatcher
        self.parking = parts.parking
        self.pending = parts.pending
        self.lookup = parts.lookup
        self.notified = parts.notified
        self.positions = parts.positions
        self.followUps = parts.followUps
        self.clients = parts.clients
        self.metrics = parts.metrics
        self.log = parts.log
        self.random = parts.random
        self.topics = environment.common.topics
        self.readiness = environment.readiness
        self.mostRecords = max(1, min(Self.batchRecords, limits.records / 32))
        self.window = limits.window
        self.registrationShare = Mutex(RegistrationShare(limits, now: .now))
        self.shutdownLimit = environment.common.shutdownLimit
        self.onStopped = onStopped
        let liveness = environment.liveness
        liveness.watch("kafka-consumer \(environment.common.topics.group(of: Pusher.group))") { [consumer] in
            consumer.turnedAt
        }
        liveness.watch("worker") { [heartbeat] in heartbeat.last }
        liveness.watch("schedule") { [schedule] in schedule.last }
    }

    func run() async throws {
        var failure: KafkaError?
        await withTaskGroup { group in
            // No device waits for this work.
            for _ in 0..<FollowUpQueue.concurrency {
                group.addTask(executorPreference: BackgroundExecutor.shared) { await self.followUps.work() }
            }
            group.addTask(executorPreference: BackgroundExecutor.shared) { await self.pending.writeNotes() }
            group.addTask { await self.watch() }
            group.addTask { await self.noteNotified() }
            do {
                // Only these tasks end with a graceful shutdown.
                try await cancelWhenGracefulShutdown {
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        group.addTask(executorPreference: BackgroundExecutor.shared) { try await self.pending.read() }
                        group.addTask(executorPreference: BackgroundExecutor.shared) { try await self.pending.write() }
                        group.addTask { try await self.drain() }
                        group.addTask {
                            try await self.learnNotified()
                            try await self.fetch()
                        }
                        defer { group.cancelAll() }
                        while try await group.next() != nil {}
                    }
                }
            } catch let error as KafkaError where error.code != .cancelled {
                failure = error
            } catch {
                self.log.stopping()
            }
            self.readiness.unmet(WorkerCondition.joined, "stopping")
            let began = ContinuousClock.now
            self.scheduler.stop()
            // Every client gives every notification its verdict before it is closed.
            await self.clients.close()
            while self.dispatcher.followUps.count + self.pending.openNotes > 0,
                .now - began < self.shutdownLimit * 2 / 5
            {
                try? await Task.sleep(for: .milliseconds(10))
            }
            self.dispatcher.followUps.end()
            group.cancelAll()
        }
        self.report()
        do throws(KafkaError) {
            try await self.consumer.commit()
        } catch {
            self.log.warn("cannot commit offsets", error)
        }
        await self.pending.close()
        await self.consumer.close()
        await self.onStopped()
        if let failure { throw failure }
    }

    // MARK: the time

    /// Sends notifications that become due, and reports the state every second.
    private func watch() async {
        let tick = self.window > .zero ? max(.milliseconds(10), min(Self.tick, self.window)) : Self.tick
        var reportAt = ContinuousClock.now
        defer { self.schedule.end() }
        while !Task.isCancelled {
            self.schedule.beat()
            let next = self.dispatcher.look()
            let now = ContinuousClock.now
            if now >= reportAt {
                reportAt = now + .seconds(1)
                self.report()
            }
            // A millisecond collects notifications that are due close to each other.
            let pause = next.map { max(.milliseconds(1), min($0 - now, tick)) } ?? tick
            do { try await Task.sleep(for: pause) } catch { return }
        }
    }

    private func report() {
        for (type, counts) in self.scheduler.takeTallies() {
            (type.map { self.metrics[$0.rawValue] } ?? self.metrics.unknownTypes).count(counts)
            self.log.dropped(counts.dropped)
        }
        self.metrics.report(self.scheduler.gauges, quiet: self.consumer.quietTime)
        self.metrics.recordsParked.set(self.parking.recordCount)
    }
}
