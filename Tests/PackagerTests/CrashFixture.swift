import Foundation
import Kafka
import Model
import NIOPosix
import Redis
import Store
import Synchronization
import TestKit
import Testing

@testable import Packager

/// Packagers as separate processes that can be killed, with this test's own broker and Redis.
final class CrashFixture: Sendable {
    let broker: KafkaBroker
    let server: RedisServer
    let redis: RedisClient
    let admin: KafkaAdmin
    let topics = Topics()
    private let producer: KafkaProducer
    /// A consumer that reads everything that the workers publish.
    private let witness: KafkaConsumer
    /// The records that the witness has read, by place.
    private let seen = Mutex<[String: KafkaRecord]>([:])
    private let directory: TemporaryDirectory
    private let settings: [String: String]

    /// The devices that `register` registers for an order.
    static let devices = ["device-a", "device-b"]

    private init() async throws {
        let topics = self.topics
        self.broker = try KafkaBroker(
            topics: [.init(topics.orderChanges, partitions: 4)]
                + [topics.orders, topics.registrations, topics.deadLetters].map { .init($0, partitions: 2) })
        self.server = try await PackagerFixture.redis(["--appendonly", "yes", "--appendfsync", "always"])
        self.redis = RedisClient(
            try RedisConfiguration(url: self.server.url), eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        let kafka = KafkaConfiguration(
            bootstrap: self.broker.bootstrap, properties: ["reconnect.backoff.max.ms": "100"])
        self.admin = try KafkaAdmin(kafka)
        self.producer = try KafkaProducer(kafka)
        self.witness = try KafkaConsumer(
            KafkaConfiguration(bootstrap: self.broker.bootstrap, properties: KafkaBroker.quick), group: "witness",
            topics: [topics.orders, topics.registrations, topics.deadLetters])
        self.directory = try TemporaryDirectory("crash")
        let properties = KafkaBroker.quickFile(["reconnect.backoff.max.ms": "100"])
        self.settings = [
            "WAYBILL_KAFKA_BOOTSTRAP": self.broker.bootstrap, "WAYBILL_REDIS_URL": self.server.url,
            "WAYBILL_KAFKA_PROPERTIES": try self.directory.write("kafka.properties", properties),
            "WAYBILL_BRANDS": try BrandFixture.shared.get().write(into: self.directory),
            "WAYBILL_TOKEN_SECRETS": try self.directory.write("secrets", BrandFixture.secretsFile),
            "WAYBILL_WEB_SERVICE_URL": BrandFixture.webServiceURL,
            // A change that arrives before its order immediately becomes a dead letter, and is still applied with the
            // order.
            "WAYBILL_UNKNOWN_ORDER_SECONDS": "0",
            "WAYBILL_OPERATIONS_LISTEN": "127.0.0.1:0", "WAYBILL_LOG_FORMAT": "text",
        ]
    }

    static func run(_ body: @Sendable (CrashFixture) async throws -> Void) async throws {
        await Self.turnstile.enter()
        let result: Result<Void, any Error>
        do {
            let fixture = try await CrashFixture()
            do { result = .success(try await body(fixture)) } catch { result = .failure(error) }
            await fixture.close()
        } catch {
            await Self.turnstile.leave()
            throw error
        }
        await Self.turnstile.leave()
        try result.get()
    }

    private func close() async {
        await self.witness.close()
        await self.producer.close()
        await self.admin.close()
        await self.redis.close()
        await self.server.stop()
        self.broker.close()
    }

    /// Most fixtures wait for a group's time limits most of the time; too many of them together would miss them.
    private static let turnstile = Turnstile(places: 9)

    /// Starts a packager. Its executable is next to that of the tests.
    ///
    /// - Parameter environment: the crash or stall to cause, see `CrashPoint`.
    func worker(_ environment: [String: String] = [:]) throws -> ChildProcess {
        try ChildProcess(Program.built("waybill-packager"), environment: self.settings.merging(environment) { $1 })
    }

    /// Runs a command of the packager to its end.
    func command(_ arguments: [String]) async throws {
        try await ChildProcess.run(Program.built("waybill-packager"), arguments, environment: self.settings)
    }

    func publish(_ changes: [CrashChange]) async throws {
        let messages = try changes.map { try $0.message(topic: self.topics.orderChanges) }
        for outcome in await self.producer.produce(messages) { _ = try outcome.get() }
    }

    /// Registers the devices for an order.
    func register(_ order: String) async throws {
        for name in Self.devices {
            try await Registrations(redis: self.redis).register(
                RegistrationKey(device: try DeviceIdentifier(name), order: try ChangeLog.key(order)),
                RegistrationRecord(
                    pushToken: try PushToken(String(repeating: "ab", count: 32)), registeredEpochMilliseconds: 1))
        }
    }

    /// Registers them as the gateway does: in Kafka, then in Redis.
    func registerAnew(_ order: String) async throws -> [(RegistrationKey, RegistrationRecord)] {
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        var registered: [(RegistrationKey, RegistrationRecord)] = []
        for name in Self.devices {
            let key = RegistrationKey(device: try DeviceIdentifier(name), order: try ChangeLog.key(order))
            let record = RegistrationRecord(
                pushToken: try PushToken(String(repeating: "cd", count: 32)), registeredEpochMilliseconds: now)
            let position = try await self.producer.produce(
                KafkaMessage(topic: self.topics.registrations, key: Array(key.text.utf8), value: record.encoded))
            try await Registrations(redis: self.redis).register(
                key, record, at: RegistrationStamp(offset: position.offset, epochMilliseconds: now))
            registered.append((key, record))
        }
        return registered
    }

    /// Waits until all that was published is committed.
    func caughtUp(_ worker: ChildProcess, within patience: Duration = .seconds(60)) async throws {
        try #require(
            try await self.caughtUpOrDied(worker, within: patience), "a worker ended: \(worker.output.suffix(2000))")
    }

