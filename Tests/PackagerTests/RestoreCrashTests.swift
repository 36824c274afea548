import Foundation
import Glibc
import Kafka
import Model
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Packagers that are killed in the middle of a restore. A killed packager's jobs are free only when its lease of 15 s
/// ends, so these tests take that long.
@Suite(.server, .timeLimit(.minutes(5))) struct RestoreCrashTests {
    private static let count = 900

    /// The content before Redis is emptied, put there by a packager that has stopped.
    private struct Filled {
        let orders: [OrderKey]
        let registrations: [RegistrationKey]
        let content: Fleet.Content
    }

    private func fill(_ fleet: Fleet) async throws -> Filled {
        let names = (0..<Self.count).map { "o\($0)" }
        let orders = try names.map(ChangeLog.key)
        try await fleet.working([try fleet.member()]) {
            try await fleet.publish(names.map { ("order.replaced", $0, "r\($0)", ChangeLog.document($0)) })
            try await fleet.settle()
        }
        let registrations = try await fleet.register(200, orders: orders)
        return Filled(
            orders: orders, registrations: registrations, content: try await fleet.content(orders, registrations))
    }

    /// Returns the processes that own unfinished jobs.
    private func owners(_ fleet: Fleet) async throws -> Set<String> {
        let jobs = "waybill:1:view:ranges:{jobs}:\(fleet.producer.cluster)"
        let reply = try await fleet.redis.send(RedisCommand("HVALS", .string(jobs)))
        // <from>:<to>:<done>:<lease>:<owner>, where the owner begins with 32 letters unique to its process.
        return Set(
            (reply.array ?? []).compactMap { value in
                let parts = (value.text ?? "").split(separator: ":", omittingEmptySubsequences: false)
                guard parts.count == 5, parts[4].utf8.count > 32 else { return nil }
                return String(parts[4].prefix(32))
            })
    }

    /// Empties Redis while the packagers are stopped, so that all of them notice together.
    private func lose(_ fleet: Fleet, under packagers: [ChildProcess]) async throws {
        for packager in packagers { packager.signal(SIGSTOP) }
        _ = try await fleet.redis.send(RedisCommand("FLUSHALL"))
        for packager in packagers { packager.signal(SIGCONT) }
    }

    /// Empties Redis until all packagers are seen restoring, and leaves them stopped there. One alone may be done
    /// before another begins; then Redis is emptied again.
    private func stopAmidRestoring(_ fleet: Fleet, _ packagers: [ChildProcess]) async throws {
        for _ in 0..<50 {
            try await self.lose(fleet, under: packagers)
            var areStopped = false
            try await eventually("restoring or restored") {
                guard try await self.owners(fleet).count == packagers.count else { return try await fleet.isComplete() }
                for packager in packagers { packager.signal(SIGSTOP) }
                let (owners, isComplete) = (try await self.owners(fleet), try await fleet.isComplete())
                areStopped = owners.count == packagers.count && !isComplete
                if !areStopped { for packager in packagers { packager.signal(SIGCONT) } }
                return areStopped
            }
            if areStopped { return }
        }
        Issue.record("they never restored at the same time")
    }

    private func expectRestored(_ fleet: Fleet, _ filled: Filled) async throws {
        try await eventually("complete", within: .seconds(90)) { try await fleet.isComplete() }
        #expect(try await fleet.content(filled.orders, filled.registrations) == filled.content)
        try await fleet.verify([filled.orders[1], filled.orders[Self.count - 1]])
        // Changes continue to be applied.
        try await fleet.publish([("order.patched", "o2", "late", ["statusDescription": "late"])])
        try await fleet.settle()
        let state = try await OrderStore(redis: fleet.redis).orders([filled.orders[2]])[0].get()?.state
        #expect(state?.version.ordinal == 2)
        #expect(state?.document.members["statusDescription"] == "late")
    }

    @Test func anotherPackagerFinishesTheRestoreOfAKilledOne() async throws {
        try await Fleet.run(partitions: 16) { fleet in
            let filled = try await self.fill(fleet)
            let first = try fleet.child("waybill-packager")
            let second = try fleet.child("waybill-packager")
            for packager in [first, second] { try await packager.line(containing: "operations") }
            try await self.stopAmidRestoring(fleet, [first, second])
            first.signal(SIGKILL)
            #expect(try await first.exit(within: .seconds(10)) == .signal(SIGKILL))
            #expect(try await !fleet.isComplete(), "it was killed too late")
            second.signal(SIGCONT)
            try await self.expectRestored(fleet, filled)
            #expect(await second.stop(grace: .seconds(20)) == .code(0))
        }
    }

    @Test func theOnlyPackagerFinishesTheRestoreAfterAKillAndRestart() async throws {
        try await Fleet.run(partitions: 16) { fleet in
            let filled = try await self.fill(fleet)
            let first = try fleet.child("waybill-packager")
            try await first.line(containing: "operations")
            try await self.stopAmidRestoring(fleet, [first])
            first.signal(SIGKILL)
            #expect(try await first.exit(within: .seconds(10)) == .signal(SIGKILL))
            #expect(try await !fleet.isComplete(), "it was killed too late")
            let second = try fleet.child("waybill-packager")
            try await self.expectRestored(fleet, filled)
            #expect(await second.stop(grace: .seconds(20)) == .code(0))
        }
    }
}
