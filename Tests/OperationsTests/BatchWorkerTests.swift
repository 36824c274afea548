import Kafka
import Logging
import NIOPosix
import ServiceLifecycle
import ServiceLifecycleTestKit
import Synchronization
import TestKit
import Testing

@testable import Operations

/// Each test waits 3 s for the mock broker's first rebalance; they do so at the same time.
@Suite(.timeLimit(.minutes(2))) struct BatchWorkerTests {
    struct Refusal: Error {}

    /// A broker, a worker's environment, and what the worker saw.
    final class Bench: Sendable {
        let broker: KafkaBroker
        let topic = "waybill.order-changes"
        let environment: ServiceEnvironment
        let batches = Mutex<[[Int64]]>([])

        init() throws {
            self.broker = try KafkaBroker(topics: [.init("waybill.order-changes", partitions: 1)])
            let directory = try TemporaryDirectory("worker")
            let properties = KafkaBroker.quick.map { "\($0.key)=\($0.value)\n" }.joined()
            let settings = try Settings(environment: [
                "WAYBILL_KAFKA_BOOTSTRAP": self.broker.bootstrap,
                "WAYBILL_KAFKA_PROPERTIES": try directory.write("kafka.properties", properties),
            ])
            self.environment = ServiceEnvironment(
                common: try CommonSettings(settings), group: .singleton, metrics: MetricsRegistry(),
                readiness: Readiness(conditions: [BatchWorker.joined]),
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        }

        func fill(_ count: Int) async throws {
            let producer = try KafkaProducer(self.environment.common.kafka)
            for _ in 0..<count { _ = try await producer.produce(KafkaMessage(topic: self.topic, key: [1], value: [2])) }
            await producer.close()
        }

        func committed() async throws -> Int64? {
            let admin = try KafkaAdmin(self.environment.common.kafka)
            let offsets = try await admin.committed(group: "g", topic: self.topic)
            await admin.close()
            return offsets[0]
        }

        /// Notes a batch and says how many there were.
        func note(_ records: [KafkaRecord]) -> Int {
            self.batches.withLock {
                $0.append(records.map(\.offset))
                return $0.count
            }
        }
    }

    /// Waits for an event with a deadline.
    func eventually(_ what: String, _ condition: () async throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(30)
        while try await !condition() {
            try #require(ContinuousClock.now < deadline, "\(what)")
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    /// Runs a worker until `body` returns, then stops it gracefully and waits for its end.
    func run(
        _ worker: BatchWorker, _ body: @escaping @Sendable (GracefulShutdownTestTrigger) async throws -> Void
    ) async throws {
        try await testGracefulShutdown { trigger in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await worker.run() }
                group.addTask {
                    defer { trigger.triggerGracefulShutdown() }
                    try await body(trigger)
                }
                try await group.waitForAll()
            }
        }
    }

    @Test func aBatchWhoseWorkFailsIsGivenAgainAndNotCommitted() async throws {
        let bench = try Bench()
        try await bench.fill(3)
        let isStopped = Mutex(false)
        let isWell = Atomic(false)
        let failures = Atomic(0)
        let worker = try BatchWorker(
            group: "g", topics: [bench.topic], environment: bench.environment, random: { $0.lowerBound },
            process: { records in
                _ = bench.note(records)
                guard isWell.load(ordering: .relaxed) else {
                    failures.wrappingAdd(1, ordering: .relaxed)
                    throw Refusal()
                }
            },
            onStopped: { isStopped.withLock { $0 = true } })
        try await self.run(worker) { _ in
            try await self.eventually("three failures") { failures.load(ordering: .relaxed) >= 3 }
            #expect(bench.environment.readiness.reasons.contains { $0.hasPrefix("upstreams: ") })
            #expect(try await bench.committed() ?? -1 < 1, "nothing may be committed before it is done")
            isWell.store(true, ordering: .relaxed)
            try await self.eventually("committed") { try await bench.committed() == 3 }
            #expect(bench.environment.readiness.reasons.isEmpty)
        }
        #expect(isStopped.withLock { $0 })
        let batches = bench.batches.withLock { $0 }
        #expect(batches.count >= 4)
        #expect(Set(batches.prefix(4)).count == 1, "the same records each time: \(batches)")
        #expect(bench.environment.readiness.reasons == ["\(BatchWorker.joined): stopping"])
    }

    @Test func aGracefulShutdownFinishesTheBatchInHandAndCommitsIt() async throws {
        let bench = try Bench()
        try await bench.fill(2)
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let worker = try BatchWorker(
            group: "g", topics: [bench.topic], environment: bench.environment,
            process: { records in
                _ = bench.note(records)
                for await _ in gate { break }
                // The batch is finished as if nothing had happened.
                try Task.checkCancellation()
            },
            onStopped: {})
        try await self.run(worker) { trigger in
            try await self.eventually("a batch in hand") { bench.batches.withLock { !$0.isEmpty } }
            trigger.triggerGracefulShutdown()
            open.finish()
        }
        let seen = bench.batches.withLock { $0 }
        #expect(seen.count == 1)
        #expect(try await bench.committed() == Int64(seen[0].count))
    }

    @Test func aShutdownDoesNotWaitForAnUpstreamThatIsAway() async throws {
        let bench = try Bench()
        try await bench.fill(1)
        let worker = try BatchWorker(
            group: "g", topics: [bench.topic], environment: bench.environment, random: { $0.upperBound },
            process: { records in
                _ = bench.note(records)
                throw Refusal()
            },
            onStopped: {})
        try await self.run(worker) { _ in
            try await self.eventually("five failures") { bench.batches.withLock { $0.count >= 5 } }
        }
        #expect(try await bench.committed() ?? -1 < 1)
    }
}
