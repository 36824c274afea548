import Glibc
import Kafka
import Model
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// A stalled worker loses its partitions; after it resumes, it must not harm its successor.
@Suite(.server) struct CrashRebalanceTests {
    @Test(
        .timeLimit(.minutes(3)),
        arguments: [CrashPoint.folded, .assetsPut, .written, .published, .committing])
    func aWorkerResumedAfterARebalanceChangesNothing(_ point: CrashPoint) async throws {
        try await CrashFixture.run { fixture in
            var history = CrashHistory(seed: 7)
            try await fixture.register(CrashHistory.gone(1))
            try await fixture.register(CrashHistory.gone(2))
            let sleeper = try fixture.worker(["WAYBILL_STALL_AT": "\(point)"])
            try await fixture.publish(history.each(.replaced(number: "first")))
            try await fixture.stopped(sleeper)
            let other = try fixture.worker()
            try await fixture.publish(history.part(removing: CrashHistory.gone(1)))
            try await fixture.caughtUp(other)
            try await fixture.publish(history.part(removing: CrashHistory.gone(2)))
            // Everything that the sleeper has in hand is outdated when it resumes.
            try await fixture.publish(history.each(.replaced(number: "last")))
            try await fixture.caughtUp(other)
            let committed = try await fixture.admin.committed(
                group: Packager.group, topic: fixture.topics.orderChanges)
            sleeper.signal(SIGCONT)
            // Once it is back in the group, it has finished what it had in hand.
            try await eventually("back in the group") {
                sleeper.output.split(separator: "\n").count { $0.contains("assigned") } >= 2
            }
            // Changes of other orders, so that nothing hides what the sleeper did.
            try await fixture.publish(history.each(.replaced(number: "new"), of: (0..<8).map { "new\($0)" }))
            try await fixture.caughtUp(other)
            for (partition, offset) in try await fixture.admin.committed(
                group: Packager.group, topic: fixture.topics.orderChanges)
            {
                #expect(offset >= committed[partition] ?? 0)
            }
            #expect(await sleeper.stop(grace: .seconds(20)) == .code(0))
            #expect(await other.stop(grace: .seconds(20)) == .code(0))
            try await fixture.expectSame(as: history.log, repeats: 2, mayFallBack: true)
        }
    }

    /// The worker is about to end an order's registrations, or has published their end, and resumes after the order was
    /// created again.
    @Test(.timeLimit(.minutes(3)), arguments: [CrashPoint.written, .published])
    func aRemovalResumedLateKeepsANewerRegistration(_ point: CrashPoint) async throws {
        try await CrashFixture.run { fixture in
            let name = CrashHistory.gone(1)
            var history = CrashHistory(seed: 8)
            let sleeper = try fixture.worker(["WAYBILL_STALL_AT": "\(point):2"])
            try await fixture.publish(history.each(.replaced(number: "first"), of: [name]))
            try await fixture.caughtUp(sleeper)
            try await fixture.register(name)
            try await fixture.publish(history.each(.removed, of: [name]))
            try await fixture.stopped(sleeper)
            let other = try fixture.worker()
            try await fixture.caughtUp(other)
            try await fixture.publish(history.each(.replaced(number: "again"), of: [name]))
            try await fixture.caughtUp(other)
            let newer = try await fixture.registerAnew(name)
            sleeper.signal(SIGCONT)
            try await eventually("back in the group") {
                sleeper.output.split(separator: "\n").count { $0.contains("assigned") } >= 2
            }
            #expect(await sleeper.stop(grace: .seconds(20)) == .code(0))
            #expect(await other.stop(grace: .seconds(20)) == .code(0))
            for (key, record) in newer {
                #expect(try await Registrations(redis: fixture.redis).registration(key) == record)
                let last = try await fixture.published()[fixture.topics.registrations]?.last { $0.keyText == key.text }
                #expect(last?.value == record.encoded, "what stands in Redis is what is restored")
            }
        }
    }
}
