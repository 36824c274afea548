import APNS
import Foundation
import Kafka
import Logging
import Model
import NIOCore
import NIOPosix
import Operations
import Redis
import Store
import TestKit
import Testing

@testable import Pusher

/// A Redis, a broker and an APNs for a single test.
struct PusherFixture: Sendable {
    let server: RedisServer
    let redis: RedisClient
    let broker: KafkaBroker
    let producer: KafkaProducer
    let admin: KafkaAdmin
    let apns: APNSSimulator
    private let credential: APNSCredential
    private let roots: [UInt8]
    let metrics = MetricsRegistry(MetricRow.pusher)
    let topics = Topics()
    /// Noon of 2026-01-01, UTC.
    static let noon: Int64 = 1_767_268_800

    var registrations: Registrations { Registrations(redis: self.redis) }

    /// - Parameter redisDeadline: see `RedisServer.client`.
    static func run(
        on redis: RedisServer? = nil, redisDeadline: Duration = .seconds(20),
        producer properties: [String: String] = [:], partitions: Int = 1,
        _ body: @Sendable (PusherFixture) async throws -> Void
    ) async throws {
        let brandFixture = try PusherBrandFixture.shared.get()
        let topics = Topics()
        let names = [topics.orders, topics.registrations, topics.deadLetters, topics.pushPending]
        let broker = try KafkaBroker(topics: names.map { .init($0, partitions: partitions) })
        let kafka = KafkaConfiguration(bootstrap: broker.bootstrap)
        let server: RedisServer
        if let redis { server = redis } else { server = try await Self.redis() }
        let apns = try await APNSSimulator.start(brandFixture.simulator)
        let fixture = PusherFixture(
            server: server,
            redis: try server.client(deadline: redisDeadline),
            broker: broker,
            producer: try KafkaProducer(KafkaConfiguration(bootstrap: broker.bootstrap, properties: properties)),
            admin: try KafkaAdmin(kafka), apns: apns, credential: brandFixture.credential, roots: brandFixture.rootPEM)
        let result: Result<Void, any Error>
        do { result = .success(try await body(fixture)) } catch { result = .failure(error) }
        await apns.stop()
        await fixture.redis.close()
        await fixture.producer.close()
        await fixture.admin.close()
        broker.close()
        await server.stop()
        try result.get()
    }

    /// Starts a Redis. Many tests start one at the same moment and may take each other's free port.
    static func redis() async throws -> RedisServer {
        for _ in 0..<5 {
            if let server = try? await RedisServer.start() { return server }
        }
        return try await RedisServer.start()
    }

    /// The way in which a client of the fixture's APNs is made.
    enum ClientKind: Sendable {
        /// With the certificate, and without long waits.
        case quick
        /// With the times of production.
        case production(AilingAPNSTests.Credential)
    }

    /// Returns a client of the fixture's APNs.
    func client(
        _ kind: ClientKind = .quick, onEvent: @escaping @Sendable (APNSEvent) -> Void = { _ in },
        onReplies: @escaping @Sendable ([PushReply]) -> Void
    ) throws -> APNSClient {
        var configuration = APNSConfiguration()
        configuration.onEvent = onEvent
        var credential = self.credential
        switch kind {
        case .quick:
            configuration.requestTimeout = .seconds(20)
            configuration.tick = .milliseconds(20)
            configuration.backoff.least = .milliseconds(20)
            configuration.backoff.most = .milliseconds(50)
        case .production(.certificate): break
        case .production(.token):
            credential = .token(
                try ProviderTokenSources().source(
                    privateKeyPEM: try PusherBrandFixture.shared.get().providerKey, keyIdentifier: "KEY1234567",
                    teamIdentifier: "TEAM123456"))
        }
        return try APNSClient(
            endpoint: try APNSEndpoint(url: self.apns.url), credential: credential, rootsPEM: self.roots,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton, configuration: configuration, onReplies: onReplies)
    }

    static func order(_ name: String) throws -> OrderKey { try OrderKey("\(PusherBrandFixture.orderType)/\(name)") }

    static func token(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 64 - digits.count) + digits
    }

    /// Registers a device as the gateway does, except for the record.
    @discardableResult
    func register(
        _ device: String, for order: String, token: Int, at milliseconds: Int64 = 1000
    ) async throws -> (key: RegistrationKey, record: RegistrationRecord) {
        let key = RegistrationKey(device: try DeviceIdentifier(device), order: try Self.order(order))
        let record = RegistrationRecord(
            pushToken: try PushToken(Self.token(token)), registeredEpochMilliseconds: milliseconds)
        _ = try await self.registrations.register(key, record)
        return (key, record)
    }

    /// Returns a record of `waybill.orders`; the pusher does not parse its value.
    func changed(_ order: String, offset: Int64 = 0) throws -> KafkaRecord {
        KafkaRecord(
            topic: self.topics.orders, partition: 0, offset: offset, timestampMilliseconds: Self.noon * 1000,
            key: Array("\(try Self.order(order))".utf8), value: Array("{}".utf8))
    }

    func isRegistered(_ key: RegistrationKey) async throws -> Bool {
        try await self.registrations.devices(of: [key.order])[0].contains { $0.device == key.device }
    }

    /// Returns the device tokens of all pushes sent to APNs, in order.
    func notified() async throws -> [String] { try await self.apns.deliveries().deliveries.map(\.token) }

    func tombstones() async throws -> Int64 {
        try await self.admin.endOffsets(self.topics.registrations).values.reduce(0, +)
    }

    /// Returns the first records of `waybill.registrations`, at least this many.
    func publishedRegistrations(_ count: Int) async throws -> [KafkaRecord] {
        try await self.broker.records(count, of: self.topics.registrations)
    }

    /// Returns the codes and values of the first dead letters.
    func deadLetters(_ count: Int) async throws -> [(code: String, value: JSON)] {
        try await self.broker.records(count, of: self.topics.deadLetters).map { record in
            let code = record.headers.first { $0.name == "waybill-error" }?.value ?? []
            return (String(decoding: code, as: UTF8.self), try JSON(parsing: record.value ?? []))
        }
    }

    /// The label of APNs in metrics.
    var host: String { String(self.apns.url.dropFirst("https://".count)) }

    func pushes(_ outcome: String) -> Int64 { self.count("waybill_pushes_total", "outcome=\"\(outcome)\"") }

    var retired: Int64 { self.count("waybill_push_tokens_retired_total", "") }

    /// Returns a counter of the brand's credential.
    func count(_ name: String, _ labels: String) -> Int64 {
        let credential = "credential=\"\(PusherBrandFixture.orderType)\",host=\"\(self.host)\""
        return self.metrics.counter("\(name){\(credential)\(labels.isEmpty ? "" : ",")\(labels)}")
    }
}

extension MetricsRegistry {
    /// Returns the value of a counter, as read by Prometheus.
    func counter(_ series: String) -> Int64 {
        for line in self.text.split(separator: "\n") where line.hasPrefix("\(series) ") {
            return Int64(line.dropFirst(series.utf8.count + 1)) ?? -1
        }
        return 0
    }
}
