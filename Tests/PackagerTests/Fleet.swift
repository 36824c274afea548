import Foundation
import Kafka
import Logging
import Model
import NIOCore
import NIOPosix
import Operations
import Redis
import ServiceLifecycle
import Store
import TestKit
import Testing

@testable import Packager

/// Packagers as they are built for production, on one Redis and one broker.
struct Fleet: Sendable {
    let server: RedisServer
    let redis: RedisClient
    let broker: KafkaBroker
    let producer: KafkaProducer
    let admin: KafkaAdmin
    let directory: TemporaryDirectory
    let brandFixture: BrandFixture
    let topics = Topics()
    let partitions: Int

    static func run(
        partitions: Int = 4, redis arguments: [String] = [], isCluster: Bool = false,
        _ body: @Sendable (Fleet) async throws -> Void
    ) async throws {
        let topics = Topics()
        let broker = try KafkaBroker(
            topics: [topics.orderChanges, topics.orders, topics.registrations, topics.deadLetters].map {
                .init($0, partitions: partitions)
            })
        let server =
            isCluster ? try await RedisServer.startCluster(arguments) : try await PackagerFixture.redis(arguments)
        let kafka = KafkaConfiguration(bootstrap: broker.bootstrap)
        let fleet = Fleet(
            server: server,
            redis: try server.client(), broker: broker, producer: try KafkaProducer(kafka),
            admin: try KafkaAdmin(kafka),
            directory: try TemporaryDirectory("fleet"), brandFixture: try BrandFixture.shared.get(),
            partitions: partitions)
        let result: Result<Void, any Error>
        do { result = .success(try await body(fleet)) } catch { result = .failure(error) }
        await fleet.redis.close()
        await fleet.producer.close()
        await fleet.admin.close()
        broker.close()
        await server.stop()
        try result.get()
    }

    /// A packager that runs in a task group until it is stopped, or cancelled with the group.
    struct Member: Sendable {
        let group: ServiceGroup
        let environment: ServiceEnvironment
        var isReady: Bool { self.environment.readiness.reasons.isEmpty }
        var metrics: MetricsRegistry { self.environment.metrics }
    }

    /// Makes the settings for a packager or a gateway of this fleet.
    func settings(_ more: [String: String] = [:]) throws -> [String: String] {
        let quick = KafkaBroker.quickFile()
        return [
            "WAYBILL_KAFKA_BOOTSTRAP": self.broker.bootstrap, "WAYBILL_REDIS_URL": self.server.url,
            "WAYBILL_KAFKA_PROPERTIES": try self.directory.write("kafka.properties", quick),
            "WAYBILL_BRANDS": try self.brandFixture.write(into: self.directory),
            "WAYBILL_TOKEN_SECRETS": try self.directory.write("secrets", BrandFixture.secretsFile),
            "WAYBILL_WEB_SERVICE_URL": BrandFixture.webServiceURL,
            // So that the package of each version can be verified.
            "WAYBILL_PACKAGE": "always",
        ].merging(more) { $1 }
    }

    /// Starts a service as a separate process that can be killed. Its executable is next to that of the tests.
    func child(_ program: String, _ more: [String: String] = [:]) throws -> ChildProcess {
        return try ChildProcess(
            Program.built(program),
            environment: try self.settings(
                [
                    "WAYBILL_OPERATIONS_LISTEN": "127.0.0.1:0", "WAYBILL_LOG_FORMAT": "text",
                    "WAYBILL_DRAIN_SECONDS": "0",
                ].merging(more) { $1 }))
    }

    /// - Parameter limits: the bounds of what it has in hand.
    func member(
        log: (any LogHandler & Sendable)? = nil, limits: KeyQueue.Limits = KeyedWorker.limits,
        _ more: [String: String] = [:]
    ) throws -> Member {
        let settings = try Settings(environment: self.settings(more))
        let common = try CommonSettings(settings)
        let logger = Logger(label: "test") { _ in log ?? SwiftLogNoOpLogHandler() }
        let environment = ServiceEnvironment(
            common: common, group: MultiThreadedEventLoopGroup.singleton, metrics: MetricsRegistry(),
            readiness: Readiness(conditions: [ViewRecovery.condition]), logger: logger)
        let services = try Packager.build(
            try PackagerSettings(settings, common: common), environment, limits: limits)
        return Member(group: ServiceGroup(services: services, logger: logger), environment: environment)
    }

