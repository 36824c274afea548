import APNS
import CoreMetrics
import FoundationEssentials
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
package final class PushWorker: Service {
    /// Most records of one batch; their values are released before the next batch.
    package static let batchRecords = 1000
    static let batchBytes = 8 << 20
    /// The longest delay before the end of a window is noticed.
    package static let tick = Duration.milliseconds(100)

    let consumer: KafkaConsumer
    let scheduler: PushScheduler
    let parking: PushParking
    let pending: PendingPushes
    let lookup: PushLookup
    let notified: NotifiedLedger
    let positions: NotifiedPositions
    let suspects: PushSuspects
    let producer: KafkaProducer
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
        let scheduler: PushScheduler
        let parking: PushParking
        let pending: PendingPushes
        let lookup: PushLookup
        let notified: NotifiedLedger
        let positions: NotifiedPositions
        let suspects: PushSuspects
        let producer: KafkaProducer
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
        self.scheduler = parts.scheduler
        self.parking = parts.parking
        self.pending = parts.pending
        self.lookup = parts.lookup
        self.notified = parts.notified
        self.positions = parts.positions
        self.suspects = parts.suspects
        self.producer = parts.producer
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
            group.addTask(executorPreference: BackgroundExecutor.shared) { await self.pending.writeTombstones() }
            group.addTask { await self.watch() }
            group.addTask { await self.noteNotified() }
            group.addTask { await self.beat() }
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
            let began = MonotonicTime.now
            self.scheduler.stop()
            // Every client gives every notification its verdict before it is closed.
            await self.clients.close()
            while self.scheduler.followUps.count + self.pending.openTombstones > 0,
                .now - began < self.shutdownLimit * 2 / 5
            {
                try? await Task.sleep(for: .milliseconds(10))
            }
            self.scheduler.followUps.end()
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
        await self.suspects.stop()
        // The handlers of the consumers retain the scheduler.
        self.scheduler.whenFinished { _ in }
        await self.onStopped()
        if let failure { throw failure }
    }

    // MARK: the time

    /// Sends notifications that become due, and reports the state every second.
    private func watch() async {
        let tick = self.window > .zero ? max(.milliseconds(10), min(Self.tick, self.window)) : Self.tick
        var reportAt = MonotonicTime.now
        defer { self.schedule.end() }
        while !Task.isCancelled {
            self.schedule.beat()
            let next = self.scheduler.advance()
            let now = MonotonicTime.now
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
            self.log.dropped(counts.dropped, last: counts.lastDropped)
        }
        self.metrics.report(self.scheduler.gauges, quiet: self.consumer.quietTime)
        self.metrics.report(self.consumer, pending: self.pending.consumer)
        self.metrics.recordsParked.set(self.parking.with { $0.recordCount })
    }
}

extension PushWorker {
    /// Most lookups of new records that are in progress, so that a slow one does not delay the next records.
    static let lookups = 3
    /// The time between two checks for room for parked keys.
    static let drainPause = Duration.milliseconds(20)
    /// The pause before the lookup of an order is repeated.
    static let retryPause = Duration.seconds(1)

    // MARK: records notified before

    /// Reads the positions up to which devices were notified, and retries until Redis answers: without it no device
    /// could be looked up either.
    ///
    /// - Throws: only when the task is cancelled.
    func learnNotified() async throws {
        self.notified.learn(
            try await self.log.retrying(.lookups, random: self.random) { try await self.positions.all() })
    }

