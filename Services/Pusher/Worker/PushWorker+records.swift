import CoreMetrics
import FoundationEssentials
import Kafka
import Logging
import Model
import Operations
import Store
import Synchronization

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
        var attempt = 0
        while true {
            do {
                self.notified.learn(try await self.positions.all())
                if attempt > 0 { self.log.isBack(.lookups) }
                return
            } catch {
                try Task.checkCancellation()
                attempt += 1
                self.log.isAway(.lookups, "\(error)")
                try await Task.sleep(for: backoff(attempt: attempt, random: self.random))
            }
        }
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

    // MARK: fetching

    /// Fetches records while there is room for them.
    ///
    /// - Throws: `CancellationError` or `KafkaError` with code `.cancelled` on graceful shutdown; another error if the
    ///   consumer cannot continue.
    func fetch() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            var underWay = 0
            defer { self.heartbeat.end() }
            while true {
                self.heartbeat.beat()
                let room = min(self.scheduler.intake.room, self.parking.room, self.mostRecords)
                guard room > 0 else {
                    try await Task.sleep(for: .milliseconds(5))
                    continue
                }
                let came = try await self.consumer.nextBatch(
                    records: room, bytes: Self.batchBytes, wait: .milliseconds(500))
                if came.isEmpty { continue }
                let (again, records) = self.notified.sift(came)
                if !again.isEmpty {
                    self.metrics.recordsAgain.increment(by: again.count)
                    self.consumer.finished(again)
                }
                if records.isEmpty { continue }
                guard let (batch, numbers) = self.admit(records) else { continue }
                if underWay == Self.lookups {
                    try await group.next()
                    underWay -= 1
                }
                group.addTask { try await self.lookUp(batch, numbers) }
                underWay += 1
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
        var numbers = self.scheduler.receive(batch.records)
        let aside = self.parking.setAside(&batch, of: self.scheduler.intake.parked)
        if !aside.isEmpty { self.park(aside, &numbers) }
        guard batch.isEmpty else { return (batch, numbers) }
        self.dispatcher.add([], numbers)
        return nil
    }

    /// Parks records that the scheduler has numbers for.
    ///
    /// - Parameters:
    ///   - numbers: those of the batch's records; those of parked records become -1.
    ///   - due: the time from which they may be looked up; nil: as soon as there is room.
    private func park(
        _ aside: [(push: ParkedPush, records: [Int])], _ numbers: inout [Int32], due: ContinuousClock.Instant? = nil
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
            let types = self.parking.types
            if !types.isEmpty {
                let room = min(self.scheduler.intake.room, self.mostRecords)
                let pushes = self.parking.take(self.scheduler.openings(types), records: room, now: .now)
                if !pushes.isEmpty {
                    let batch = PushBatch(pushes)
                    try await self.lookUp(batch, self.scheduler.receive(batch.records))
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
        var attempt = 0
        while true {
            self.heartbeat.beat()
            do {
                let looked = try await self.lookup.look(batch)
                if attempt > 0 { self.log.isBack(.lookups) }
                return self.tell(looked, of: batch, numbers)
            } catch {
                try Task.checkCancellation()
                attempt += 1
                self.metrics.lookupRetries.increment()
                self.log.isAway(.lookups, "\(error)")
                try await Task.sleep(for: backoff(attempt: attempt, random: self.random))
            }
        }
    }

    /// Passes the devices found to the scheduler, and parks what must be looked up again.
    private func tell(_ looked: PushLookup.Looked, of batch: PushBatch, _ numbers: [Int32]) {
        self.metrics.devicesUntold.increment(by: looked.untold)
        self.metrics.recordsUnreadable.increment(by: looked.damaged.count)
        for error in looked.damaged { self.log.warn("stored order is damaged; its devices are not notified", error) }
        var (batch, numbers, looked) = (batch, numbers, looked)
        let late = self.registrationShare.withLock { $0.admit(&looked, now: .now) }
        if let late {
            self.metrics.registrationsLimited.increment(by: late.keys.count)
            self.park(batch.setAside { late.keys.contains($0) }, &numbers, due: .now + late.wait)
        }
        if let failure = looked.failure {
            self.metrics.lookupRetries.increment()
            self.log.warn("lookup failed; the affected orders are retried separately", failure)
        }
        let waiting = looked.failed.union(looked.unsettled)
        if !waiting.isEmpty {
            self.park(batch.setAside { waiting.contains($0) }, &numbers, due: .now + Self.retryPause)
        }
        self.dispatcher.add(looked.found, numbers)
    }
}
