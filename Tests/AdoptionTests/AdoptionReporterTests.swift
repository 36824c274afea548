import Logging
import Model
import NIOPosix
import Operations
import Redis
import ServiceLifecycleTestKit
import Store
import TestKit
import TestTraits
import Testing

@testable import Adoption

/// The counts of a process, on their way to a real Redis.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct AdoptionReporterTests {
    private static let brand = Result { try OrderTypeIdentifier("order.com.example.shop") }

    /// Returns an environment with this Redis.
    private func environment(_ url: String) throws -> ServiceEnvironment {
        let settings = try Settings(environment: ["WAYBILL_REDIS_URL": url])
        return ServiceEnvironment(
            common: try CommonSettings(settings), group: .singleton, metrics: MetricsRegistry(MetricRow.adoption),
            readiness: Readiness(conditions: []), logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }

    private func sums(_ server: RedisServer) async throws -> [String: Int64] {
        let redis = try server.client()
        let standing = try await AdoptionTotals(redis: redis).all()
        await redis.close()
        return standing.numbers.reduce(into: [:]) { sums, entry in
            switch entry.key {
            case .level(let level, _): sums[level.rawValue] = entry.value
            case .count(let figure, _, _): sums[figure.rawValue, default: 0] += entry.value
            }
        }
    }

    @Test func whatIsCountedIsInTheMetricsAndInRedis() async throws {
        let server = try await RedisServer.start()
        let environment = try self.environment(server.url)
        let (tally, brand) = (AdoptionTally(factory: environment.metrics), try Self.brand.get())
        let reporter = AdoptionReporter(tally, environment)
        tally.count(.details, of: brand)
        tally.count(.details, of: brand)
        tally.count(.fetched, of: brand)
        tally.countUpdate(of: brand, age: 60)
        tally.countUpdate(of: brand, age: 61)
        // A second ahead of the clock, since versions are a second apart.
        tally.countUpdate(of: brand, age: -1)
        tally.note(.firstOrder, of: brand, isByCustomer: true)
        tally.note(.firstDevice, of: brand, isByCustomer: true)
        tally.note(.firstDevice, of: brand, isByCustomer: false)
        tally.note(.lastDevice, of: brand, isByCustomer: true)
        await reporter.report()
        let expected: [String: Int64] = [
            "details": 2, "fetched": 1, "updated": 3, "prompt": 2, "added": 1, "removed": 1, "orders": 1, "devices": 1,
        ]
        #expect(try await self.sums(server) == expected)
        await reporter.report()
        #expect(try await self.sums(server) == expected, "nothing is added twice")
        let text = environment.metrics.text
        for line in [
            #"waybill_adoption_total{brand="order.com.example.shop",step="details"} 2"#,
            #"waybill_adoption_total{brand="order.com.example.shop",step="added"} 1"#,
            #"waybill_fetched_update_age_seconds_bucket{brand="order.com.example.shop",le="1.0"} 1"#,
            #"waybill_fetched_update_age_seconds_bucket{brand="order.com.example.shop",le="60.0"} 2"#,
            #"waybill_fetched_update_age_seconds_count{brand="order.com.example.shop"} 3"#,
        ] {
            #expect(text.contains(line + "\n"), "\(line)")
        }
        #expect(environment.metrics.undescribed == [])
        await reporter.close()
        await server.stop()
    }

    /// A service that stops loses nothing; one that is killed loses what it counted since the last report.
    @Test func aGracefulStopReportsAndAnEndWithoutItLosesTheRest() async throws {
        let server = try await RedisServer.start()
        let environment = try self.environment(server.url)
        let brand = try Self.brand.get()
        let lost = AdoptionTally(factory: environment.metrics)
        let killed = AdoptionReporter(lost, environment)
        lost.count(.fetched, of: brand)
        await killed.report()
        lost.count(.fetched, of: brand)
        let tally = AdoptionTally(factory: environment.metrics)
        let reporter = AdoptionReporter(tally, environment, interval: .seconds(3600))
        try await testGracefulShutdown { trigger in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await reporter.run() }
                tally.count(.added, of: brand)
                trigger.triggerGracefulShutdown()
                try await group.waitForAll()
            }
        }
        await killed.close()
        #expect(try await self.sums(server) == ["fetched": 1, "added": 1])
        await server.stop()
    }

    @Test func whatRedisDoesNotTakeIsAddedLater() async throws {
        let server = try await RedisServer.startAlone()
        let environment = try self.environment(server.url)
        let (tally, brand) = (AdoptionTally(factory: environment.metrics), try Self.brand.get())
        let reporter = AdoptionReporter(tally, environment)
        tally.count(.added, of: brand)
        tally.note(.firstDevice, of: brand, isByCustomer: false)
        await server.kill()
        await reporter.report()
        tally.count(.added, of: brand)
        try await server.restart()
        try await eventually("a report") {
            await reporter.report()
            return try await self.sums(server) == ["added": 2, "orders": 1]
        }
        await reporter.close()
        await server.stop()
    }
}
