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
        try await CrashFixture.run { scene in
            var history = CrashHistory(seed: 7)
            try await scene.register(CrashHistory.gone(1))
            try await scene.register(CrashHistory.gone(2))
            let sleeper = try scene.worker(["WAYBILL_STALL_AT": "\(point)"])
            try await scene.publish(history.each(.replaced(number: "first")))
            try await scene.stopped(sleeper)
            let other = try scene.worker()
            try await scene.publish(history.part(removing: CrashHistory.gone(1)))
            try await scene.caughtUp(other)
            try await scene.publish(history.part(removing: CrashHistory.gone(2)))
            // Whatever the sleeper has in hand, it is old when it wakes up.
            try await scene.publish(history.each(.replaced(number: "last")))
            try await scene.caughtUp(other)
            let committed = try await scene.admin.committed(
                group: Packager.group, topic: scene.topics.orderChanges)
            sleeper.signal(SIGCONT)
            // When it is back in the group it is done with what it had in hand.
            try await eventually("back in the group") {
                sleeper.output.split(separator: "\n").count { $0.contains("assigned") } >= 2
            }
            // Of other orders, so that nothing covers what the sleeper did.
            try await scene.publish(history.each(.replaced(number: "new"), of: (0..<8).map { "new\($0)" }))
            try await scene.caughtUp(other)
            for (partition, offset) in try await scene.admin.committed(
                group: Packager.group, topic: scene.topics.orderChanges)
            {
                #expect(offset >= committed[partition] ?? 0)
            }
            #expect(await sleeper.stop(grace: .seconds(20)) == .code(0))
            #expect(await other.stop(grace: .seconds(20)) == .code(0))
            try await scene.expectSame(as: history.log, repeats: 2, mayFallBack: true)
        }
    }

    /// It is about to end the registrations of an order, or has published that, and wakes up when the order has come
    /// again.
    @Test(.timeLimit(.minutes(3)), arguments: [CrashPoint.written, .published])
    func aRemovalThatWakesUpLateLeavesANewerRegistration(_ point: CrashPoint) async throws {
        try await CrashFixture.run { scene in
            let name = CrashHistory.gone(1)
            var history = CrashHistory(seed: 8)
            let sleeper = try scene.worker(["WAYBILL_STALL_AT": "\(point):2"])
            try await scene.publish(history.each(.replaced(number: "first"), of: [name]))
            try await scene.caughtUp(sleeper)
            try await scene.register(name)
            try await scene.publish(history.each(.removed, of: [name]))
            try await scene.stopped(sleeper)
            let other = try scene.worker()
            try await scene.caughtUp(other)
            try await scene.publish(history.each(.replaced(number: "again"), of: [name]))
            try await scene.caughtUp(other)
            let newer = try await scene.registerAnew(name)
            sleeper.signal(SIGCONT)
            try await eventually("back in the group") {
                sleeper.output.split(separator: "\n").count { $0.contains("assigned") } >= 2
            }
            #expect(await sleeper.stop(grace: .seconds(20)) == .code(0))
            #expect(await other.stop(grace: .seconds(20)) == .code(0))
            for (key, record) in newer {
                #expect(try await Registrations(redis: scene.redis).registration(key) == record)
                let last = try await scene.published()[scene.topics.registrations]?.last { $0.keyText == key.text }
                #expect(last?.value == record.encoded, "what stands in Redis is what is restored")
            }
        }
    }
}
