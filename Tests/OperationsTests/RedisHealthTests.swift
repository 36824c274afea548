import CoreMetrics
import Foundation
import Logging
import NIOPosix
import TestKit
import TestTraits
import Testing

@testable import Operations
@testable import Redis

@Suite struct RedisHealthTests {
    private static let start = ContinuousClock.now

    private static func server(
        used: Int64 = 100, limit: Int64 = 0, policy: String = "noeviction", history: String = "master_replid:x\n",
        extra: String = ""
    ) -> (server: String, information: RedisServerInformation?) {
        let text =
            "redis_version:7.0.15\nused_memory:\(used)\nmaxmemory:\(limit)\n"
            + "maxmemory_policy:\(policy)\n\(history)\(extra)"
        return ("h:1", RedisServerInformation(text))
    }

    @Test func aHealthyRedisServerHasNoFaults() {
        var health = RedisHealth()
        #expect(health.receive([Self.server()], refusals: 0, now: Self.start) == .init())
        #expect(health.faults.isEmpty)
    }

    @Test func aServerAtItsLimitIsFullUntilThereIsRoom() {
        var health = RedisHealth()
        #expect(health.receive([Self.server(used: 99, limit: 100)], refusals: 0, now: Self.start) == .init())
        #expect(
            health.receive([Self.server(), Self.server(used: 100, limit: 100)], refusals: 0, now: Self.start).begun == [
                .full
            ])
        #expect(health.faults[.full]?.contains("used_memory 100 of maxmemory 100 at h:1") == true)
        #expect(health.usedMemory == 100)
        #expect(health.maxMemory == 100)
        #expect(
            health.receive([Self.server(used: 100, limit: 100)], refusals: 0, now: Self.start) == .init(), "told once")
        // Buffers of replicas do not count. Source: redis.conf, maxmemory
        let buffers = Self.server(used: 150, limit: 100, extra: "mem_not_counted_for_evict:60\n")
        #expect(health.receive([buffers], refusals: 0, now: Self.start).ended == [.full])
    }

    /// Between two refusals of large writes the server is below its limit.
    @Test func aRefusalIsRemembered() {
        var health = RedisHealth()
        #expect(health.receive([Self.server(used: 99, limit: 100)], refusals: 1, now: Self.start).begun == [.full])
        let soon = Self.start + RedisHealth.refusalMemory - .seconds(1)
        #expect(health.receive([Self.server(used: 99, limit: 100)], refusals: 1, now: soon) == .init())
        let late = Self.start + RedisHealth.refusalMemory
        #expect(health.receive([Self.server(used: 99, limit: 100)], refusals: 1, now: late).ended == [.full])
    }

    @Test(arguments: ["allkeys-lru", "allkeys-lfu", "allkeys-random"]) func anAllKeysPolicyIsSevere(_ policy: String) {
        var health = RedisHealth()
        #expect(health.receive([Self.server(policy: policy)], refusals: 0, now: Self.start).begun == [.evictsAll])
        #expect(health.faults[.evictsAll]?.contains("\(policy) at h:1") == true)
        #expect(RedisHealth.Fault.evictsAll.isSevere)
    }

    @Test func aVolatilePolicyIsAWarning() {
        var health = RedisHealth()
        #expect(
            health.receive([Self.server(policy: "volatile-lru")], refusals: 0, now: Self.start).begun == [
                .evictsExpiring
            ])
        #expect(!RedisHealth.Fault.evictsExpiring.isSevere)
    }

    @Test func aHiddenReplicationIDIsAWarning() {
        var health = RedisHealth()
        #expect(health.receive([Self.server(history: "")], refusals: 0, now: Self.start).begun == [.historyHidden])
        #expect(health.receive([("h:1", nil)], refusals: 0, now: Self.start) == .init(), "as one that may not be asked")
        #expect(health.receive([Self.server()], refusals: 0, now: Self.start).ended == [.historyHidden])
        #expect(!RedisHealth.Fault.historyHidden.isSevere)
    }
}

/// The monitor against a real server that is reconfigured.
@Suite(.server, .timeLimit(.minutes(1))) struct RedisMonitorTests {
    private func environment(_ server: RedisServer) throws -> ServiceEnvironment {
        ServiceEnvironment(
            common: try CommonSettings(try Settings(environment: ["WAYBILL_REDIS_URL": server.url])),
            group: .singleton, metrics: MetricsRegistry(), readiness: Readiness(conditions: []),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }

    private func until(_ what: String, _ condition: () -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(30)
        while !condition() {
            try #require(ContinuousClock.now < deadline, "not seen: \(what)")
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    @Test func runtimeConfigChangesReachRemarksAndMetrics() async throws {
        let server = try await RedisServer.start()
        let environment = try self.environment(server)
        let redis = RedisClient(environment.common.redis, eventLoopGroup: environment.group)
        let monitor = RedisMonitor(redis, environment, interval: .milliseconds(20))
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await monitor.run() }
            func remarks() -> [String] { environment.readiness.remarks }
            try await self.until("the first look") {
                environment.metrics.text.contains("waybill_redis_fault{fault=\"full\"} 0")
            }
            try await server.everywhere("CONFIG", "SET", "maxmemory", "1000")
            try await self.until("full") {
                remarks().contains {
                    $0.hasPrefix("redis: Redis is full: used_memory ") && $0.contains("maxmemory 1000")
                }
            }
            #expect(environment.metrics.text.contains("waybill_redis_fault{fault=\"full\"} 1"))
            #expect(environment.metrics.text.contains("waybill_redis_memory_limit_bytes 1000"))
            try await server.everywhere("CONFIG", "SET", "maxmemory", "0")
            try await self.until("room") { remarks().isEmpty }
            try await server.everywhere("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
            try await self.until("eviction") { remarks().contains { $0.contains("allkeys-lfu") } }
            try await server.everywhere("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
            try await self.until("only traces") { remarks().isEmpty }
            #expect(environment.metrics.text.contains("waybill_redis_fault{fault=\"evicts-expiring\"} 1"))
            #expect(environment.metrics.text.contains("waybill_upstream_up{upstream=\"redis\"} 1"))
            await server.stop()
            try await self.until("away") { !remarks().isEmpty }
            #expect(environment.metrics.text.contains("waybill_upstream_up{upstream=\"redis\"} 0"))
            #expect(environment.readiness.reasons.isEmpty, "another process could do no more")
            group.cancelAll()
        }
        await redis.close()
    }

    @Test func anAllKeysPolicyStopsTheStartOfAnOrderWriter() async throws {
        let server = try await RedisServer.start(["--maxmemory-policy", "allkeys-lru"])
        let environment = try self.environment(server)
        let error = await #expect(throws: SettingsError.self) {
            try await RedisMonitor.check(environment, refusesEviction: true)
        }
        #expect(error?.description.hasPrefix("WAYBILL_REDIS_URL: maxmemory-policy is allkeys-lru at ") == true)
        #expect(error?.description.contains("set maxmemory-policy to noeviction") == true)
        try await RedisMonitor.check(environment, refusesEviction: false)
        try await server.everywhere("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
        try await RedisMonitor.check(environment, refusesEviction: true)
        await server.stop()
        // The check waits for a server that does not answer.
        try await RedisMonitor.check(environment, refusesEviction: true)
    }
}
