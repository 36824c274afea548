import CoreMetrics
import DequeModule
import Kafka
import Model
import Operations
import Synchronization

/// Writes keys that wait for more than a few seconds to the pending topic, reads waiting keys from it, and writes
/// tombstones for those that were notified.
///
/// A separate group reads the topic, so that it can read more slowly.
/// Owner: the worker. Thread: any. Bounded: by `Parking`, and the tombstones by the scheduler.
final class PendingPushes: Sendable {
    /// The time between two searches for keys that have waited too long.
    static let pause = Duration.milliseconds(250)
    /// Most records that are read, or tombstones that are written, in one batch.
    static let batchRecords = 1000
    /// Most overdue keys that are written in one batch: many, since the producer sends them all before the first is
    /// acknowledged.
    static let batchOverdue = 2000

    private let parking: PushParking
    private let scheduler: PushScheduler
    private let topic: String
    let consumer: KafkaConsumer
    private let kafka: KafkaConfiguration
    private let others: KafkaConsumer
    private let producer: KafkaProducer
    private let metrics: PusherMetrics
    private let log: PusherLog
    private let hold: Duration
    private let wallClock: @Sendable () -> Int64
    /// Records that are done, and whose tombstones must be written.
    private let notified = Mutex<Deque<(key: PendingPushKey, receipt: KafkaReceipt)>>([])

    /// - Parameters:
    ///   - consumer: that of the pending topic, made by `consumer`.
    ///   - kafka: the cluster.
    ///   - others: that of the other topics.
    ///   - wallClock: milliseconds since 1970.
    init(
        parking: PushParking, scheduler: PushScheduler, topic: String, consumer: KafkaConsumer,
        kafka: KafkaConfiguration, others: KafkaConsumer, producer: KafkaProducer, metrics: PusherMetrics,
        log: PusherLog, limits: PushLimits,
        wallClock: @escaping @Sendable () -> Int64
    ) {
        self.parking = parking
        self.scheduler = scheduler
        self.topic = topic
        self.consumer = consumer
        self.kafka = kafka
        self.others = others
        self.producer = producer
        self.metrics = metrics
        self.log = log
        self.hold = limits.parkedHold
        self.wallClock = wallClock
    }

    /// Joins the group of the readers of the pending topic.
    ///
    /// - Parameters:
    ///   - instance: the name of this member for static membership, which outlives restarts; nil: a dynamic member.
    ///   - onLeaving: returns the records of revoked partitions that are dropped.
    /// - Throws: `KafkaError`, if the consumer cannot be made.
    static func consumer(
        _ kafka: KafkaConfiguration, group: String, topic: String, instance: String?,
        onLeaving: @escaping @Sendable (Set<KafkaPartition>) -> [KafkaReceipt]
    ) throws(KafkaError) -> KafkaConsumer {
        var configuration = kafka
        // No device waits for these records: fewer fetches, less read-ahead.
        let slower = ["fetch.wait.max.ms": "100", "queued.max.messages.kbytes": "1024"]
        configuration.properties.merge(slower) { given, _ in given }
        return try KafkaConsumer(
            configuration, group: group, topics: [topic], instance: instance, onLeaving: onLeaving)
    }

    /// Parks records of any topic.
    ///
    /// - Parameter due: the time from which they may be looked up; nil: as soon as there is room.
    func park(_ pushes: [ParkedPush], due: MonotonicTime? = nil) {
        self.consumer.finished(self.parking.park(pushes, due: due))
    }

    // MARK: finished records

    /// Processes finished records of any topic; does not block.
    func finished(_ receipts: [KafkaReceipt]) {
        guard self.parking.with({ $0.hasTaken }) else { return self.others.finished(receipts) }
        var (others, replaced): ([KafkaReceipt], [KafkaReceipt]) = ([], [])
        for receipt in receipts {
            guard receipt.topic == self.topic else {
                others.append(receipt)
                continue
            }
            if let (key, isReplaced) = self.parking.with({ $0.finish(receipt) }), !isReplaced {
                self.notified.withLock { $0.append((key, receipt)) }
            } else {
                replaced.append(receipt)
            }
        }
        if !others.isEmpty { self.others.finished(others) }
        self.consumer.finished(replaced)
    }

