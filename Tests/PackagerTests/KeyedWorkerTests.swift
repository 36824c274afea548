import Kafka
import Logging
import NIOPosix
import ServiceLifecycle
import ServiceLifecycleTestKit
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Operations
@testable import Packager

/// The loop on the embedded broker. Each test waits 3 s for its first rebalance; they do so at the same time.
@Suite(.server, .timeLimit(.minutes(2))) struct KeyedWorkerTests {
    /// A broker, a worker's environment, and what the worker did.
    final class Fixture: Sendable {
        let broker: KafkaBroker
        let topic = "waybill.order-changes"
        let directory: TemporaryDirectory
        /// The finished offsets by key, in order.
        let done = Mutex<[String: [Int64]]>([:])
        let batches = Mutex<[Int]>([])
        let lines = Mutex<[String]>([])

        init(partitions: Int = 1) throws {
            self.broker = try KafkaBroker(topics: [.init("waybill.order-changes", partitions: partitions)])
            self.directory = try TemporaryDirectory("keyed-worker")
        }

        /// Makes the environment of one process.
        func environment(
            _ properties: [String: String] = [:], instance: String? = nil, ledger: CommitWitness.Member? = nil
        ) throws -> ServiceEnvironment {
            let text = KafkaBroker.quickFile(properties)
            let settings = try Settings(environment: [
                "WAYBILL_KAFKA_BOOTSTRAP": self.broker.bootstrap,
                "WAYBILL_KAFKA_PROPERTIES": try self.directory.write("kafka.properties", text),
                "WAYBILL_GROUP_INSTANCE": instance ?? "",
            ])
            let notes = Notes(self, ledger: ledger)
            return ServiceEnvironment(
                common: try CommonSettings(settings), group: .singleton, metrics: MetricsRegistry(MetricRow.packager),
                readiness: Readiness(conditions: [WorkerCondition.joined]), logger: Logger(label: "test") { _ in notes }
            )
        }

        func fill(_ keys: [String], partition: Int32? = nil, value: Int = 1) async throws {
            let producer = try KafkaProducer(KafkaConfiguration(bootstrap: self.broker.bootstrap))
            let messages = keys.map {
                KafkaMessage(
                    topic: self.topic, partition: partition, key: Array($0.utf8),
                    value: [UInt8](repeating: 1, count: value))
            }
            for outcome in await producer.produce(messages) { _ = try outcome.get() }
            await producer.close()
        }

        func committed() async throws -> [Int32: Int64] {
            let admin = try KafkaAdmin(KafkaConfiguration(bootstrap: self.broker.bootstrap))
            let offsets = try await admin.committed(group: "g", topic: self.topic)
            await admin.close()
            return offsets
        }

        func note(_ works: [KeyedWork]) {
            self.batches.withLock { $0.append(works.count) }
            self.done.withLock { done in
                for work in works { done[work.name, default: []] += work.records.map(\.offset) }
            }
        }

        var doneCount: Int { self.done.withLock { $0.values.reduce(0) { $0 + $1.count } } }
    }

    /// A log handler that keeps warnings.
    struct Notes: LogHandler {
        let fixture: Fixture
        let ledger: CommitWitness.Member?
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.info

        init(_ fixture: Fixture, ledger: CommitWitness.Member?) {
            self.fixture = fixture
            self.ledger = ledger
        }
        subscript(metadataKey key: String) -> Logger.MetadataValue? {
            get { self.metadata[key] }
            set { self.metadata[key] = newValue }
        }
        func log(event: LogEvent) {
            if let kind = event.metadata?["kind"], let text = event.metadata?["text"] {
                self.ledger?.told("\(kind)", "\(text)")
            }
            if event.level >= .warning { self.fixture.lines.withLock { $0.append("\(event.message)") } }
        }
    }

    static let limits = KeyQueue.Limits(records: 5000, bytes: 4 << 20, batchKeys: 64, batchBytes: 1 << 20)

    func worker(
        _ fixture: Fixture, _ environment: ServiceEnvironment, limits: KeyQueue.Limits = Self.limits,
        groups: @escaping @Sendable () -> [KeyGroup] = { [] },
        onCommit: (@Sendable (KafkaConsumer.CommitMoment) -> Void)? = nil,
        _ process: @escaping @Sendable ([KeyedWork]) async -> [KeyedWork.Outcome]
    ) throws -> KeyedWorker {
        try KeyedWorker(
            group: "g", topics: [fixture.topic], environment: environment, limits: limits, groups: groups,
            random: { $0.lowerBound }, onCommit: onCommit, process: { works, _ in await process(works) }, onStopped: {})
    }

    /// Runs workers until `body` returns, then stops them gracefully and waits for their end.
    func run(_ workers: [KeyedWorker], _ body: @escaping @Sendable () async throws -> Void) async throws {
        try await testGracefulShutdown { trigger in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for worker in workers { group.addTask { try await worker.run() } }
                group.addTask {
                    defer { trigger.triggerGracefulShutdown() }
                    try await body()
                }
                try await group.waitForAll()
            }
        }
    }

    @Test func aPoisonedKeyIsParkedAndDelaysNoOtherKeyOfItsPartition() async throws {
        let fixture = try Fixture()
        let environment = try fixture.environment()
        try await fixture.fill(["first", "poison"] + (0..<1000).map { "k\($0)" })
        let tries = Atomic(0)
        let worker = try self.worker(fixture, environment) { works in
            fixture.note(works.filter { $0.name != "poison" })
            return works.map { work in
                guard work.name == "poison" else { return .done }
                tries.wrappingAdd(1, ordering: .relaxed)
                return .later(reason: "poison")
            }
        }
        try await self.run([worker]) {
            try await eventually("the others") { fixture.doneCount == 1001 }
            try await eventually("tried again") { tries.load(ordering: .relaxed) >= 4 }
            #expect(try await fixture.committed() == [0: 1], "the committed offset stays in front of it")
            #expect(environment.readiness.reasons.isEmpty, "one key is no outage")
            try await eventually("metrics") {
                environment.metrics.text.contains("waybill_parked_keys 1.0")
                    && environment.metrics.text.contains("waybill_records_in_hand 1.0")
            }
        }
        #expect(try await fixture.committed() == [0: 1], "nor does the end commit it")
        #expect(fixture.lines.withLock { $0.count { $0 == "keys are waiting for a retry" } } == 1)
    }

    @Test func whatIsLeftToDoIsNotTheLagOfTheGroup() async throws {
        let fixture = try Fixture()
        let environment = try fixture.environment()
        try await fixture.fill(["poison"] + (0..<10_000).map { "k\($0)" })
        let isWell = Atomic(false)
        let worker = try self.worker(fixture, environment) { works in
            fixture.note(works.filter { $0.name != "poison" })
            return works.map { $0.name != "poison" || isWell.load(ordering: .relaxed) ? .done : .later(reason: "x") }
        }
        @Sendable func metric(_ name: String) -> Double? {
            let series = "waybill_\(name){topic=\"\(fixture.topic)\"} "
            return environment.metrics.text.split(separator: "\n").first { $0.hasPrefix(series) }
                .flatMap { Double($0.dropFirst(series.count)) }
        }
        try await self.run([worker]) {
            try await eventually("the others") { fixture.doneCount == 10_000 }
            try await eventually("one record is work") { metric("unworked_records") == 1 }
            #expect(metric("committed_lag_records") == 10_001)
            try await eventually("its age") { metric("oldest_unfinished_seconds") ?? 0 > 0 }
            isWell.store(true, ordering: .relaxed)
            try await eventually("nothing is left", within: .seconds(60)) {
                metric("unworked_records") == 0 && metric("committed_lag_records") == 0
                    && metric("oldest_unfinished_seconds") == 0
            }
        }
        #expect(environment.metrics.text.contains("waybill_rebalances_total{kind=\"assigned\"} 1\n"))
        #expect(environment.metrics.undescribed == [])
    }

    @Test func anOutageBoundsRecordsInFlightAndLosesNone() async throws {
        let fixture = try Fixture(partitions: 4)
        let environment = try fixture.environment()
        try await fixture.fill((0..<4000).map { "k\($0)" }, value: 300)
        let isWell = Atomic(false)
        let limits = KeyQueue.Limits(records: 500, bytes: 100_000, batchKeys: 64, batchBytes: 1 << 20)
        let most = Mutex((records: 0, bytes: 0))
        let held = Mutex<[String: Int]>([:])
        let worker = try self.worker(fixture, environment, limits: limits) { works in
            held.withLock { held in
                for record in works.flatMap(\.records) { held["\(record.partition)/\(record.offset)"] = record.size }
                most.withLock { $0 = (held.count, held.values.reduce(0, +)) }
            }
            guard isWell.load(ordering: .relaxed) else { return works.map { _ in .later(reason: "Redis is away") } }
            fixture.note(works)
            held.withLock { held in
                for record in works.flatMap(\.records) { held["\(record.partition)/\(record.offset)"] = nil }
            }
            return works.map { _ in .done }
        }
        try await self.run([worker]) {
            try await eventually("said") { environment.readiness.remarks.contains("upstreams: Redis is away") }
            #expect(environment.readiness.reasons.isEmpty, "another worker could do no more")
            let now = most.withLock { $0 }
            // The last admitted record may exceed the byte limit.
            #expect(now.records <= 500)
            #expect(now.records > 100)
            #expect(now.bytes <= 100_000 + 1000)
            #expect(try await fixture.committed().isEmpty)
            #expect(fixture.lines.withLock { $0.count { $0 == "keys are waiting for a retry" } } == 1)
            isWell.store(true, ordering: .relaxed)
            try await eventually("all done") { fixture.doneCount == 4000 }
            try await eventually("committed") { try await fixture.committed().values.reduce(0, +) == 4000 }
            #expect(environment.readiness.remarks.isEmpty)
        }
    }

    @Test func aBatchThatDoesNotEndStandsStill() async throws {
        let fixture = try Fixture()
        let environment = try fixture.environment()
        try await fixture.fill(["k"])
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let worker = try self.worker(fixture, environment) { works in
            for await _ in gate {}
            fixture.note(works)
            return works.map { _ in .done }
        }
        @Sendable func isNamed(after time: Duration) -> Bool {
            environment.liveness.faults(now: .now + time).contains { $0.hasPrefix("batch of changes: has not moved") }
        }
        try await self.run([worker]) {
            try await eventually("named") { isNamed(after: .seconds(600)) }
            #expect(!isNamed(after: environment.common.shutdownLimit), "it may wait for an upstream")
            open.finish()
            try await eventually("done") { fixture.doneCount == 1 && !isNamed(after: .seconds(600)) }
        }
    }

    @Test func aShutdownUnderLoadCommitsOnlyFinishedRecords() async throws {
        let fixture = try Fixture(partitions: 2)
        let environment = try fixture.environment()
        try await fixture.fill((0..<3000).map { "k\($0 % 2900)" })
        let begun = Atomic(0)
        let ended = Atomic(0)
        let worker = try self.worker(fixture, environment) { works in
            begun.wrappingAdd(1, ordering: .relaxed)
            try? await Task.sleep(for: .milliseconds(100))
            fixture.note(works)
            ended.wrappingAdd(1, ordering: .relaxed)
            return works.map { _ in .done }
        }
        let start = Mutex(ContinuousClock.now)
        try await self.run([worker]) {
            try await eventually("some done") { ended.load(ordering: .relaxed) >= 2 }
            start.withLock { $0 = .now }
        }
        #expect(start.withLock { ContinuousClock.now - $0 } < .seconds(15))
        #expect(begun.load(ordering: .relaxed) == ended.load(ordering: .relaxed), "what was in work is finished")
        #expect(fixture.doneCount < 3000)
        let before = fixture.doneCount
        // The next worker does the rest. Work done out of order may be repeated, but nothing is left out.
        let next = try self.worker(fixture, try fixture.environment()) { works in
            fixture.note(works)
            return works.map { _ in .done }
        }
        try await self.run([next]) {
            try await eventually("all committed") { try await fixture.committed().values.reduce(0, +) == 3000 }
        }
        #expect(before > 0)
        #expect(Set(fixture.done.withLock { $0.values.joined() }.map { $0 }).count > 0)
        #expect(fixture.doneCount >= 3000)
    }

    @Test func rebalancesBetweenTwoWorkersKeepTheOrderOfEachKey() async throws {
        let fixture = try Fixture(partitions: 4)
        let keys = (0..<40).map { "k\($0)" }
        let works: @Sendable ([KeyedWork]) async -> [KeyedWork.Outcome] = { works in
            try? await Task.sleep(for: .milliseconds(Int.random(in: 1...20)))
            fixture.note(works)
            return works.map { _ in .done }
        }
        let witness = CommitWitness()
        let members = [witness.member(0), witness.member(1)]
        let first = try self.worker(
            fixture, try fixture.environment(ledger: members[0]), onCommit: members[0].onCommit, works)
        let second = try self.worker(
            fixture, try fixture.environment(ledger: members[1]), onCommit: members[1].onCommit, works)
        let counter = Mutex(0)
        try await self.run([first]) {
            // The second worker joins and leaves while changes keep arriving.
            let isOver = Flag()
            async let visit: Void = {
                defer { isOver.set() }
                try await eventually("begun") { fixture.doneCount > 0 }
                try await self.run([second]) {
                    try await eventually("the second worker commits") { witness.count(of: 1) > 1 }
                }
            }()
            var highest: [Int32: Int64] = [:]
            while counter.withLock({ $0 }) < 60 || !isOver.isSet {
                try await fixture.fill(keys)
                counter.withLock { $0 += 1 }
                for (partition, offset) in try await fixture.committed() {
                    #expect(offset >= highest[partition] ?? 0, "offsets never go back")
                    highest[partition] = offset
                }
                try await Task.sleep(for: .milliseconds(100))
            }
            try await visit
            try await eventually("all committed") {
                try await fixture.committed().values.reduce(0, +) == Int64(counter.withLock { $0 } * 40)
            }
        }
        let rounds = counter.withLock { $0 }
        #expect(witness.faults.isEmpty)
        #expect(witness.count(of: 0) > 0)
        #expect(witness.count(of: 1) > 0)
        for (key, offsets) in fixture.done.withLock({ $0 }) {
            // For one key, the first processing of each record is in order; repetitions may follow.
            var seen: Set<Int64> = []
            let firsts = offsets.filter { seen.insert($0).inserted }
            #expect(firsts == firsts.sorted(), "\(key)")
            #expect(firsts.count == rounds, "\(key)")
        }
    }

    @Test func aBrokerOutageUnderLoadLosesNoRecord() async throws {
        let fixture = try Fixture(partitions: 2)
        let environment = try fixture.environment(["reconnect.backoff.max.ms": "200"])
        let worker = try self.worker(fixture, environment) { works in
            fixture.note(works)
            return works.map { _ in .done }
        }
        try await self.run([worker]) {
            try await fixture.fill((0..<500).map { "k\($0 % 50)" })
            try await eventually("begun") { fixture.doneCount > 0 }
            try fixture.broker.setDown()
            try await Task.sleep(for: .milliseconds(500))
            try fixture.broker.setUp()
            // Then the coordinator fails: 16 is NOT_COORDINATOR, 27 REBALANCE_IN_PROGRESS; 8 is OffsetCommit.
            try fixture.broker.fail(apiKey: 8, with: [16, 27, 16, 27])
            try await fixture.fill((0..<500).map { "k\($0 % 50)" })
            try await eventually("all committed") { try await fixture.committed().values.reduce(0, +) == 1000 }
        }
        #expect(fixture.done.withLock { Set($0.keys).count } == 50)
    }

    @Test func aFencedMemberFailsWithAFatalError() async throws {
        let fixture = try Fixture()
        let environment = try fixture.environment(instance: "pod-0")
        // 82 is FENCED_INSTANCE_ID, 11 is JoinGroup. Source: Kafka protocol, error codes and API keys
        // First, since a worker joins as soon as it is made.
        try fixture.broker.fail(apiKey: 11, with: [82])
        let worker = try self.worker(fixture, environment) { works in works.map { _ in .done } }
        let error = await #expect(throws: KafkaError.self) { try await worker.run() }
        #expect(error?.isFatal == true)
        #expect(error?.code == .fenced)
    }
}

extension KeyedWork {
    var name: String { String(decoding: self.key ?? [], as: UTF8.self) }
}
