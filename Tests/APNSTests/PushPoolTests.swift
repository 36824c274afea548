import NIOCore
import Testing

@testable import APNS

private func at(_ milliseconds: Int64) -> NIODeadline {
    .uptimeNanoseconds(0) + .milliseconds(1_000_000 + milliseconds)
}

/// A pool with the part of its driver's state that holds the loads of the connections.
private struct PoolFixture {
    var pool: PushPool
    var loads: [Int: ConnectionLoad] = [:]

    init(_ connections: ClosedRange<Int> = 2...4, _ change: (inout APNSConfiguration) -> Void = { _ in }) {
        var configuration = APNSConfiguration()
        configuration.connections = connections
        change(&configuration)
        self.pool = PushPool(configuration: configuration)
        self.pool.wanted()
    }

    mutating func turn(_ now: Int64, oldest: Int64? = nil) -> [PushPool.Action] {
        self.pool.turn(
            now: at(now), oldestQueued: oldest.map(at), loads: self.loads.values.sorted { $0.id < $1.id })
    }

    mutating func opened(_ id: Int, proven: Bool = true) {
        self.pool.opened(id)
        if proven { self.pool.proven(id) }
        self.loads[id] = ConnectionLoad(id: id, limit: 10, freeStreams: 10)
    }

    mutating func fill(_ id: Int) {
        self.loads[id]?.openStreams = 10
        self.loads[id]?.freeStreams = 0
    }

    mutating func ended(_ id: Int, _ now: Int64) {
        self.loads[id] = nil
        self.pool.ended(id, now: at(now), jitter: 1)
    }

    /// Returns the times at which the pool opens connections, sampled every 10 ms.
    mutating func opens(_ times: ClosedRange<Int64>, succeed: Bool) -> [Int64] {
        var opens: [Int64] = []
        for now in stride(from: times.lowerBound, through: times.upperBound, by: 10) {
            for case .open(let id) in self.turn(now) {
                opens.append(now)
                if succeed { self.opened(id) } else { self.ended(id, now) }
            }
        }
        return opens
    }
}

@Suite struct PushPoolTests {
    /// The first outcome of a request that waits for a connection comes after `requestTimeout` only.
    @Test func unreachableAPNsIsReportedOnceAfterFourSeconds() {
        var fixture = PoolFixture(1...1)
        func reports(_ times: ClosedRange<Int64>, oldest: Int64?) -> [Int64] {
            var found: [Int64] = []
            for now in stride(from: times.lowerBound, through: times.upperBound, by: 100) {
                for action in fixture.turn(now, oldest: oldest) {
                    switch action {
                    case .open(let id): fixture.ended(id, now)
                    case .reportUnreachable: found.append(now)
                    case .retire: break
                    }
                }
            }
            return found
        }
        #expect(reports(0...30_000, oldest: nil).isEmpty, "nothing waits")
        #expect(reports(40_000...70_000, oldest: 40_000) == [44_000])
        let opens = fixture.opens(80_000...150_000, succeed: true)
        #expect(opens.count == 1)
        #expect(reports(160_000...170_000, oldest: 160_000).isEmpty, "there is a connection")
        for slot in fixture.pool.slots { fixture.ended(slot.id, 180_000) }
        #expect(reports(180_000...200_000, oldest: 180_000) == [184_000])
    }

    @Test func anUnusedConnectionHasWorkedAfterAMinuteWhateverTheBackoff() {
        for (life, failures) in [(59_000, 1), (60_000, 0)] as [(Int64, Int)] {
            var fixture = PoolFixture(1...1) { $0.backoff.most = .seconds(1) }
            #expect(fixture.turn(0) == [.open(0)])
            fixture.opened(0, proven: false)
            fixture.ended(0, life)
            #expect(fixture.pool.failures == failures)
        }
    }

    @Test func noConnectionIsOpenedBeforeOneIsWanted() {
        var pool = PushPool(configuration: APNSConfiguration())
        #expect(pool.turn(now: at(0), oldestQueued: nil, loads: []).isEmpty)
        #expect(pool.nextTurn == nil)
        pool.wanted()
        #expect(pool.turn(now: at(0), oldestQueued: nil, loads: []) == [.open(0)])
        pool.close()
        #expect(pool.turn(now: at(9_000), oldestQueued: nil, loads: []).isEmpty)
        #expect(pool.nextTurn == nil)
    }

    @Test func theFirstConnectionOpensAtOnceAndOthersASecondApart() {
        var fixture = PoolFixture(3...4)
        #expect(fixture.opens(0...10_000, succeed: true) == [0, 1_000, 2_000])
        #expect(fixture.pool.liveCount == 3)
    }

