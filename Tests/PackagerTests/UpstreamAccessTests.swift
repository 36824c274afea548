import Kafka
import Logging
import NIOPosix
import Redis
import ServiceLifecycleTestKit
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Operations
@testable import Packager

/// The credentials in the settings, for Redis and for Kafka, with servers that require them.
@Suite(.timeLimit(.minutes(1))) struct UpstreamAccessTests {
    /// The lines that are logged.
    private final class Lines: Sendable {
        private let lines = Mutex<[String]>([])
        var all: [String] { self.lines.withLock { $0 } }
        func add(_ line: String) { self.lines.withLock { $0.append(line) } }
    }

    private struct Journal: LogHandler {
        let lines: Lines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace
        init(_ lines: Lines) { self.lines = lines }
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { self.metadata[key] }
            set { self.metadata[key] = newValue }
        }
        func log(event: LogEvent) { self.lines.add("\(event.level) \(event.message) \(event.metadata ?? [:])") }
    }

    @Test(.server) func aPasswordRefusedByKafkaIsReportedInLogAndReadiness() async throws {
        let server = try await KafkaAuthenticationServer.start()
        let directory = try TemporaryDirectory("access")
        let file =
            try directory
            .write("kafka.properties", server.properties(mechanism: "SCRAM-SHA-256", password: "hunter2"))
        let settings = try Settings(environment: [
            "WAYBILL_KAFKA_BOOTSTRAP": server.bootstrap, "WAYBILL_KAFKA_PROPERTIES": file,
        ])
        let lines = Lines()
        let environment = ServiceEnvironment(
            common: try CommonSettings(settings), group: .singleton, metrics: MetricsRegistry(),
            readiness: Readiness(conditions: [WorkerCondition.joined]),
            logger: Logger(label: "test") { _ in Journal(lines) })
        try await testGracefulShutdown { trigger in
            try await withThrowingTaskGroup(of: Void.self) { group in
                let worker = try KeyedWorker(
                    group: "g", topics: ["t"], environment: environment,
                    process: { works, _ in works.map { _ in .done } }, onStopped: {})
                group.addTask { try await worker.run() }
                let deadline = ContinuousClock.now + .seconds(30)
                let said = "no such user or password"
                while !environment.readiness.reasons.contains(where: { $0.contains(said) }) {
                    try #require(ContinuousClock.now < deadline, "\(environment.readiness.reasons)")
                    try await Task.sleep(for: .milliseconds(10))
                }
                let told = lines.all.filter { $0.hasPrefix("error Kafka client event") && $0.contains(said) }
                #expect(told.contains { $0.contains("sasl.*") && $0.contains(file) }, "\(told)")
                #expect(!lines.all.contains { $0.contains("hunter2") })
                #expect(!environment.readiness.reasons.contains { $0.contains("hunter2") })
                trigger.triggerGracefulShutdown()
                try await group.waitForAll()
            }
        }
        await server.stop()
    }

    @Test(.server) func theRedisClientConnectsWithTLSUserAndPasswordFile() async throws {
        let directory = try TemporaryDirectory("access")
        let certificate = try await ServerCertificate()
        let port = try ReservedPort()
        let server = try await RedisServer.startAlone(
            certificate.redisArguments(port: port.number), keeping: [port])
        try await server.command("acl", "setuser", "waybill", "on", ">hunter2", "~waybill:*", "+@all")
        var environment = [
            "WAYBILL_REDIS_URL": "rediss://waybill@localhost:\(port.number)/0",
            "WAYBILL_REDIS_PASSWORD_FILE": try directory.write("password", "hunter2\n"),
            "WAYBILL_REDIS_ROOTS": certificate.file,
        ]
        func answer() async throws -> String? {
            var configuration = try CommonSettings(Settings(environment: environment)).redis
            configuration.commandDeadline = .seconds(1)
            let client = RedisClient(configuration, eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
            let answer = try? await client.send(RedisCommand("ACL", "WHOAMI")).text
            await client.close()
            return answer
        }
        #expect(try await answer() == "waybill")
        environment["WAYBILL_REDIS_ROOTS"] = nil
        #expect(try await answer() == nil, "the system does not trust this server")
        await server.stop()
    }

    @Test(
        .server,
        arguments: [
            ("rediss://h", "/nowhere/roots.pem"), ("rediss://h", "text"), ("redis://h", "certificate"),
        ])
    func rootsThatCannotBeUsedAreNamed(url: String, roots: String) async throws {
        let directory = try TemporaryDirectory("access")
        let certificate = try await ServerCertificate()
        let path: String =
            switch roots {
            case "text": try directory.write("roots.pem", "no certificate")
            case "certificate": certificate.file
            default: roots
            }
        let error = #expect(throws: SettingsError.self) {
            _ = try CommonSettings(Settings(environment: ["WAYBILL_REDIS_URL": url, "WAYBILL_REDIS_ROOTS": path]))
        }
        #expect(error?.description.hasPrefix("WAYBILL_REDIS_ROOTS=\(path): ") == true, "\(error?.description ?? "")")
    }

    @Test func anUnknownKafkaPropertyIsRefusedWithItsFileAndName() throws {
        let directory = try TemporaryDirectory("access")
        let file = try directory.write("kafka.properties", "sasl.mechanismus=PLAIN\n")
        let error = #expect(throws: SettingsError.self) {
            _ = try CommonSettings(Settings(environment: ["WAYBILL_KAFKA_PROPERTIES": file]))
        }
        #expect(error?.description.hasPrefix("WAYBILL_KAFKA_PROPERTIES=\(file): ") == true)
        #expect(error?.description.contains("sasl.mechanismus") == true, "\(error?.description ?? "")")
    }
}
