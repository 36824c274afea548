import Testing

@testable import Kafka

struct CommitScheduleTests {
    private let now = ContinuousClock.now
    private let positions = [KafkaPosition(topic: "t", partition: 0, offset: 1)]

    /// The request to commit, if the step is one.
    private func request(_ step: CommitSchedule.Step) -> CommitSchedule.Request? {
        if case .commit(let request) = step { request } else { nil }
    }

    @Test func theNextCommitIsDelayedUnlessOneIsRequested() throws {
        var schedule = CommitSchedule()
        let first = try #require(self.request(schedule.next(self.positions, in: 1, now: self.now)))
        #expect(first.positions == self.positions)
        _ = schedule.end(first, nil, jitter: 1, now: self.now)
        #expect(self.request(schedule.next(self.positions, in: 1, now: self.now)) == nil)
        #expect(schedule.wake() == true, "a sleeping thread wants a signal")
        #expect(schedule.wake() == false, "one is enough")
        let ticket = schedule.request()
        let urgent = try #require(self.request(schedule.next(self.positions, in: 1, now: self.now)))
        #expect(urgent.ticket == ticket)
        #expect(schedule.served < ticket)
        _ = schedule.end(urgent, nil, jitter: 1, now: self.now)
        #expect(schedule.served == ticket)
        #expect(self.request(schedule.next(self.positions, in: 1, now: self.now + schedule.pause)) != nil)
    }

    @Test func aCommitRequestWithNothingToCommitIsServed() {
        var schedule = CommitSchedule()
        let ticket = schedule.request()
        #expect(self.request(schedule.next([], in: 1, now: self.now)) == nil)
        #expect(schedule.served == ticket)
    }

    @Test func aFailureIsTriedAgainWithGrowingPauses() throws {
        var schedule = CommitSchedule()
        var now = self.now
        let away = KafkaError(.transport, "away", isRetriable: true)
        var logged = 0
        for expected in [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000] {
            let request = try #require(self.request(schedule.next(self.positions, in: 1, now: now)))
            _ = schedule.end(request, away, jitter: 1, now: now)
            logged += schedule.isFailureLogged ? 1 : 0
            #expect(self.request(schedule.next(self.positions, in: 1, now: now + .milliseconds(expected - 1))) == nil)
            now += .milliseconds(expected + 1)
        }
        #expect(logged == 4, "1, 2, 4, 8")
    }

    @Test func aCommitRequestDuringAFailureGetsOneAttempt() throws {
        var schedule = CommitSchedule()
        let away = KafkaError(.transport, "away", isRetriable: true)
        let first = try #require(self.request(schedule.next(self.positions, in: 1, now: self.now)))
        _ = schedule.end(first, away, jitter: 1, now: self.now)
        let ticket = schedule.request()
        let second = try #require(self.request(schedule.next(self.positions, in: 1, now: self.now)))
        _ = schedule.end(second, away, jitter: 1, now: self.now)
        #expect(self.request(schedule.next(self.positions, in: 1, now: self.now)) == nil)
        #expect(!schedule.isHopeless(ticket))
    }

    @Test(arguments: [KafkaError(.rebalanced, "", isRetriable: true), KafkaError(.fenced, "")])
    func aCommitRefusedAfterARebalanceIsGivenUp(_ error: KafkaError) throws {
        var schedule = CommitSchedule()
        let ticket = schedule.request()
        let request = try #require(self.request(schedule.next(self.positions, in: 1, now: self.now)))
        #expect(!schedule.isHopeless(ticket))
        _ = schedule.end(request, error, jitter: 1, now: self.now)
        #expect(schedule.isHopeless(ticket))
        let next = schedule.request()
        #expect(!schedule.isHopeless(next), "the next one is tried first")
    }

    @Test func aFinishedScheduleEndsTheCommitThread() {
        var schedule = CommitSchedule()
        #expect(schedule.finish().count == 0)
        guard case .end = schedule.next(self.positions, in: 1, now: self.now) else {
            Issue.record("the thread is to end")
            return
        }
    }
}
