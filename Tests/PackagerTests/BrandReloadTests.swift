import Brands
import Foundation
import Kafka
import Logging
import Model
import NIOPosix
import Operations
import Redis
import ServiceLifecycle
import Store
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Brands that change while the service works.
@Suite struct BrandReloadTests {
    /// About a thousand changes a second, of a hundred orders, until the brands have changed often enough.
    private final class Traffic: Sendable {
        private let state = Mutex((sent: 0, isEnough: false))

        var sent: Int { self.state.withLock { $0.sent } }

        func end() { self.state.withLock { $0.isEnough = true } }

        func run(_ producer: KafkaProducer, _ topic: String) async throws {
            while !self.state.withLock({ $0.isEnough }) {
                let first = self.sent
                let messages = try (first..<first + 20).map { number in
                    let key = try ChangeLog.key("o\(number % 100)")
                    return KafkaMessage(
                        topic: topic, key: Array("\(key)".utf8),
                        value: ChangeLog.event(
                            "order.replaced", subject: "\(key)", id: "\(number)", ChangeLog.document("n\(number)")),
                        headers: [ChangeLog.contentType])
                }
                for outcome in await producer.produce(messages) { _ = try outcome.get() }
                self.state.withLock { $0.sent += messages.count }
                try await Task.sleep(for: .milliseconds(20))
            }
        }
    }

