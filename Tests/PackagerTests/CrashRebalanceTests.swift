import Glibc
import Kafka
import Model
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// A worker that stands still loses its partitions; what it does when it wakes up must not harm who took over.
@Suite(.server) struct CrashRebalanceTests {
    @Test(
        .timeLimit(.minutes(3)),
        arguments: [CrashPoint.folded, .assetsPut, .written, .published, .committing])
    func aWorkerThatWakesUpBehindItsTimeChangesNothing(_ point: CrashPoint) async throws {
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
            // Whatever the sleeper has in hand, it is old when it wakes up.
            try await fixture.publish(history.each(.replaced(number: "last")))
            try await fixture.caughtUp(other)
            let committed = try await fixture.admin.committed(
                group: Packager.group, topic: fixture.topics.orderChanges)
            sleeper.signal(SIGCONT)
            // When it is back in the group it is done with what it had in hand.
            try await eventually("back in the group") {
                sleeper.output.split(separator: "\n").count { $0.contains("assigned") } >= 2
            }
            // Of other orders, so that nothing covers what the sleeper did.
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

    /// It is about to end the registrations of an order, or has published that, and wakes up when the order has come
    /// again.
    @Test(.timeLimit(.minutes(3)), arguments: [CrashPoint.written, .published])
    func aRemovalThatWakesUpLateLeavesANewerRegistration(_ point: CrashPoint) async throws {
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
