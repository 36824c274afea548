import Testing

@testable import Model

/// The fold under crashes and redeliveries, against a reference that knows nothing of workers.
@Suite struct OrderFoldPropertyTests {
    /// 600 histories; a failure names its seed.
    @Test(arguments: 0..<15)
    func anyBatchesCrashesAndRedeliveriesEndInTheSameOrder(_ part: Int) throws {
        let base = try Examples.order(4)
        for seed in part * 40..<(part + 1) * 40 {
            var history = try FoldHistory(seed: UInt64(seed), base: base)
            while history.isUnfinished { try history.step() }
            guard history.faults.isEmpty else {
                Issue.record("seed \(seed): \(history.faults.joined(separator: "; "))")
                return
            }
        }
    }

    /// Otherwise the histories would prove less than they claim.
    @Test func theHistoriesCoverEveryOutcomeAndCrash() throws {
        var seen: [String: Int] = [:]
        for seed in 0..<200 {
            var history = try FoldHistory(seed: UInt64(seed), base: try Examples.order(4))
            while history.isUnfinished { try history.step() }
            seen.merge(history.seen) { $0 + $1 }
        }
        for what in [
            "applied", "unchanged", "redelivered", "duplicate", "outOfSequence", "refused", "none", "advanced",
            "changed", "removed", "crash before the write", "crash before the commit", "partition taken back",
            "topic made anew",
        ] { #expect(seen[what] ?? 0 >= 50, "\(what): \(seen[what] ?? 0) times") }
    }
}
