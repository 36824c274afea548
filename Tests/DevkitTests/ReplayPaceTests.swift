import Testing

@testable import Devkit

@Suite struct ReplayPaceTests {
    @Test(arguments: [1, 7, 100, 999, 5000, 1_000_000])
    func eachChangeIsDueAtItsMomentAndNotBefore(_ rate: Int) {
        let pace = ReplayPace(rate: rate)
        for index in [0, 1, 2, 10, 499, 12_345] {
            let moment = pace.moment(of: index)
            // The moment is truncated to microseconds, so the change is due one microsecond later at the latest.
            #expect(pace.due(sent: index, of: .max, after: moment + .microseconds(1)) >= 1)
            #expect(pace.due(sent: index + 2, of: .max, after: moment) == 0 || rate >= 1_000_000)
        }
    }

    /// Simulates a second of a replay that checks the clock whenever a change is due.
    @Test(arguments: [50, 200, 1000])
    func theRateIsSpreadEvenlyOverASecond(_ rate: Int) {
        let pace = ReplayPace(rate: rate)
        var sent = 0
        var steps: [Int] = []
        var now = Duration.zero
        while now < .seconds(1) {
            let due = pace.due(sent: sent, of: 100_000, after: now)
            if due > 0 { steps.append(due) }
            sent += due
            now = max(now + .microseconds(10), pace.moment(of: sent))
        }
        #expect((rate...rate + 1).contains(sent))
        #expect((steps.max() ?? 0) <= 2)
    }

    @Test func lateChangesCatchUpInLimitedSteps() {
        let pace = ReplayPace(rate: 1000)
        #expect(pace.due(sent: 0, of: 10_000, after: .seconds(3)) == ReplayPace.limit)
        #expect(pace.due(sent: 2990, of: 10_000, after: .seconds(3)) == 11)
        #expect(pace.due(sent: 9_999, of: 10_000, after: .seconds(60)) == 1)
        #expect(pace.due(sent: 10_000, of: 10_000, after: .seconds(60)) == 0)
        #expect(pace.due(sent: 0, of: 10_000, after: .seconds(-1)) == 1)
        #expect(ReplayPace(rate: .max).due(sent: 0, of: 10_000, after: .seconds(1 << 40)) == ReplayPace.limit)
    }

    @Test func changesWithoutARateAreDueUpToTheLimitAtOnce() {
        let pace = ReplayPace(rate: 0)
        #expect(pace.due(sent: 0, of: 10_000, after: .zero) == ReplayPace.limit)
        #expect(pace.due(sent: 9_900, of: 10_000, after: .zero) == 100)
        #expect(pace.moment(of: 10_000) == .zero)
    }
}
