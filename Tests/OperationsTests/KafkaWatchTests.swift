import Kafka
import Logging
import NIOPosix
import ServiceLifecycleTestKit
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Operations

/// Readiness and the log follow the topics of a scripted server.
@Suite(.server, .timeLimit(.minutes(1))) struct KafkaWatchTests {
    private struct Journal: LogHandler {
        private final class Lines: Sendable { let all = Mutex<[String]>([]) }

        private let kept = Lines()
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.info
        var lines: [String] { self.kept.all.withLock { $0 } }
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { self.metadata[key] }
            set { self.metadata[key] = newValue }
        }
        func log(event: LogEvent) {
            self.kept.all.withLock { $0.append("\(event.level) \(event.message) \(event.metadata ?? [:])") }
        }
    }

    private static let need = KafkaTopicNeed("orders", isRead: true, isWritten: true, isCompacted: true)
    private static let good = ScriptedKafka.Topic(settings: ["cleanup.policy": "compact", "min.insync.replicas": "2"])

    private static func environment(_ bootstrap: String, _ journal: Journal = Journal()) throws -> ServiceEnvironment {
        ServiceEnvironment(
            common: try CommonSettings(Settings(environment: ["WAYBILL_KAFKA_BOOTSTRAP": bootstrap])),
            group: .singleton, metrics: MetricsRegistry(), readiness: Readiness(conditions: [KafkaWatch.condition]),
            logger: Logger(label: "test") { _ in journal })
    }

    /// Watches until `body` returns.
    private static func watching(
        _ environment: ServiceEnvironment, _ dependence: KafkaReadiness.Dependence = .whole,
        _ body: @escaping @Sendable () async throws -> Void
    ) async throws {
        let watch = KafkaWatch(needs: [Self.need], dependence: dependence, environment: environment)
        try await testGracefulShutdown { trigger in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await watch.run() }
                try await body()
                trigger.triggerGracefulShutdown()
                try await group.waitForAll()
            }
        }
    }

    @Test func aMissingTopicIsReportedUntilItExists() async throws {
        let server = try await ScriptedKafka.start([:])
        let journal = Journal()
        let environment = try Self.environment(server.bootstrap, journal)
        try await Self.watching(environment) {
            try await eventually("the watch sees it") {
                environment.readiness.reasons == ["kafka: topic orders does not exist: create it"]
            }
            try server.tell(["orders": Self.good])
            try await eventually("the watch sees it") { environment.readiness.reasons.isEmpty }
            let faults = journal.lines.filter { $0.hasPrefix("error Kafka topic needs attention") }
            #expect(faults.count == 1, "\(journal.lines)")
        }
        await server.stop()
    }

    @Test(arguments: [KafkaReadiness.Dependence.whole, .part])
    func aTopicThatIsNotCompactedStopsTheStart(dependence: KafkaReadiness.Dependence) async throws {
        let server = try await ScriptedKafka.start(["orders": .init(settings: ["cleanup.policy": "delete"])])
        let watch = KafkaWatch(
            needs: [Self.need], dependence: dependence, environment: try Self.environment(server.bootstrap))
        let error = await #expect(throws: KafkaFaultError.self) { try await watch.run() }
        #expect("\(error.map { "\($0)" } ?? "")".contains("--add-config cleanup.policy=compact"))
        await server.stop()
    }

    @Test func unavailableTopicSettingsAreLoggedOnceAndNotChecked() async throws {
        let server = try await ScriptedKafka.start(["orders": .init()])
        let journal = Journal()
        let environment = try Self.environment(server.bootstrap, journal)
        try await Self.watching(environment) {
            try await eventually("the watch sees it") { environment.readiness.reasons.isEmpty }
            #expect(journal.lines.filter { $0.contains("DescribeConfigs") }.count == 1, "\(journal.lines)")
        }
        await server.stop()
    }

    /// A refusal that a producer or a consumer of the process receives counts as well.
    @Test func aRefusedProducerIsReportedInReadinessAndOneLogLine() async throws {
        let broker = try KafkaBroker(topics: [.init("orders", partitions: 1)])
        try broker.fail(apiKey: 22, with: Array(repeating: 31, count: 500))
        let journal = Journal()
        let environment = try Self.environment(broker.bootstrap, journal)
        try await Self.watching(environment) {
            let producer = try KafkaProducer(environment.kafka, topics: ["orders"])
            try await eventually("the watch sees it") {
                environment.readiness.reasons.contains { $0.contains("grant Write on topic orders") }
            }
            // Long enough for several tries.
            try await Task.sleep(for: .seconds(2))
            let told = journal.lines.filter { $0.contains("denied") || $0.contains("PID") }
            #expect(told.count == 1, "\(told)")
            #expect(told.first?.contains("\"action\": ") == true)
            await producer.close()
        }
    }
}
