import APNS
import Brands
import Kafka
import Logging
import Model
import NIOPosix
import Operations
import Store
import Synchronization
import TestKit

@testable import Pusher

/// A running scheduler on a fixture's servers without a consumer: the test adds records to it.
final class PushTable: Sendable {
    let scheduler: PushScheduler
    let metrics: PusherMetrics
    private let lookup: PushLookup
    private let topics: Topics
    private let done: Done

    /// Receipts of finished records.
    private final class Done: Sendable {
        let receipts = Mutex<[KafkaReceipt]>([])
    }

    private init(
        _ fixture: PusherFixture, limits: PushLimits, view: MaterializedView?,
        clock: @escaping @Sendable () -> MonotonicTime, now: @escaping @Sendable () -> Int64
    ) {
        let done = Done()
        self.done = done
        self.topics = fixture.topics
        self.metrics = PusherMetrics(factory: fixture.metrics, host: fixture.host)
        self.lookup = PushLookup(registrations: fixture.registrations, view: view)
        self.scheduler = PushScheduler(
            limits: limits, pendingTopic: fixture.topics.pushPending, clock: clock, wallClock: now, random: { 0 })
        self.scheduler.whenFinished { receipts in done.receipts.withLock { $0 += receipts } }
    }

    /// Works until `body` returns.
    ///
    /// - Parameters:
    ///   - now: milliseconds since 1970.
    static func run(
        _ fixture: PusherFixture, limits: (inout PushLimits) -> Void = { _ in }, view: MaterializedView? = nil,
        client kind: PusherFixture.ClientKind = .quick,
        clock: @escaping @Sendable () -> MonotonicTime = { .now },
        now: @escaping @Sendable () -> Int64 = { PusherFixture.noon * 1000 },
        _ body: @Sendable (PushTable) async throws -> Void
    ) async throws {
        var set = PushLimits()
        set.window = .zero
        // Nothing reads the pending topic here.
        (set.parkedHold, set.schedulerHold) = (.seconds(3600), .seconds(3600))
        limits(&set)
        let table = PushTable(fixture, limits: set, view: view, clock: clock, now: now)
        let type = try OrderTypeIdentifier(PusherBrandFixture.orderType)
        let client = try fixture.client(kind) { [scheduler = table.scheduler] in
            scheduler.receive($0, of: type, generation: 1)
        }
        _ = table.scheduler.install(type, PushScheduler.Sender(client: client, generation: 1, options: .init()))
        let followUps = FollowUps(
            scheduler: table.scheduler,
            retirement: TokenInvalidation(
                topics: fixture.topics, registrations: fixture.registrations, view: view.map { ViewEpochCache($0) },
                producer: fixture.producer),
            topics: fixture.topics, producer: fixture.producer, metrics: table.metrics,
            log: PusherLog(
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, readiness: Readiness(conditions: [])),
            random: { _ in 0.01 })
        let result = await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 { group.addTask { await followUps.work() } }
            group.addTask {
                while !Task.isCancelled {
                    table.scheduler.advance()
                    table.count()
                    try? await Task.sleep(for: .milliseconds(2))
                }
            }
            let result: Result<Void, any Error>
            do { result = .success(try await body(table)) } catch { result = .failure(error) }
            table.scheduler.stop()
            await client.close()
            table.scheduler.followUps.end()
            group.cancelAll()
            return result
        }
        _ = table.scheduler.removeAll()
        table.count()
        try result.get()
    }

    /// Adds records to a scheduler of their own and waits until all are done.
    static func process(_ fixture: PusherFixture, _ records: [KafkaRecord]) async throws {
        try await self.run(fixture) { try await $0.process(records) }
    }

    /// Adds records to the scheduler.
    ///
    /// - Throws: `StoreError` if no lookup was possible; they then stay open.
    func put(_ records: [KafkaRecord]) async throws {
        let batch = PushBatch(records, topics: self.topics)
        let outcome = try await self.lookup.find(batch)
        if let failure = outcome.failure { throw failure }
        self.scheduler.add(
            outcome.found + outcome.registered, self.scheduler.receive(batch.records, traces: batch.traces))
    }

    /// Adds records to the scheduler and waits until all are done.
    func process(_ records: [KafkaRecord]) async throws {
        let before = self.done.receipts.withLock { $0.count }
        try await self.put(records)
        try await eventually("\(records.count) records done") {
            self.done.receipts.withLock { $0.count } >= before + records.count
        }
    }

    private func count() {
        for (type, counts) in self.scheduler.takeTallies() {
            (type.map { self.metrics[$0.rawValue] } ?? self.metrics.unknownTypes).count(counts)
        }
    }

    /// The number of finished records.
    var doneCount: Int { self.done.receipts.withLock { $0.count } }
}