    /// The service follows a renewed certificate, a broken brand and a mended one while changes keep coming.
    @Test(.server, .timeLimit(.minutes(3)))
    func reloadingUnderLoadLosesNoChange() async throws {
        let topics = Topics()
        let broker = try KafkaBroker(
            topics: [topics.orderChanges, topics.orders, topics.registrations, topics.deadLetters].map {
                .init($0, partitions: 4)
            })
        let server = try await PackagerFixture.redis()
        let renewed = try RenewedBrand()
        let quick = KafkaBroker.quickFile()
        let settings = try Settings(environment: [
            "WAYBILL_KAFKA_BOOTSTRAP": broker.bootstrap, "WAYBILL_REDIS_URL": server.url,
            "WAYBILL_KAFKA_PROPERTIES": try renewed.directory.write("kafka.properties", quick),
            "WAYBILL_BRANDS": renewed.brands, "WAYBILL_BRANDS_RELOAD_SECONDS": "1",
            "WAYBILL_TOKEN_SECRETS": try renewed.directory.write("secrets", BrandFixture.secretsFile),
            "WAYBILL_WEB_SERVICE_URL": BrandFixture.webServiceURL, "WAYBILL_PACKAGE": "always",
        ])
        let common = try CommonSettings(settings)
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let environment = ServiceEnvironment(
            common: common, group: MultiThreadedEventLoopGroup.singleton, metrics: MetricsRegistry(MetricRow.packager),
            readiness: Readiness(conditions: [WorkerCondition.joined]), logger: logger)
        let own = try PackagerSettings(settings, common: common)
        let group = ServiceGroup(services: try Packager.build(own, environment), logger: logger)
        let kafka = KafkaConfiguration(bootstrap: broker.bootstrap)
        let redis = RedisClient(
            try RedisConfiguration(url: server.url), eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        let traffic = Traffic()
        let producer = try KafkaProducer(kafka)
        let admin = try KafkaAdmin(kafka)

        func metric(_ series: String) -> String? {
            environment.metrics.text.split(separator: "\n").first { $0.hasPrefix("\(series) ") }
                .map { String($0.dropFirst(series.count + 1)) }
        }
        let failed = "waybill_brand_load_failed{brand=\"\(BrandFixture.orderType)\"}"
        try await withThrowingTaskGroup { tasks in
            tasks.addTask { try await group.run() }
            // Changes that arrive before that are retried, and retries are counted below.
            try await eventually("the view is complete") { metric("waybill_view_complete") == "1.0" }
            tasks.addTask { try await traffic.run(producer, topics.orderChanges) }
            try await eventually("all is well", within: .seconds(60)) { metric(failed) == "0.0" }
            for round in 0..<2 {
                try renewed.renewCertificate()
                let signer = try renewed.load().signer
                try await eventually("round \(round): the new certificate signs", within: .seconds(30)) {
                    let key = try ChangeLog.key("o1")
                    return try await OrderStore(redis: redis).orders([key])[0].get()?.signer == signer
                }
                let certificate = try renewed.directory.read("brands/shop/certificate.pem")
                try renewed.directory.write("brands/shop/certificate.pem", "nonsense")
                try await eventually("round \(round): alarm", within: .seconds(30)) { metric(failed) == "1.0" }
                // The last good version continues to work.
                let before = traffic.sent
                try await eventually("round \(round): packaged all the same", within: .seconds(30)) {
                    let state = try await OrderStore(redis: redis).orders([try ChangeLog.key("o1")])[0].get()?.state
                    let number = state?.document.members["orderNumber"]?.string?.dropFirst()
                    return number.flatMap { Int($0) } ?? 0 > before
                }
                try renewed.directory.write("brands/shop/certificate.pem", certificate)
                try await eventually("round \(round): mended", within: .seconds(30)) { metric(failed) == "0.0" }
            }
            traffic.end()
            try await eventually("nothing left", within: .seconds(60)) {
                let lag = try await admin.lag(group: Packager.group, topic: topics.orderChanges)
                let end = try await admin.endOffsets(topics.orderChanges)
                return lag.values.reduce(0, +) == 0 && end.values.reduce(0, +) == Int64(traffic.sent)
            }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
        #expect(try await admin.endOffsets(topics.deadLetters).values.reduce(0, +) == 0)
        #expect(environment.metrics.counter("waybill_batch_retries_total") == 0)
        let total = traffic.sent
        for number in total - 100..<total {
            let state = try await OrderStore(redis: redis).orders([try ChangeLog.key("o\(number % 100)")])[0].get()
            #expect(state?.state.document.members["orderNumber"] == .string("n\(number)"))
        }
        let end = metric(
            "waybill_certificate_expiry_timestamp_seconds{owner=\"\(BrandFixture.orderType)\",certificate=\"signing\"}")
        let days = end.flatMap { Double($0) }.map { ($0 - Date().timeIntervalSince1970) / 86_400 }
        #expect(days.map { (364...366).contains($0) } == true)
        #expect(environment.metrics.undescribed == [], "each has its row in the table")
        for step in ChangeStep.allCases {
            let name = "waybill_change_step_seconds_count{step=\"\(step.rawValue)\"}"
            #expect(metric(name).flatMap { Double($0) } ?? 0 > 0, "\(step)")
        }
        for operation in ["produce", "commit"] {
            let name = "waybill_kafka_answer_seconds_count{operation=\"\(operation)\"}"
            #expect(metric(name).flatMap { Double($0) } ?? 0 > 0, "\(operation)")
        }
        #expect(environment.metrics.text.contains("waybill_redis_answer_seconds_count{operation=\"EVALSHA\"}"))
        await admin.close()
        await producer.close()
        await redis.close()
        await server.stop()
        broker.close()
    }

    /// A merged order without its merchant waits; what it lacks comes with the brand's file.
    @Test(.server, .timeLimit(.minutes(3)))
    func aChangeThatWaitsIsTriedWhenItsBrandIsReloaded() async throws {
        let renewed = try RenewedBrand()
        try await Fleet.run(partitions: 1) { fleet in
            let member = try fleet.member([
                "WAYBILL_BRANDS": renewed.brands, "WAYBILL_BRANDS_RELOAD_SECONDS": "1",
                "WAYBILL_UNKNOWN_ORDER_SECONDS": "600",
            ])
            var order = try #require(ChangeLog.document().object)
            let merchant = try #require(order["merchant"])
            order["merchant"] = nil
            let part = JSON.object(order)
            try await fleet.working([member]) {
                try await fleet.publish([("order.merged", "o", "1", part)])
                try await eventually("it waits", within: .seconds(60)) {
                    member.metrics.gauge("waybill_unknown_orders_waiting") == 1
                }
                try renewed.write(defaults: ["merchant": merchant])
                try await eventually("the order", within: .seconds(60)) {
                    try await OrderStore(redis: fleet.redis).orders([try ChangeLog.key("o")])[0].get() != nil
                }
                try await fleet.settle()
            }
            #expect(try await fleet.admin.endOffsets(fleet.topics.deadLetters).values.reduce(0, +) == 0)
        }
    }

    @Test func anExistingPackagerKeepsItsBrandAfterAReload() throws {
        let renewed = try RenewedBrand()
        let library = try BrandLibrary(directory: renewed.brands, webServiceURL: BrandFixture.webServiceURL)
        let packagers = OrderPackagers(library.brands, tokens: try BrandFixture.tokens())
        let type = try OrderTypeIdentifier(BrandFixture.orderType)
        let before = try #require(packagers.current[type])
        #expect(packagers.generations == [type: 1])
        try renewed.write(asset: "new.png", SampleFile.png(seed: 40))
        let now = Int64(Date().timeIntervalSince1970)
        #expect(library.look(isForced: true, nowEpochSeconds: now) == [.changed(type)])
        packagers.update(library.brands)
        packagers.update(library.brands)
        #expect(packagers.generations == [type: 2], "another number for each loading")
        #expect(before.entries.count + 1 == packagers.current[type]?.entries.count)
    }

    @Test(.server, .timeLimit(.minutes(1)))
    func aHangupSignalReloadsBrandsAtOnce() async throws {
        let renewed = try RenewedBrand()
        try await PackagerFixture.run { fixture in
            let program = Program.built("waybill-packager")
            let child = try ChildProcess(
                program, [],
                environment: [
                    "WAYBILL_KAFKA_BOOTSTRAP": fixture.broker.bootstrap, "WAYBILL_REDIS_URL": fixture.server.url,
                    "WAYBILL_BRANDS": renewed.brands, "WAYBILL_WEB_SERVICE_URL": BrandFixture.webServiceURL,
                    "WAYBILL_BRANDS_RELOAD_SECONDS": "3600", "WAYBILL_OPERATIONS_LISTEN": "127.0.0.1:0",
                    "WAYBILL_TOKEN_SECRETS": try renewed.directory.write("secrets", BrandFixture.secretsFile),
                ])
            try await child.line(containing: "watching brands")
            try renewed.renewCertificate()
            child.signal(SIGHUP)
            try await child.line(containing: "brand reloaded")
            #expect(await child.stop(grace: .seconds(30)) == .code(0))
        }
    }
}