    /// Records the committed positions in Redis until the task is cancelled, and then once more.
    func noteNotified() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: .seconds(1))
            let marks = self.notified.takeCommitted(nowMilliseconds: Int64(Date().timeIntervalSince1970 * 1000))
            // A mark that Redis does not accept is superseded by that of the next commit.
            if !marks.isEmpty { try? await self.positions.record(marks) }
        }
    }

    // MARK: suspects

    /// Tells other pushers that this one lives, until the task is cancelled.
    private func beat() async {
        while !Task.isCancelled {
            self.metrics.suspectKeys.set(await self.suspects.beat())
            try? await Task.sleep(for: WorkMarks.beat)
        }
    }

    /// Publishes a dead letter for a record that ended pushers, and retries until Kafka has it.
    ///
    /// - Throws: only when the task is cancelled.
    private func refuse(_ record: KafkaRecord) async throws {
        let message = PushDeadLetter.message(ofWorkerEndingRecord: record, self.topics)
        _ = try await self.log.retrying(.followUps, random: self.random) {
            self.heartbeat.beat()
            return try await self.producer.produce(message)
        }
    }

    /// Takes a suspect's record while no other lookup is under way, until its notifications have answers, for
    /// `SuspectKeys.instant` at most.
    ///
    /// - Throws: only when the task is cancelled.
    private func takeAlone(_ record: KafkaRecord) async throws {
        let isTaken = await self.suspects.alone(record, limit: self.shutdownLimit) {
            guard let (batch, numbers) = self.admit([record]) else { return }
            let deadline = ContinuousClock.now + SuspectKeys.instant
            // If the task is cancelled nothing of it is done, which the end of the loop tells.
            try? await self.lookUp(batch, numbers)
            while self.scheduler.isOpen(record.receipt, numbers[0]), .now < deadline, !Task.isCancelled {
                try? await Task.sleep(for: .milliseconds(5))
            }
        }
        try Task.checkCancellation()
        if isTaken { return }
        try await self.refuse(record)
        self.log.endsWorkers(origin: record.receipt.origin)
        self.consumer.finished([record.receipt])
        await self.suspects.refused(record)
    }

    // MARK: fetching

    /// Fetches records while there is room for them.
    ///
    /// - Throws: `CancellationError` or `KafkaError` with code `.cancelled` on graceful shutdown; another error if the
    ///   consumer cannot continue.
    func fetch() async throws {
        try await withThrowingTaskGroup(of: Int.self) { group in
            // Those of marks: of each lookup under way, and of the next one.
            var freeSlots = Array(0...Self.lookups)
            defer { self.heartbeat.end() }
            while true {
                self.heartbeat.beat()
                let room = min(self.scheduler.intake.room, self.parking.with { $0.room }, self.mostRecords)
                guard room > 0 else {
                    try await Task.sleep(for: .milliseconds(5))
                    continue
                }
                let came = try await self.consumer.nextBatch(
                    records: room, bytes: Self.batchBytes, wait: .milliseconds(500))
                if came.isEmpty { continue }
                let (again, records) = self.notified.sift(came)
                if !again.isEmpty {
                    self.metrics.recordsDuplicate.increment(by: again.count)
                    self.consumer.finished(again)
                }
                if records.isEmpty { continue }
                if let count = try await self.suspects.examine(), count > 0 { self.log.foundSuspects(count) }
                let (suspects, others) = self.suspects.divide(records)
                if !others.isEmpty {
                    let slot = freeSlots.removeLast()
                    await self.suspects.mark(others, slot: slot)
                    if let (batch, numbers) = self.admit(others) {
                        group.addTask {
                            try await self.lookUp(batch, numbers)
                            return slot
                        }
                        if freeSlots.isEmpty, let slot = try await group.next() { freeSlots.append(slot) }
                    } else {
                        freeSlots.append(slot)
                    }
                }
                if suspects.isEmpty { continue }
                while let slot = try await group.next() { freeSlots.append(slot) }
                for record in suspects { try await self.takeAlone(record) }
            }
        }
    }

    /// Parks records that must wait.
    ///
    /// - Returns: the rest to be looked up, with its numbers in the scheduler; nil if there is none.
    private func admit(_ records: [KafkaRecord]) -> (batch: PushBatch, numbers: [Int32])? {
        var batch = PushBatch(records, topics: self.topics, staleBefore: self.scheduler.staleBefore)
        self.metrics.recordsConsumed.increment(by: records.count)
        self.metrics.recordsUnreadable.increment(by: batch.unreadable.count)
        self.metrics.recordsStale.increment(by: batch.staleCount)
        for (origin, reason) in batch.unreadable { self.log.unreadable(origin: origin, reason: reason) }
        var numbers = self.scheduler.receive(batch.records, traces: batch.traces)
        let aside = self.parking.setAside(&batch, of: self.scheduler.intake.parked)
        if !aside.isEmpty { self.park(aside, &numbers) }
        guard batch.isEmpty else { return (batch, numbers) }
        self.scheduler.add([], numbers)
        return nil
    }

    /// Parks records that the scheduler has numbers for.
    ///
    /// - Parameters:
    ///   - numbers: those of the batch's records; those of parked records become -1.
    ///   - due: the time from which they may be looked up; nil: as soon as there is room.
    private func park(
        _ aside: [(push: ParkedPush, records: [Int])], _ numbers: inout [Int32], due: MonotonicTime? = nil
    ) {
        var pushes: [ParkedPush] = []
        pushes.reserveCapacity(aside.count)
        for (push, records) in aside {
            let isOurs = self.scheduler.withdraw(records.map { numbers[$0] })
            for record in records { numbers[record] = -1 }
            var push = push
            push.receipts = zip(push.receipts, isOurs).compactMap { $1 ? $0 : nil }
            if !push.receipts.isEmpty { pushes.append(push) }
        }
        self.pending.park(pushes, due: due)
    }

    // MARK: parked records

    /// Looks up parked keys as soon as there is room for them.
    ///
    /// - Throws: only when the task is cancelled.
    func drain() async throws {
        while true {
            let types = self.parking.with { $0.isEmpty ? [] : Array($0.counts.keys) }
            if !types.isEmpty {
                let room = min(self.scheduler.intake.room, self.mostRecords)
                let openings = self.scheduler.openings(types)
                let pushes = self.parking.with { $0.take(openings, records: room, now: .now) }
                if !pushes.isEmpty {
                    let batch = PushBatch(pushes)
                    let numbers = self.scheduler.receive(batch.records, traces: batch.traces)
                    try await self.lookUp(batch, numbers)
                    continue
                }
            }
            try await Task.sleep(for: types.isEmpty ? Self.tick : Self.drainPause)
        }
    }

    /// Looks up the devices of a batch, retries until that succeeds, and passes the devices found to the scheduler.
    ///
    /// - Parameter numbers: those of the batch's records, as returned by the scheduler.
    /// - Throws: only if the task is cancelled: then nothing of the batch is done.
    private func lookUp(_ batch: PushBatch, _ numbers: [Int32]) async throws {
        var attempts = 0
        let outcome = try await self.log.retrying(.lookups, random: self.random) {
            self.heartbeat.beat()
            if attempts > 0 { self.metrics.lookupRetries.increment() }
            attempts += 1
            return try await self.lookup.find(batch)
        }
        self.metrics.lookedUp(batch.records.lazy.map(\.epochMilliseconds))
        self.notify(outcome, of: batch, numbers)
    }

    /// Passes the devices found to the scheduler, and parks what must be looked up again.
    private func notify(_ outcome: PushLookup.Outcome, of batch: PushBatch, _ numbers: [Int32]) {
        self.metrics.devicesSkipped.increment(by: outcome.skipped)
        self.metrics.recordsUnreadable.increment(by: outcome.damaged.count)
        for error in outcome.damaged { self.log.warn("stored order is damaged; its devices are not notified", error) }
        var (batch, numbers, outcome) = (batch, numbers, outcome)
        let late = self.registrationShare.withLock { $0.admit(&outcome, now: .now) }
        if let late {
            self.metrics.registrationsLimited.increment(by: late.keys.count)
            self.park(batch.setAside { late.keys.contains($0) }, &numbers, due: .now + late.wait)
        }
        if let failure = outcome.failure {
            self.metrics.lookupRetries.increment()
            self.log.warn("lookup failed; the affected orders are retried separately", failure)
        }
        let waiting = outcome.failed.union(outcome.unsettled)
        if !waiting.isEmpty {
            self.park(batch.setAside { waiting.contains($0) }, &numbers, due: .now + Self.retryPause)
        }
        self.scheduler.add(outcome.found, numbers)
    }
}

/// Limits the notifications that registrations cause, for each order: a device's own limit goes by its push token, of
/// which a client may send another with each registration.
///
/// A value without a clock, bounded as `HourlyLimit`.
struct RegistrationShare: Sendable {
    private var limit: HourlyLimit

    /// - Parameter now: earlier than all later times.
    init(_ limits: PushLimits, now: MonotonicTime) {
        self.limit = HourlyLimit(perHour: limits.registrationLimit, now: now)
    }

    /// Moves the devices that registered to `found`, as far as their orders' shares allow.
    ///
    /// - Returns: those that must wait, and how long; nil: none.
    mutating func admit(
        _ outcome: inout PushLookup.Outcome, now: MonotonicTime
    ) -> (keys: Set<PendingPushKey>, wait: Duration)? {
        var waiting: Set<PendingPushKey> = []
        var longest = Duration.zero
        for one in outcome.registered {
            if let wait = self.limit.acquire(one.key.order, now: now) {
                waiting.insert(PendingPushKey(one.key))
                longest = max(longest, wait)
            } else {
                outcome.found.append(one)
            }
        }
        outcome.registered = []
        return waiting.isEmpty ? nil : (waiting, longest)
    }
}
