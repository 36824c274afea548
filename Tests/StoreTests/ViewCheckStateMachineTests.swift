import NIOCore
import Testing

@testable import Store

/// The times at which the view is checked, and the verdicts.
@Suite struct ViewCheckStateMachineTests {
    private static let start = NIODeadline.uptimeNanoseconds(1_000_000_000)

    @Test func requestsDuringAViewCheckShareIt() {
        var inquiry = ViewCheckStateMachine()
        #expect(inquiry.asked(now: Self.start) == .look(Self.start))
        for _ in 0..<3 { #expect(inquiry.asked(now: Self.start) == .wait) }
        #expect(inquiry.state == .looking(waiting: 4))
        inquiry.looked(now: Self.start)
        #expect(inquiry.state == .idle(notBefore: Self.start + ViewCheckStateMachine.pause))
    }

    @Test func theNextViewCheckStartsAfterAPause() {
        var inquiry = ViewCheckStateMachine()
        _ = inquiry.asked(now: Self.start)
        inquiry.looked(now: Self.start)
        #expect(inquiry.asked(now: Self.start) == .look(Self.start + ViewCheckStateMachine.pause))
        inquiry.looked(now: Self.start)
        let later = Self.start + .seconds(1)
        #expect(inquiry.asked(now: later) == .look(later), "who comes late waits for nothing")
    }

    @Test func requestsOverTheLimitAreRefusedDuringAViewCheck() {
        var inquiry = ViewCheckStateMachine()
        _ = inquiry.asked(now: Self.start)
        for _ in 1..<ViewCheckStateMachine.limit { #expect(inquiry.asked(now: Self.start) == .wait) }
        #expect(inquiry.asked(now: Self.start) == .refuse)
        inquiry.looked(now: Self.start)
        #expect(inquiry.asked(now: Self.start) != .refuse)
    }

    private func verdict(_ shards: [MaterializedView.Shard], _ before: UInt64 = 1, _ after: UInt64 = 1)
        -> ViewCheckStateMachine.Verdict
    {
        ViewCheckStateMachine.Verdict(shards, before: before, after: after)
    }

    @Test func aViewIsConfirmedOnlyWhenEveryPlaceIsComplete() {
        let good = MaterializedView.Shard(hashTag: "1", epoch: "e:1", isHere: true, plan: nil)
        let former = MaterializedView.Shard(hashTag: "2", epoch: "e:1", isHere: false, plan: nil)
        let missing = MaterializedView.Shard(hashTag: "3", epoch: nil, isHere: false, plan: "p")
        #expect(self.verdict([good]) == .confirmed)
        #expect(self.verdict([good, good]) == .confirmed)
        #expect(self.verdict([former]) == .doubtful)
        #expect(self.verdict([good, former]) == .doubtful, "one of several is enough")
        #expect(self.verdict([missing, good]) == .doubtful)
        #expect(self.verdict([]) == .doubtful, "nobody said anything")
        let fresh = MaterializedView.Shard(hashTag: "4", epoch: nil, isHere: false, plan: "p", startedEmpty: true)
        #expect(self.verdict([good, fresh]) == .confirmed, "what is restored into an empty server is the newest")
        #expect(self.verdict([good, fresh, missing]) == .doubtful)
    }

    @Test func aServerReplacementInvalidatesARunningViewCheck() {
        let good = MaterializedView.Shard(epoch: "e:1", isHere: true, plan: nil)
        let former = MaterializedView.Shard(epoch: "e:1", isHere: false, plan: nil)
        #expect(self.verdict([good], 1, 2) == .overtaken)
        #expect(self.verdict([former], 1, 2) == .overtaken)
    }
}