    /// The number of tombstones that must be written.
    var openTombstones: Int { self.notified.withLock { $0.count } }

    /// Writes tombstones for the notified keys until the task is cancelled.
    func writeTombstones() async {
        var attempt = 0
        while !Task.isCancelled {
            let batch = self.notified.withLock { Array($0.prefix(Self.batchRecords)) }
            if batch.isEmpty {
                attempt = await self.rest(after: nil, attempt: attempt)
                try? await Task.sleep(for: Self.pause)
                continue
            }
            let outcomes = await self.producer.produce(batch.map { self.tombstone($0.key, $0.receipt) })
            var (done, failed): ([KafkaReceipt], [(key: PendingPushKey, receipt: KafkaReceipt)]) = ([], [])
            var failure: KafkaError?
            for (one, outcome) in zip(batch, outcomes) {
                switch outcome {
                case .success: done.append(one.receipt)
                case .failure(let error):
                    failed.append(one)
                    failure = error
                }
            }
            self.notified.withLock { notified in
                notified.removeFirst(batch.count)
                notified.prepend(contentsOf: failed)
            }
            self.consumer.finished(done)
            self.metrics.pendingCompleted.increment(by: done.count)
            attempt = await self.rest(after: failure, attempt: attempt)
        }
    }

    private func tombstone(_ key: PendingPushKey, _ receipt: KafkaReceipt) -> KafkaMessage {
        KafkaMessage(
            topic: self.topic, partition: receipt.partition, key: Array(key.text.utf8), value: nil,
            headers: [KafkaHeader(.completed, text: "\(receipt.offset)")])
    }

    // MARK: overdue keys

    /// Writes overdue keys until the task is cancelled; finishes changes that are too old without a notification.
    func write() async throws {
        var attempt = 0
        while true {
            let moment = self.scheduler.staleBefore
            let stale = self.parking.with { $0.takeStale(before: moment) }.flatMap(\.receipts)
            self.metrics.recordsStale.increment(by: stale.count)
            if !stale.isEmpty { self.finished(stale) }
            let (now, hold) = (MonotonicTime.now, self.hold)
            let batch = self.parking.with {
                $0.takeOverdue(since: $0.isCrowded ? now : now - hold, most: Self.batchOverdue)
            }
            if batch.isEmpty {
                attempt = await self.rest(after: nil, attempt: attempt)
                try await Task.sleep(for: Self.pause)
                continue
            }
            let milliseconds = self.wallClock()
            let outcomes = await self.producer.produce(
                batch.map { $0.message(self.topic, nowEpochMilliseconds: milliseconds) })
            var written: [Bool] = []
            var failure: KafkaError?
            for outcome in outcomes {
                switch outcome {
                case .success: written.append(true)
                case .failure(let error):
                    written.append(false)
                    failure = error
                }
            }
            let done = self.parking.with { [written] parking in
                zip(batch, written).flatMap { parking.written($0.key, $1, now: .now) }
            }
            self.others.finished(done)
            self.metrics.pendingWritten.increment(by: written.count { $0 })
            attempt = await self.rest(after: failure, attempt: attempt)
            try Task.checkCancellation()
        }
    }

    /// Reports a failure and pauses after it, or reports that there is none any more.
    ///
    /// - Returns: the number of attempts that failed in a row.
    private func rest(after failure: KafkaError?, attempt: Int) async -> Int {
        guard let failure else {
            if attempt > 0 { self.log.isBack(.pending) }
            return 0
        }
        self.log.isAway(.pending, failure.message)
        try? await Task.sleep(for: backoff(attempt: attempt + 1) { Double.random(in: $0) })
        return attempt + 1
    }

    // MARK: reading

    /// Reads the topic while there is room, until the task is cancelled.
    ///
    /// - Throws: the errors of `KafkaConsumer.nextBatch`.
    func read() async throws {
        while true {
            let room = min(self.parking.with { $0.pendingRoom }, Self.batchRecords)
            if room > 0 {
                let records = try await self.consumer.nextBatch(
                    records: room, bytes: 1 << 20, wait: .milliseconds(500))
                if !records.isEmpty { try await self.receive(records) }
            } else {
                try await Task.sleep(for: Self.pause)
            }
            self.parking.with { $0.endQuietFolds(now: .now) }
        }
    }

