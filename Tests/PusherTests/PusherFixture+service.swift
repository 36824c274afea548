import Kafka
import Logging
import Model
import NIOPosix
import Operations
import Redis
import ServiceLifecycle
import Store
import TestKit
import Testing

@testable import Pusher

extension PusherFixture {
    /// Runs the service, as it is built for production, until `body` returns, then stops it.
    ///
    /// - Parameter change: changes limits for which there is no setting.
    func serve(
        _ directory: TemporaryDirectory, settings others: [String: String] = [:], brands: [String] = ["shop"],
        readiness: Readiness = Readiness(conditions: [WorkerCondition.joined]),
        limits change: ((inout PushLimits) -> Void)? = nil, _ body: () async throws -> Void
    ) async throws {
        let brandFixture = try PusherBrandFixture.shared.get()
        let quick = KafkaBroker.quickFile()
        let environment = [
            "WAYBILL_KAFKA_BOOTSTRAP": self.broker.bootstrap, "WAYBILL_REDIS_URL": self.server.url,
            "WAYBILL_KAFKA_PROPERTIES": try directory.write("kafka.properties", quick),
            "WAYBILL_BRANDS": try brandFixture.write(brands, into: directory),
            "WAYBILL_APNS_URL": self.apns.url, "WAYBILL_PUSH_WINDOW_MILLISECONDS": "50",
            "WAYBILL_APNS_ROOTS": try directory.write("roots.pem", brandFixture.rootPEM),
        ]
        let settings = try Settings(environment: environment.merging(others) { $1 })
        try await self.redis.completeView()
        let common = try CommonSettings(settings)
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let serviceEnvironment = ServiceEnvironment(
            common: common, group: MultiThreadedEventLoopGroup.singleton, metrics: self.metrics,
            readiness: readiness, logger: logger)
        let pusher = try PusherSettings(settings, common: common)
        var limits = pusher.limits
        change?(&limits)
        let services = try Pusher.build(pusher, serviceEnvironment, limits: limits)
        let group = ServiceGroup(services: services, logger: logger)
        try await withThrowingTaskGroup { tasks in
            tasks.addTask { try await group.run() }
            let result: Result<Void, any Error>
            do { result = .success(try await body()) } catch { result = .failure(error) }
            let start = MonotonicTime.now
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
            #expect(MonotonicTime.now - start < .seconds(18))
            try result.get()
        }
    }

    /// Returns the number of order changes that the group has not committed.
    func lag() async throws -> Int64 {
        try await self.admin.lag(group: Pusher.group, topic: self.topics.orders).values.reduce(0, +)
    }

    /// Returns the number of records of the pending topic that its readers have not committed.
    func pendingLag() async throws -> Int64 {
        try await self.admin.lag(group: Pusher.pendingGroup, topic: self.topics.pushPending).values.reduce(0, +)
    }

    /// Publishes changes of orders to the topic, in one batch.
    func publish(_ orders: [String]) async throws {
        let messages = try orders.map { order in
            KafkaMessage(
                topic: self.topics.orders, key: Array("\(try PusherFixture.order(order))".utf8), value: [0x7B, 0x7D])
        }
        for outcome in await self.producer.produce(messages) { _ = try outcome.get() }
    }

    /// Registers devices for orders of any type; each order has one device, and devices take turns.
    func register(_ orders: [OrderKey], devices: Int, tokens first: Int) async throws {
        for (number, order) in orders.enumerated() {
            let device = try DeviceIdentifier("\(order.orderType.rawValue)-\(number % devices)")
            let record = RegistrationRecord(
                pushToken: try PushToken(Self.token(first + number % devices)), registeredEpochMilliseconds: 1000)
            _ = try await self.registrations.register(RegistrationKey(device: device, order: order), record)
        }
    }

    /// Publishes changes of orders of any type to the topic.
    func publish(changed orders: [OrderKey]) async throws {
        let messages = orders.map {
            KafkaMessage(topic: self.topics.orders, key: Array($0.description.utf8), value: [0x7B, 0x7D])
        }
        for outcome in await self.producer.produce(messages) { _ = try outcome.get() }
    }

    /// Sets the same APNs fault for all notifications to some device tokens.
    func hit(tokens: Range<Int>, _ effect: APNSSimulatorFault.Effect) async throws {
        for token in tokens { try await self.apns.add(APNSSimulatorFault(effect, token: Self.token(token))) }
    }

    /// Returns the device tokens for which APNs accepted a notification.
    func delivered() async throws -> [String] {
        try await self.apns.deliveries().deliveries.filter { $0.status == 200 }.map(\.token)
    }

    /// Returns a gauge without labels, as read by Prometheus; 0 until it exists.
    func gauge(_ name: String) -> Double {
        for line in self.metrics.text.split(separator: "\n") where line.hasPrefix("\(name) ") {
            return Double(line.dropFirst(name.utf8.count + 1)) ?? -1
        }
        return 0
    }
}
