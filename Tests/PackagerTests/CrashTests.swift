import Glibc
import TestKit
import Testing

@testable import Packager

/// A worker that is killed between any two steps of DESIGN §4 loses nothing and leaves nothing twice.
@Suite struct CrashTests {
    /// Each moment, with the first changes there are and later on, in the middle of orders that stand.
    static let moments = CrashPoint.allCases.flatMap { point in
        // This one comes for each order of a batch.
        (point == .folded ? [3, 12] : [1, 2]).map { "\(point):\($0)" }
    }

    @Test(.timeLimit(.minutes(3)), arguments: Self.moments)
    func aWorkerThatIsKilledLosesNothing(_ moment: String) async throws {
        try await CrashScene.run { scene in
            var history = CrashHistory(seed: moment.utf8.reduce(0) { $0 &* 31 &+ UInt64($1) })
            try await scene.register(CrashHistory.gone(1))
            try await scene.register(CrashHistory.gone(2))
            let first = try scene.worker(["WAYBILL_CRASH_AT": moment])
            try await scene.publish(history.part(removing: CrashHistory.gone(1)))
            // The second time comes with the second part at the latest, in whatever batches the first one was taken.
            if !moment.hasSuffix(":1") { _ = try await scene.caughtUpOrDied(first) }
            try await scene.publish(history.part(removing: CrashHistory.gone(2)))
            #expect(try await first.exit(within: .seconds(30)) == .signal(SIGKILL))
            let second = try scene.worker()
            try await scene.caughtUp(second)
            try await scene.publish(history.part(10))
            try await scene.caughtUp(second)
            #expect(await second.stop() == .code(0))
            try await scene.expectSame(as: history.log, repeats: 1)
        }
    }
}