    @Test func theNextTurnIsTheTimeOfTheNextConnection() {
        var fixture = PoolFixture()
        _ = fixture.turn(0)
        #expect(fixture.pool.nextTurn == at(1_000))
        #expect(fixture.turn(999).isEmpty)
        #expect(fixture.turn(1_000) == [.open(1)])
    }

    @Test func aPoolSizeOfZeroBecomesOne() {
        var fixture = PoolFixture(0...0)
        #expect(fixture.opens(0...5_000, succeed: true) == [0])
    }

    @Test func failedAttemptsDoubleTheWaitUpToAMinute() {
        var fixture = PoolFixture(2...4)
        let opens = fixture.opens(0...200_000, succeed: false)
        let waits = zip(opens.dropFirst(), opens).map { $0 - $1 }
        #expect(waits.prefix(7) == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000])
        #expect(fixture.pool.isBackingOff)
    }

    @Test func onlyOneAttemptIsInFlightWhileAttemptsFail() {
        var fixture = PoolFixture(2...4)
        #expect(fixture.turn(0) == [.open(0)])
        fixture.ended(0, 100)
        #expect(fixture.turn(1_100) == [.open(1)])
        #expect(fixture.turn(9_000).isEmpty)
        #expect(fixture.pool.nextTurn == nil)
        #expect(!fixture.pool.isBackingOff)
    }

    @Test func aHandshakeWithoutAnAnswerDoesNotResetTheBackoff() {
        var fixture = PoolFixture(1...4)
        var opens: [Int64] = []
        for now in stride(from: Int64(0), through: 20_000, by: 10) {
            for case .open(let id) in fixture.turn(now) {
                opens.append(now)
                fixture.opened(id, proven: false)
                fixture.ended(id, now)
            }
        }
        #expect(opens == [0, 1_000, 3_000, 7_000, 15_000])
    }

    @Test func onlyANewerConnectionClearsAFailure() {
        var fixture = PoolFixture(2...4)
        _ = fixture.turn(0)
        fixture.opened(0, proven: false)
        _ = fixture.turn(1_000)
        fixture.ended(1, 1_000)
        #expect(fixture.pool.failures == 1)
        fixture.pool.proven(0)
        #expect(fixture.pool.failures == 1, "an older one that works does not say that new ones can be made")
        #expect(fixture.turn(2_000) == [.open(2)])
        fixture.opened(2)
        #expect(fixture.pool.failures == 0)
    }

    @Test func aRetiredConnectionDrainsWhileItsReplacementOpens() {
        var fixture = PoolFixture(1...4)
        _ = fixture.opens(0...10, succeed: true)
        fixture.pool.retired(0, now: at(5_000), jitter: 1)
        fixture.pool.retired(0, now: at(5_001), jitter: 1)
        #expect(fixture.turn(5_001) == [.open(1)])
        #expect(fixture.pool.slots.map(\.state) == [.draining, .connecting])
        #expect(fixture.pool.failures == 0)
        fixture.ended(0, 6_000)
        #expect(fixture.turn(9_000).isEmpty, "its end asks for no other")
    }

    @Test func aPeerThatSaysGoAwayToEverythingIsNotStormed() {
        var fixture = PoolFixture(2...4)
        var opens: [Int64] = []
        for now in stride(from: Int64(0), through: 30_000, by: 10) {
            for case .open(let id) in fixture.turn(now) {
                opens.append(now)
                fixture.opened(id)
                fixture.pool.retired(id, now: at(now), jitter: 1)
            }
        }
        #expect(opens.count == 8, "those that drain are bounded, too")
        #expect(zip(opens.dropFirst(), opens).allSatisfy { $0 - $1 >= 1_000 })
    }

    @Test func aConnectionThatWorkedIsReplacedAfterAShortRandomWait() {
        var fixture = PoolFixture(1...4)
        _ = fixture.opens(0...10, succeed: true)
        fixture.ended(0, 5_000)
        #expect(fixture.pool.nextTurn == at(5_100))
        let (early, due) = (fixture.turn(5_090), fixture.turn(5_100))
        #expect(early.isEmpty)
        #expect(due == [.open(1)])
    }

    @Test func theEndOfALongUnusedConnectionIsNoFailure() {
        var fixture = PoolFixture(1...4)
        _ = fixture.turn(0)
        fixture.opened(0, proven: false)
        fixture.ended(0, 3_600_000)
        #expect(fixture.pool.failures == 0)
    }