    /// Runs members around `body` and stops them.
    func working(_ members: [Member], _ body: @Sendable () async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for member in members { tasks.addTask { try await member.group.run() } }
            try await body()
            for member in members { await member.group.triggerGracefulShutdown() }
            try await tasks.waitForAll()
        }
    }

    /// Publishes changes and returns when Kafka has them.
    func publish(_ changes: [(type: String, order: String, id: String, data: JSON?)]) async throws {
        let messages = try changes.map { change in
            let key = "\(try ChangeLog.key(change.order))"
            return KafkaMessage(
                topic: self.topics.orderChanges, key: Array(key.utf8),
                value: ChangeLog.event(change.type, subject: key, id: change.id, change.data),
                headers: [ChangeLog.contentType])
        }
        for outcome in await self.producer.produce(messages) { _ = try outcome.get() }
    }

    /// Returns when everything that was published is committed.
    func settle() async throws {
        try await eventually("nothing left", within: .seconds(60)) {
            try await self.admin.lag(group: Packager.group, topic: self.topics.orderChanges).values.reduce(0, +) == 0
        }
    }

    func isComplete() async throws -> Bool {
        ViewStatus(try await MaterializedView(redis: self.redis).look()) == .complete
    }

    /// Registers as the gateway does.
    func register(_ count: Int, orders: [OrderKey], from first: Int = 0) async throws -> [RegistrationKey] {
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        let items = try (first..<first + count).map { number in
            (
                RegistrationKey(device: try DeviceIdentifier("device \(number)"), order: orders[number % orders.count]),
                RegistrationRecord(
                    pushToken: try PushToken(String(0x1000 + number, radix: 16)), registeredEpochMilliseconds: now)
            )
        }
        let outcomes = await self.producer.produce(
            items.map {
                KafkaMessage(topic: self.topics.registrations, key: Array($0.0.text.utf8), value: $0.1.encoded)
            })
        var restored: [Registrations.Restored] = []
        for (item, outcome) in zip(items, outcomes) {
            let stamp = RegistrationStamp(offset: try outcome.get().offset, epochMilliseconds: now)
            restored.append(.init(key: item.0, registration: item.1, stamp: stamp))
        }
        for start in stride(from: 0, to: restored.count, by: 500) {
            try await Registrations(redis: self.redis).restore(
                Array(restored[start..<min(start + 500, restored.count)]))
        }
        return items.map(\.0)
    }

    /// Everything that must be the same after Redis was restored.
    struct Content: Hashable {
        let states: [OrderKey: OrderState]
        let devices: [OrderKey: Set<Registrations.Registered>]
        let lists: [DeviceIdentifier: Set<OrderIdentifier>]
    }

    func content(_ orders: [OrderKey], _ registrations: [RegistrationKey]) async throws -> Content {
        var states: [OrderKey: OrderState] = [:]
        for (key, result) in zip(orders, try await OrderStore(redis: self.redis).orders(orders)) {
            states[key] = try result.get()?.state
        }
        let found = try await Registrations(redis: self.redis).devices(of: orders)
        var lists: [DeviceIdentifier: Set<OrderIdentifier>] = [:]
        for key in registrations where lists[key.device] == nil {
            let type = key.order.orderType
            lists[key.device] = Set(try await Registrations(redis: self.redis).orders(of: key.device, type: type))
        }
        return Content(
            states: states, devices: Dictionary(zip(orders, found.map(Set.init))) { first, _ in first }, lists: lists)
    }

    /// Has unzip and openssl check some packages as they would be served, asked for as by a gateway.
    func verify(_ orders: [OrderKey]) async throws {
        let root = try self.directory.write("root.pem", self.brandFixture.rootPEM)
        for key in orders {
            try await PackageRequests(redis: self.redis).add(key, on: MultiThreadedEventLoopGroup.singleton.next())
                .get()
            try await eventually("the package of \(key)") { try await StoredArchive.read(key, from: self.redis) != nil }
            let archive = try #require(try await StoredArchive.read(key, from: self.redis))
            _ = try archive.verify(root: root)
        }
    }
}
