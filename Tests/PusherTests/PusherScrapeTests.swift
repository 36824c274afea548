import Kafka
import Logging
import Model
import NIOPosix
import Operations
import ServiceLifecycle
import TestKit
import TestTraits
import Testing

@testable import Pusher

/// The metrics that Prometheus reads from a working pusher.
@Suite(.server) struct PusherScrapeTests {
    /// Runs the service with its operations endpoint and passes the endpoint's port to `body`.
    private func serve(
        _ fixture: PusherFixture, _ directory: TemporaryDirectory, _ body: (Int) async throws -> Void
    ) async throws {
        let brandFixture = try PusherBrandFixture.shared.get()
        let quick = KafkaBroker.quickFile()
        let settings = try Settings(environment: [
            "WAYBILL_KAFKA_BOOTSTRAP": fixture.broker.bootstrap, "WAYBILL_REDIS_URL": fixture.server.url,
            "WAYBILL_KAFKA_PROPERTIES": try directory.write("kafka.properties", quick),
            "WAYBILL_BRANDS": try brandFixture.write(into: directory), "WAYBILL_APNS_URL": fixture.apns.url,
            "WAYBILL_APNS_ROOTS": try directory.write("roots.pem", brandFixture.rootPEM),
            "WAYBILL_PUSH_WINDOW_MILLISECONDS": "0",
        ])
        try await fixture.redis.completeView()
        let common = try CommonSettings(settings)
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let environment = ServiceEnvironment(
            common: common, group: MultiThreadedEventLoopGroup.singleton, metrics: fixture.metrics,
            readiness: Readiness(conditions: []), logger: logger)
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let operations = OperationsServer(
            address: ListenAddress(host: "127.0.0.1", port: 0), readiness: environment.readiness,
            metrics: environment.metrics, group: environment.group, logger: logger
        ) { listening.yield($0) }
        let services = try Pusher.build(try PusherSettings(settings, common: common), environment)
        let group = ServiceGroup(services: [operations] + services, logger: logger)
        try await withThrowingTaskGroup { tasks in
            tasks.addTask { try await group.run() }
            let result: Result<Void, any Error>
            do {
                let port = try #require(await ports.first { _ in true })
                result = .success(try await body(port))
            } catch {
                result = .failure(error)
            }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
            try result.get()
        }
    }

    private func publish(_ fixture: PusherFixture, _ order: String) async throws {
        _ = try await fixture.producer.produce(
            KafkaMessage(
                topic: fixture.topics.orders, key: Array("\(try PusherFixture.order(order))".utf8), value: [0x7B, 0x7D])
        )
    }

    @Test(.timeLimit(.minutes(2)))
    func metricsCountVerdictsAndGoAways() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-scrape")
            for number in 0..<3 { try await fixture.register("d\(number)", for: "o", token: number) }
            // The second device has always been gone; the third one's first answer is that APNs is busy.
            let gone = APNSSimulatorAnswer(410, "Unregistered", timestampEpochMilliseconds: PusherFixture.noon * 1000)
            try await fixture.apns.add(
                APNSSimulatorFault(.answer(gone, delayMilliseconds: 0), token: PusherFixture.token(1)))
            let busy = APNSSimulatorAnswer(503, "ServiceUnavailable")
            try await fixture.apns.add(
                APNSSimulatorFault(.answer(busy, delayMilliseconds: 0), token: PusherFixture.token(2), count: 1))
            try await self.serve(fixture, directory) { port in
                func scrape() async throws -> [String: Double] {
                    let connection = try await RawConnection.open(port: port)
                    let response = try await connection.exchange("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                    #expect(response.status == 200)
                    let lines = response.text.split(separator: "\n").filter { !$0.hasPrefix("#") }
                    return Dictionary(
                        lines.compactMap { line in
                            guard let space = line.lastIndex(of: " ") else { return nil }
                            return Double(line[line.index(after: space)...]).map { (String(line[..<space]), $0) }
                        }
                    ) { first, _ in first }
                }
                let credential = "credential=\"\(PusherBrandFixture.orderType)\",host=\"\(fixture.host)\""
                try await self.publish(fixture, "o")
                try await eventually("three verdicts") {
                    let series = try await scrape()
                    return series["waybill_pushes_total{\(credential),outcome=\"delivered\"}"] == 2
                        && series["waybill_push_tokens_retired_total{\(credential)}"] == 1
                        // From the sample of the client, which is taken periodically.
                        && series["waybill_apns_connections{\(credential),state=\"open\"}"] ?? 0 >= 1
                }
                try await fixture.apns.add(
                    APNSSimulatorFault(.goAway(reason: "Shutdown", processed: true), isImmediate: true))
                try await eventually("the GOAWAY") {
                    try await scrape().contains { series, value in
                        series.hasPrefix("waybill_apns_goaways_total{\(credential),reason=\"Shutdown\"") && value >= 1
                    }
                }
                let series = try await scrape()
                func requests(_ status: String, _ reason: String) -> Double? {
                    series["waybill_apns_requests_total{\(credential),status=\"\(status)\",reason=\"\(reason)\"}"]
                }
                #expect(requests("200", "none") == 2)
                #expect(requests("410", "Unregistered") == 1)
                #expect(requests("503", "ServiceUnavailable") == 1)
                #expect(series["waybill_pushes_total{\(credential),outcome=\"retried\"}"] == 1)
                #expect(series["waybill_push_age_seconds_count{host=\"\(fixture.host)\"}"] ?? 0 >= 1)
                #expect(series["waybill_push_lookup_age_seconds_count"] ?? 0 >= 1)
                try await eventually("nothing left to do") {
                    let series = try await scrape()
                    return series["waybill_unworked_records{topic=\"\(fixture.topics.orders)\"}"] == 0
                        && series["waybill_committed_lag_records{topic=\"\(fixture.topics.orders)\"}"] == 0
                }
                #expect(fixture.metrics.undescribed == [], "each has its row in the table")
                #expect(series["waybill_apns_connected_total{\(credential)}"] ?? 0 >= 1)
                #expect(series["waybill_apns_settings_changes_total{\(credential)}"] ?? 0 >= 1)
                #expect(series["waybill_apns_queued{\(credential)}"] == 0)
                // Metrics must not reveal which devices were notified.
                #expect(!series.keys.contains { $0.contains(PusherFixture.token(1)) || $0.contains("PRIVATE") })
            }
        }
    }
}
