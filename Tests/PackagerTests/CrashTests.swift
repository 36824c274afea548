import Glibc
import TestKit
import TestTraits
import Testing

@testable import Packager

/// A worker that is killed between any two steps of Design §4 loses nothing and leaves nothing twice.
@Suite(.server) struct CrashTests {
    /// Each crash point, with the very first changes, and later, when orders already exist.
    static let moments = CrashPoint.allCases.flatMap { point in
        switch point {
        // This point is reached for each order of a batch.
        case .folded: ["\(point):3", "\(point):12"]
        // The first commit happens on the way to the second occurrence of the other points.
        case .committing, .committed: ["\(point):2"]
        default: ["\(point):1", "\(point):2"]
        }
    }

    /// While one task stalls with an order, the process dies elsewhere with others: their commits must not pass the
    /// record in hand.
    @Test(
        .timeLimit(.minutes(3)),
        arguments: [("signed", "committed"), ("written", "published"), ("published", "committing")])
    func aWorkerKilledWithTwoTasksInFlightLosesNothing(_ stands: String, _ dies: String) async throws {
        try await CrashFixture.run { fixture in
            var history = CrashHistory(seed: 21)
            let first = try fixture.worker([
                "WAYBILL_STALL_AT": "\(stands):1:40", "WAYBILL_CRASH_AT": "\(dies):1",
            ])
            try await first.line(containing: "assigned")
            try await fixture.publish(history.each(.replaced(number: "first"), of: ["o0"]))
            try await eventually("in hand") {
                try await fixture.server.command("INFO", "commandstats").contains("cmdstat_hmget:")
            }
            try await fixture.publish(history.part())
            #expect(try await first.exit(within: .seconds(30)) == .signal(SIGKILL), "no other task came to \(dies)")
            let second = try fixture.worker()
            try await fixture.caughtUp(second)
            #expect(await second.stop() == .code(0))
            try await fixture.expectSame(as: history.log, repeats: 2)
        }
    }

    @Test(.timeLimit(.minutes(3)), arguments: Self.moments)
    func aWorkerKilledAtEachCrashPointLosesNothing(_ moment: String) async throws {
        try await CrashFixture.run { fixture in
            var history = CrashHistory(seed: moment.utf8.reduce(0) { $0 &* 31 &+ UInt64($1) })
            try await fixture.register(CrashHistory.gone(1))
            try await fixture.register(CrashHistory.gone(2))
            let first = try fixture.worker(["WAYBILL_CRASH_AT": moment])
            try await fixture.publish(history.part(removing: CrashHistory.gone(1)))
            // The second occurrence is in the second part at the latest, however the first part was batched.
            if !moment.hasSuffix(":1") { _ = try await fixture.caughtUpOrDied(first) }
            try await fixture.publish(history.part(removing: CrashHistory.gone(2)))
            #expect(
                try await first.exit(within: .seconds(30)) == .signal(SIGKILL), "\(moment) did not come")
            let second = try fixture.worker()
            try await fixture.caughtUp(second)
            try await fixture.publish(history.part(10))
            try await fixture.caughtUp(second)
            #expect(await second.stop() == .code(0))
            try await fixture.expectSame(as: history.log, repeats: 1)
        }
    }
}
