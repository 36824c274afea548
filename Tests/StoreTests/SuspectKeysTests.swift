import Redis
import TestKit
import TestTraits
import Testing

@testable import Store

/// The decisions, without Redis.
@Suite struct SuspectKeysTests {
    private static let start = ContinuousClock.now
    private var keys = SuspectKeys()
    private let digest = SuspectKeys.Digest([1])

    @Test mutating func onlyDeathsThatFollowEachOtherCount() {
        self.keys.learn([self.digest: SuspectKeys.Beginnings()], after: 1, now: Self.start)
        #expect(self.keys.contains([1]))
        #expect(!self.keys.contains([2]))
        #expect(self.keys.begin([1], at: "t/0/5", now: Self.start) == SuspectKeys.Beginnings(place: "t/0/5", count: 1))
        self.keys.end([1], isDone: false, now: Self.start)
        #expect(self.keys.begin([1], at: "t/0/5", now: Self.start).count == 1, "it came to an end")
        #expect(self.keys.begin([1], at: "t/0/6", now: Self.start).count == 1, "another record")
        // The next owners.
        for count in 1...SuspectKeys.mostBeginnings {
            var next = SuspectKeys()
            next.learn([self.digest: SuspectKeys.Beginnings(place: "t/0/6", count: count)], after: 1, now: Self.start)
            #expect(next.beginnings(of: [1]) == count)
            let begun = next.begin([1], at: "t/0/6", now: Self.start)
            #expect(begun.count == count + 1)
            #expect((begun.count > SuspectKeys.mostBeginnings) == (count == 3))
        }
    }

    @Test mutating func aKeyIsReleasedAWhileAfterItsFirstRecordIsDone() {
        let (end, other) = (Self.start + .seconds(5), SuspectKeys.Digest([2]))
        self.keys.learn(
            [self.digest: SuspectKeys.Beginnings(), other: SuspectKeys.Beginnings()], after: 1, now: Self.start)
        _ = self.keys.begin([1], at: "t/0/5", now: end)
        self.keys.end([1], isDone: true, now: end)
        self.keys.end([1], isDone: true, now: end + .seconds(20))
        #expect(self.keys.release(now: end + .seconds(29)).isEmpty)
        #expect(self.keys.release(now: end + SuspectKeys.calm) == [self.digest])
        #expect(!self.keys.contains([1]))
        #expect(self.keys.contains([2]), "nothing of it came yet")
        #expect(self.keys.release(now: Self.start + SuspectKeys.kept).isEmpty, "it may be another worker's")
        #expect(self.keys.isEmpty)
    }
}

/// The marks in Redis.
@Suite(.server, .timeLimit(.minutes(2))) struct WorkMarksTests {
    /// - Parameter patience: seconds without a beat; default: more than a test takes.
    private func marks(
        _ fixture: StoreFixture, _ group: String, instance: String = "", patience: Int64 = 3600
    ) -> WorkMarks {
        WorkMarks(
            redis: fixture.redis, group: group, instance: instance, slots: 2, patienceMilliseconds: patience * 1000)
    }

    @Test func theWorkOfAWorkerThatEndedIsSuspect() async throws {
        try await StoreFixture.with { fixture in
            let (ended, next) = (self.marks(fixture, "g1"), self.marks(fixture, "g1"))
            try await ended.beat()
            try await ended.set(ended.mark(slot: 0, [[1], [2]]))
            try await ended.set(ended.mark(slot: 1, [[3], nil]))
            try await ended.set(ended.mark(slot: 0, [[4], [0, 255, 10]]))
            try await next.beat()
            #expect(try await next.examine().isEmpty, "it lives")
            #expect(try await self.marks(fixture, "g2").examine().isEmpty, "another group")
            let later = self.marks(fixture, "g1", patience: 0)
            var suspects: [SuspectKeys.Digest: SuspectKeys.Beginnings] = [:]
            // A millisecond without a beat.
            try await eventually("its end") {
                suspects = try await later.examine()
                return !suspects.isEmpty
            }
            #expect(Set(suspects.keys) == Set([[3], nil, [4], [0, 255, 10]].map { SuspectKeys.Digest($0) }))
            #expect(suspects.values.allSatisfy { $0 == SuspectKeys.Beginnings() })
            let begun = SuspectKeys.Beginnings(place: "topic/3/17", count: 2)
            try await next.note(SuspectKeys.Digest([3]), begun)
            try await next.forget([SuspectKeys.Digest([4]), SuspectKeys.Digest(nil)])
            let left = try await self.marks(fixture, "g1").examine()
            #expect(left[SuspectKeys.Digest([3])] == begun)
            #expect(left.count == 2)
        }
    }

    @Test func whatAWorkerHadBeforeItsRestartIsSuspectAtOnce() async throws {
        try await StoreFixture.with { fixture in
            let (ended, stopped) = (self.marks(fixture, "g", instance: "a"), self.marks(fixture, "g", instance: "a"))
            try await ended.set(ended.mark(slot: 0, [[1]]))
            try await ended.beat()
            try await stopped.set(stopped.mark(slot: 1, [[2]]))
            try await stopped.beat()
            try await stopped.end()
            #expect(try await self.marks(fixture, "g", instance: "b").examine().isEmpty)
            let again = self.marks(fixture, "g", instance: "a")
            try await again.set(again.mark(slot: 0, [[3]]))
            #expect(try await Array(again.examine().keys) == [SuspectKeys.Digest([1])])
        }
    }

    /// The beginnings of a key, as Redis has them.
    private func beginnings(_ fixture: StoreFixture, of key: [UInt8]) async throws -> Int? {
        try await self.marks(fixture, "g").examine()[SuspectKeys.Digest(key)]?.count
    }

    /// A record that waits for an upstream is not to blame; one that takes longer than all of them may be.
    @Test(arguments: [(Duration.seconds(60), Duration.zero, 2), (.zero, .seconds(60), 0), (.zero, .zero, 2)])
    func aRecordInWorkAloneCountsWhileItMayBeToBlame(
        _ instant: Duration, _ limit: Duration, _ expected: Int
    ) async throws {
        try await StoreFixture.with { fixture in
            let begun = SuspectKeys.Beginnings(place: "t/0/5", count: 2)
            let seen = await self.marks(fixture, "g").alone([1], begun, limit: limit, instant: instant) {
                await Result {
                    try await eventually("\(expected)") {
                        try await self.beginnings(fixture, of: [1]) == expected
                    }
                }
            }
            try seen.get()
            #expect(try await self.beginnings(fixture, of: [1]) == 0, "it came to an end")
        }
    }
}

extension Result where Failure == any Error {
    fileprivate init(_ body: () async throws -> Success) async {
        do { self = .success(try await body()) } catch { self = .failure(error) }
    }
}
