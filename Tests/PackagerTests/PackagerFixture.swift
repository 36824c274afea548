import Brands
import Foundation
import Kafka
import Logging
import Model
import NIOPosix
import Operations
import Redis
import Store
import TestKit
import Testing

@testable import Packager

/// A processor with its own Redis and broker.
struct PackagerFixture: Sendable {
    let server: RedisServer
    let redis: RedisClient
    let broker: KafkaBroker
    let producer: KafkaProducer
    let admin: KafkaAdmin
    let brandFixture: BrandFixture
    let metrics = MetricsRegistry()
    let topics = Topics()

    static func run(
        producer properties: [String: String] = [:], _ body: @Sendable (PackagerFixture) async throws -> Void
    ) async throws {
        let server = try await Self.redis(["--appendonly", "yes"])
        let topics = Topics()
        let broker = try KafkaBroker(
            topics: [topics.orders, topics.registrations, topics.deadLetters].map { .init($0, partitions: 1) })
        let kafka = KafkaConfiguration(
            bootstrap: broker.bootstrap,
            properties: ["reconnect.backoff.max.ms": "100"].merging(properties) { $1 })
        let fixture = PackagerFixture(
            server: server,
            redis: RedisClient(
                try RedisConfiguration(url: server.url), eventLoopGroup: MultiThreadedEventLoopGroup.singleton),
            broker: broker, producer: try KafkaProducer(kafka),
            admin: try KafkaAdmin(KafkaConfiguration(bootstrap: broker.bootstrap)),
            brandFixture: try BrandFixture.shared.get())
        let result: Result<Void, any Error>
        do { result = .success(try await body(fixture)) } catch { result = .failure(error) }
        server.signal(SIGCONT)
        await fixture.redis.close()
        await fixture.producer.close()
        await fixture.admin.close()
        broker.close()
        await server.stop()
        try result.get()
    }

    /// Starts a Redis. Many tests start one at the same moment and may take each other's free port.
    static func redis(_ arguments: [String] = []) async throws -> RedisServer {
        for _ in 0..<5 {
            if let server = try? await RedisServer.start(arguments) { return server }
        }
        return try await RedisServer.start(arguments)
    }

    /// Returns a processor whose clock is fixed at noon.
    ///
    /// - Parameter store: nil for one that reads no cold orders.
    func processor(
        packager: OrderPackager? = nil, store: OrderStore? = nil, spans: SpanExporter? = nil
    ) throws -> ChangeProcessor {
        let packager = try packager ?? OrderPackager(self.brandFixture.brand, tokens: try BrandFixture.tokens())
        var processor = ChangeProcessor(
            topics: self.topics, packagers: [self.brandFixture.brand.orderType: packager],
            store: store ?? OrderStore(redis: self.redis), registrations: Registrations(redis: self.redis),
            producer: self.producer, metrics: PackagerMetrics(factory: self.metrics),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, spans: spans)
        processor.now = { ChangeLog.noon * 1000 }
        return processor
    }

    func state(_ order: String) async throws -> OrderState? { try await self.stored(order)?.state }

    func stored(_ order: String) async throws -> OrderStore.StoredOrder? {
        let results = try await OrderStore(redis: self.redis).orders([try ChangeLog.key(order)])
        return try #require(results.first).get()
    }

    /// Leaves an order as if its worker had died before it knew whether its record was acknowledged.
    func forgetTold(_ order: String) async throws {
        let key = "waybill:1:order:{\(try ChangeLog.key(order))}"
        _ = try await self.redis.send(RedisCommand("HDEL", .string(key), "told"))
    }

    /// Returns the number of records in a topic.
    func count(_ topic: String) async throws -> Int64 {
        try await self.admin.endOffsets(topic).values.reduce(0, +)
    }

    /// Reads the first records of a topic.
    func read(_ topic: String, _ count: Int) async throws -> [KafkaRecord] {
        try await self.broker.records(count, of: topic)
    }

    /// Returns the value of a counter.
    /// Restores orders from records into the fixture's Redis.
    var restorer: OrderRestorer {
        OrderRestorer(
            store: OrderStore(redis: self.redis), metrics: RestoreMetrics(factory: self.metrics),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }

    func counter(_ name: String) -> Int64 { self.metrics.counter(name) }

    func counter(_ name: String, reason: String) -> Int64 { self.metrics.counter("\(name){reason=\"\(reason)\"}") }
}

extension MetricsRegistry {
    /// Returns the value of a counter, as Prometheus would read it.
    func counter(_ name: String) -> Int64 {
        for line in self.text.split(separator: "\n") where line.hasPrefix("\(name) ") {
            return Int64(line.dropFirst(name.utf8.count + 1)) ?? -1
        }
        return 0
    }
}

extension KafkaRecord {
    var keyText: String { String(decoding: self.key ?? [], as: UTF8.self) }
    func header(_ name: String) -> String? {
        self.headers.first { $0.name == name }?.value.map { String(decoding: $0, as: UTF8.self) }
    }
}

extension ChangeProcessor {
    /// Works on records as one batch.
    ///
    /// - Throws: `RetriableFailure` with the first reason, if any order has to be retried.
    func process(_ records: [KafkaRecord]) async throws {
        for case .later(let reason) in await self.process(KeyedWork.each(of: records)) {
            throw RetriableFailure(description: reason, origin: FailureOrigin(.redis, .everything))
        }
    }
}

extension KeyedWork {
    /// Returns a batch of records, with those of one key together.
    static func each(of records: [KafkaRecord]) -> [KeyedWork] {
        var keys: [[UInt8]?] = []
        for record in records where !keys.contains(record.key) { keys.append(record.key) }
        return keys.map { key in KeyedWork(key: key, records: records.filter { $0.key == key }) }
    }
}