    /// - Returns: false when the worker ended before all that was published was committed.
    func caughtUpOrDied(_ worker: ChildProcess, within patience: Duration = .seconds(60)) async throws -> Bool {
        let deadline = ContinuousClock.now + patience
        while true {
            let lag = try await self.admin.lag(group: Packager.group, topic: self.topics.orderChanges)
            if lag.values.reduce(0, +) == 0 { return true }
            if worker.exit != nil { return false }
            try #require(.now < deadline, "not caught up, lag \(lag): \(worker.output.suffix(2000))")
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    /// Returns the number of changes that the packagers have committed.
    func committed() async throws -> Int64 {
        try await self.admin.committed(group: Packager.group, topic: self.topics.orderChanges).values.reduce(0, +)
    }

    /// Waits until a process that stops itself has done so.
    func stopped(_ worker: ChildProcess) async throws {
        try await eventually("stopped") {
            let path = "/proc/\(worker.processIdentifier)/stat"
            let state = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
            return state.drop { $0 != ")" }.hasPrefix(") T")
        }
    }

    /// Returns all records of the topics that the workers write, by topic; those of a partition in their order.
    func published() async throws -> [String: [KafkaRecord]] {
        var wanted = 0
        for topic in [self.topics.orders, self.topics.registrations, self.topics.deadLetters] {
            wanted += Int(try await self.admin.endOffsets(topic).values.reduce(0, +))
        }
        try await eventually("\(wanted) records") {
            if self.seen.withLock({ $0.count < wanted }) {
                let more = try await self.witness.nextBatch(records: 10_000, bytes: 1 << 26, wait: .milliseconds(100))
                // The witness commits nothing: after it rejoins its group, it reads everything from the beginning.
                self.seen.withLock { seen in
                    for record in more { seen["\(record.topic)/\(record.partition)/\(record.offset)"] = record }
                }
            }
            return self.seen.withLock { $0.count >= wanted }
        }
        let records = self.seen.withLock { Array($0.values) }
        return Dictionary(
            grouping: records.sorted { ($0.partition, $0.offset) < ($1.partition, $1.offset) }, by: \.topic)
    }
}

/// A limit on the number of callers at the same time.
private actor Turnstile {
    private var places: Int
    private var waiting: [CheckedContinuation<Void, Never>] = []

    init(places: Int) { self.places = places }

    func enter() async {
        if self.places > 0 {
            self.places -= 1
        } else {
            await withCheckedContinuation { self.waiting.append($0) }
        }
    }

    func leave() {
        if self.waiting.isEmpty {
            self.places += 1
        } else {
            self.waiting.removeFirst().resume()
        }
    }
}