    /// Commits and leaves the group.
    func close() async {
        try? await self.consumer.commit()
        await self.consumer.close()
    }

    private func receive(_ records: [KafkaRecord]) async throws {
        let partitions = Set(records.map(\.partition))
        let fresh = self.parking.with { parking in partitions.filter { !parking.folds.isKnown($0) } }
        if !fresh.isEmpty { try await self.begin(fresh) }
        var (pushes, done): ([ParkedPush], [KafkaReceipt]) = ([], [])
        for record in records {
            switch PendingReading(record) {
            case .waits(let push): pushes.append(push)
            case .notified(let key, let offset):
                // Earlier records of this batch must be parked first.
                done += self.parking.park(pushes)
                pushes = []
                let notified = self.parking.with { $0.notified(key, partition: record.partition, through: offset) }
                if let notified { done.append(notified) }
                done.append(record.receipt)
            case .unreadable(let reason):
                self.log.unreadable(origin: record.receipt.origin, reason: reason)
                done.append(record.receipt)
            }
        }
        done += self.parking.park(pushes)
        self.parking.with { parking in
            for record in records { parking.advanceFold(record.partition, to: record.offset + 1, now: .now) }
        }
        self.consumer.finished(done)
    }

    /// Queries the ends of newly assigned partitions, up to which they are read first.
    private func begin(_ partitions: Set<Int32>) async throws {
        var attempt = 0
        while true {
            do {
                let bounds = try await self.bounds()
                self.parking.with { parking in
                    for one in bounds where partitions.contains(one.partition) {
                        parking.beginFold(one.partition, to: one.end, now: .now)
                    }
                }
                break
            } catch let error as KafkaError {
                try Task.checkCancellation()
                attempt = await self.rest(after: error, attempt: attempt)
            }
        }
        if attempt > 0 { self.log.isBack(.pending) }
        // A partition that was revoked meanwhile begins again when it is reassigned.
        let assigned = Set(self.consumer.assignment.map(\.partition))
        for partition in partitions.subtracting(assigned) { self.parking.with { $0.forgetFold(partition) } }
    }

    /// Returns the present bounds of each partition of the topic.
    ///
    /// - Throws: `KafkaError`, within 10 s if no broker answers.
    private func bounds() async throws -> [OffsetRange] {
        let reader = try KafkaReader(self.kafka)
        return try await withCleanup(reader.close) { try await reader.bounds(of: self.topic) }
    }
}

/// The meaning of a record of the pending topic.
enum PendingReading {
    case waits(ParkedPush)
    /// The devices of the key's records up to this offset of the partition were notified.
    case notified(PendingPushKey, through: Int64)
    case unreadable(String)

    init(_ record: KafkaRecord) {
        do {
            // A record without a key, or with one that is not text, names nothing.
            let key = try PendingPushKey(String(validating: record.key ?? [], as: UTF8.self) ?? "")
            if let value = record.value {
                let waits = try PendingPushRecord.decode(value)
                self = .waits(
                    ParkedPush(
                        key: key, receipts: [record.receipt], epochMilliseconds: waits.sinceEpochMilliseconds,
                        registeredEpochMilliseconds: waits.registeredEpochMilliseconds,
                        traces: record.traces))
            } else {
                let offset = record.headers.text(.completed).flatMap { Int64($0) }
                self = .notified(key, through: offset ?? record.offset)
            }
        } catch {
            self = .unreadable("\(error)")
        }
    }
}

extension ParkedPush {
    /// Returns the record for the pending topic.
    func message(_ topic: String, nowEpochMilliseconds now: Int64) -> KafkaMessage {
        let record = PendingPushRecord(
            sinceEpochMilliseconds: self.epochMilliseconds >= 0 ? self.epochMilliseconds : max(0, now),
            registeredEpochMilliseconds: self.registeredEpochMilliseconds)
        return KafkaMessage(
            topic: topic, key: Array(self.key.text.utf8), value: record.encoded, headers: self.traces.headers)
    }
}