    @Test func thePoolGrowsOnlyWhenFullAndRequestsWaitLong() {
        var fixture = PoolFixture(1...3)
        _ = fixture.opens(0...10, succeed: true)
        #expect(fixture.turn(5_000, oldest: 1_000).isEmpty, "there is room")
        fixture.fill(0)
        #expect(fixture.turn(6_000, oldest: 5_600).isEmpty, "not old enough")
        #expect(fixture.turn(6_100, oldest: 5_600).isEmpty, "not for long")
        #expect(fixture.turn(7_000, oldest: nil).isEmpty, "a moment's relief starts it anew")
        #expect(fixture.turn(7_100, oldest: 5_600).isEmpty)
        #expect(fixture.turn(8_099, oldest: 5_600).isEmpty)
        #expect(fixture.turn(8_100, oldest: 5_600) == [.open(1)])
        #expect(fixture.turn(20_000, oldest: 5_600).isEmpty, "one is being made")
        fixture.opened(1)
        #expect(fixture.turn(21_000, oldest: 5_600).isEmpty, "the new one has room")
        fixture.fill(1)
        _ = fixture.turn(22_000, oldest: 5_600)
        #expect(fixture.turn(23_000, oldest: 5_600) == [.open(2)])
        fixture.opened(2)
        fixture.fill(2)
        for now in stride(from: Int64(24_000), to: 60_000, by: 500) {
            #expect(fixture.turn(now, oldest: 5_600).isEmpty)
        }
        #expect(fixture.pool.target == 3, "as many as there may be")
    }

    @Test func thePoolDoesNotGrowWhileAttemptsFail() {
        var fixture = PoolFixture(2...4)
        _ = fixture.turn(0)
        fixture.opened(0)
        fixture.fill(0)
        _ = fixture.turn(1_000)
        fixture.ended(1, 1_000)
        for now in stride(from: Int64(1_000), to: 30_000, by: 100) {
            for case .open(let id) in fixture.turn(now, oldest: 0) { fixture.ended(id, now) }
        }
        #expect(fixture.pool.target == 2)
    }

    @Test func thePoolShrinksByOneAfterEachWindowWithSpareCapacity() {
        var fixture = PoolFixture(1...3) { $0.growSustain = .zero }
        _ = fixture.opens(0...10, succeed: true)
        fixture.fill(0)
        for case .open(let id) in fixture.turn(2_000, oldest: 0) { fixture.opened(id) }
        fixture.fill(1)
        for case .open(let id) in fixture.turn(4_000, oldest: 0) { fixture.opened(id) }
        #expect(fixture.pool.liveCount == 3)
        for id in 0..<3 { fixture.loads[id] = ConnectionLoad(id: id, openStreams: 1, limit: 10, freeStreams: 9) }
        // The first window still contains the load.
        var retired: [Int64] = []
        for now in stride(from: Int64(5_000), through: 3_600_000, by: 1_000) {
            for case .retire(let id, nil) in fixture.turn(now) {
                retired.append(now)
                fixture.ended(id, now)
            }
        }
        #expect(retired == [1_201_000, 1_802_000], "the third is the least")
        #expect(fixture.pool.liveCount == 1)
        #expect(fixture.pool.target == 1)
    }

    @Test func thePoolDoesNotShrinkBelowThePeakDemand() {
        var fixture = PoolFixture(1...2) { $0.growSustain = .zero }
        _ = fixture.opens(0...10, succeed: true)
        fixture.fill(0)
        for case .open(let id) in fixture.turn(2_000, oldest: 0) { fixture.opened(id) }
        for now in stride(from: Int64(3_000), through: 3_600_000, by: 1_000) {
            let streams = now % 500_000 == 0 ? 6 : 0
            for id in 0..<2 {
                fixture.loads[id] = ConnectionLoad(id: id, openStreams: streams, limit: 10, freeStreams: 4)
            }
            #expect(fixture.turn(now).isEmpty, "twelve are more than half of ten")
        }
    }

    @Test func aFailingConnectionIsReplacedOnlyIfAnotherIsHealthy() {
        var fixture = PoolFixture(2...4)
        _ = fixture.opens(0...2_000, succeed: true)
        fixture.loads[0]?.failureShare = 300
        fixture.loads[0]?.failingSince = at(3_000)
        fixture.loads[1]?.failureShare = 300
        fixture.loads[1]?.failingSince = at(3_000)
        fixture.loads[1]?.lastGoodAnswer = at(3_900)
        #expect(fixture.turn(4_000).isEmpty, "the service is ill")
        fixture.loads[1]?.failureShare = 31
        #expect(fixture.turn(4_000).isEmpty, "both fail now and then")
        fixture.loads[1]?.failureShare = 30
        fixture.loads[1]?.lastGoodAnswer = at(2_900)
        #expect(fixture.turn(4_000).isEmpty, "nothing says that it is well now")
        fixture.loads[1]?.lastGoodAnswer = at(3_500)
        #expect(fixture.turn(4_000) == [.retire(0, .serverErrors), .open(2)])
        #expect(fixture.turn(4_000).isEmpty, "once")
    }

    @Test func theLeastBusyAndThenLongestWaitingConnectionIsChosen() {
        let busy = ConnectionLoad(id: 0, openStreams: 5, limit: 10, freeStreams: 5, lastStarted: 1)
        let idle = ConnectionLoad(id: 1, openStreams: 2, limit: 10, freeStreams: 8, lastStarted: 9)
        let other = ConnectionLoad(id: 2, openStreams: 2, limit: 10, freeStreams: 8, lastStarted: 8)
        let full = ConnectionLoad(id: 3, openStreams: 1, limit: 1, freeStreams: 0)
        #expect(ConnectionLoad.best([busy, idle, full]) == idle)
        #expect(ConnectionLoad.best([busy, idle, other, full]) == other)
        #expect(ConnectionLoad.best([full]) == nil)
        #expect(ConnectionLoad.best([]) == nil)
    }

    @Test func aConnectionWithManyFailuresIsPreferredOnlyToAFullOne() {
        let good = ConnectionLoad(id: 0, openStreams: 5, limit: 100, freeStreams: 95)
        var bad = ConnectionLoad(id: 1, openStreams: 0, limit: 100, freeStreams: 100, failureShare: 100)
        #expect(ConnectionLoad.best([good, bad]) == bad)
        bad.failureShare = ConnectionLoad.illShare
        #expect(ConnectionLoad.best([good, bad]) == good)
        let full = ConnectionLoad(id: 2, openStreams: 100, limit: 100, freeStreams: 0)
        #expect(ConnectionLoad.best([full, bad]) == bad, "better than none")
    }

    @Test func shortLivedConnectionsAreReopenedMoreSlowly() {
        var fixture = PoolFixture(1...4)
        var opens: [Int64] = []
        for now in stride(from: Int64(0), through: 59_000, by: 10) {
            for case .open(let id) in fixture.turn(now) {
                opens.append(now)
                fixture.opened(id)
            }
            if let last = opens.last, now == last + 200 { fixture.ended(opens.count - 1, now) }
        }
        // The first opens are a second apart; from the third end on, the wait doubles, up to 4 s.
        #expect(opens.prefix(8) == [0, 1_000, 2_000, 3_200, 5_400, 9_600, 13_800, 18_000])
        #expect(fixture.pool.failures == 0)
        // A connection that lives longer resets the wait.
        #expect(fixture.turn(70_000) == [.open(opens.count)])
        fixture.opened(opens.count)
        fixture.ended(opens.count, 110_000)
        #expect(fixture.pool.nextTurn == at(110_100))
    }

    @Test func connectionsThatEndAtTheSameTimeEndForOneReason() {
        var fixture = PoolFixture(4...4)
        _ = fixture.opens(0...3_000, succeed: true)
        for id in 0..<4 { fixture.ended(id, 4_000) }
        #expect(fixture.pool.nextTurn == at(4_100))
    }

    @Test func aReportedFaultDelaysReconnectionAfterAnyLifetime() {
        var fixture = PoolFixture(1...4)
        _ = fixture.opens(0...10, succeed: true)
        fixture.pool.retired(0, isFault: true, now: at(100_000), jitter: 1)
        #expect(fixture.pool.nextTurn == at(101_000))
        #expect(fixture.turn(101_000) == [.open(1)])
        fixture.opened(1)
        fixture.pool.retired(1, isFault: true, now: at(200_000), jitter: 1)
        #expect(fixture.pool.nextTurn == at(202_000))
    }

    @Test func reconnectionWaitsAtMost15SecondsWithRequestsQueued() {
        var fixture = PoolFixture(1...4)
        var opens: [Int64] = []
        for now in stride(from: Int64(0), through: 300_000, by: 10) {
            for case .open(let id) in fixture.turn(now, oldest: now) {
                opens.append(now)
                fixture.ended(id, now)
            }
        }
        let waits = zip(opens.dropFirst(), opens).map { $0 - $1 }
        #expect(waits.prefix(6) == [1_000, 2_000, 4_000, 8_000, 15_000, 15_000])
    }

    @Test func unknownNumbersChangeNothing() {
        var fixture = PoolFixture()
        fixture.pool.opened(7)
        fixture.pool.proven(7)
        fixture.pool.retired(7, now: at(0), jitter: 1)
        fixture.pool.ended(7, now: at(0), jitter: 1)
        #expect(fixture.pool.slots.isEmpty)
        #expect(fixture.pool.failures == 0)
    }
}
