import NIOCore
import Testing

@testable import APNS

private func at(_ milliseconds: Int64) -> NIODeadline {
    .uptimeNanoseconds(0) + .milliseconds(1_000_000 + milliseconds)
}

/// A pool with a part of its driver's state: the loads of the connections.
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

    /// The times at which the pool opens connections, sampled every 10 ms.
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
    @Test func nothingIsOpenedBeforeItIsWanted() {
        var pool = PushPool(configuration: APNSConfiguration())
        #expect(pool.turn(now: at(0), oldestQueued: nil, loads: []).isEmpty)
        #expect(pool.nextTurn == nil)
        pool.wanted()
        #expect(pool.turn(now: at(0), oldestQueued: nil, loads: []) == [.open(0)])
        pool.close()
        #expect(pool.turn(now: at(9_000), oldestQueued: nil, loads: []).isEmpty)
        #expect(pool.nextTurn == nil)
    }

    @Test func theFirstIsOpenedAtOnceAndTheWarmOnesSpaced() {
        var scene = PoolFixture(3...4)
        #expect(scene.opens(0...10_000, succeed: true) == [0, 1_000, 2_000])
        #expect(scene.pool.liveCount == 3)
    }

    @Test func theNextTurnSaysWhenTheNextIsOpened() {
        var scene = PoolFixture()
        _ = scene.turn(0)
        #expect(scene.pool.nextTurn == at(1_000))
        #expect(scene.turn(999).isEmpty)
        #expect(scene.turn(1_000) == [.open(1)])
    }

    @Test func aRangeThatIsNoneIsMadeOne() {
        var scene = PoolFixture(0...0)
        #expect(scene.opens(0...5_000, succeed: true) == [0])
    }

    @Test func failuresWaitTwiceAsLongEachTimeAndOneAtATime() {
        var scene = PoolFixture(2...4)
        let opens = scene.opens(0...200_000, succeed: false)
        let waits = zip(opens.dropFirst(), opens).map { $0 - $1 }
        #expect(waits.prefix(7) == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000])
        #expect(scene.pool.isBackingOff)
    }

    @Test func whileAttemptsFailNoSecondIsMadeBesideOneThatHangs() {
        var scene = PoolFixture(2...4)
        #expect(scene.turn(0) == [.open(0)])
        scene.ended(0, 100)
        #expect(scene.turn(1_100) == [.open(1)])
        #expect(scene.turn(9_000).isEmpty)
        #expect(scene.pool.nextTurn == nil)
        #expect(!scene.pool.isBackingOff)
    }

    @Test func aHandshakeAloneProvesNothing() {
        var scene = PoolFixture(1...4)
        var opens: [Int64] = []
        for now in stride(from: Int64(0), through: 20_000, by: 10) {
            for case .open(let id) in scene.turn(now) {
                opens.append(now)
                scene.opened(id, proven: false)
                scene.ended(id, now)
            }
        }
        #expect(opens == [0, 1_000, 3_000, 7_000, 15_000])
    }

    @Test func onlyAConnectionMadeAfterTheFailureForgivesIt() {
        var scene = PoolFixture(2...4)
        _ = scene.turn(0)
        scene.opened(0, proven: false)
        _ = scene.turn(1_000)
        scene.ended(1, 1_000)
        #expect(scene.pool.failures == 1)
        scene.pool.proven(0)
        #expect(scene.pool.failures == 1, "an older one that works does not say that new ones can be made")
        #expect(scene.turn(2_000) == [.open(2)])
        scene.opened(2)
        #expect(scene.pool.failures == 0)
    }

    @Test func aRetiredConnectionIsReplacedAtOnceAndDrainsBeside() {
        var scene = PoolFixture(1...4)
        _ = scene.opens(0...10, succeed: true)
        scene.pool.retired(0, now: at(5_000), jitter: 1)
        scene.pool.retired(0, now: at(5_001), jitter: 1)
        #expect(scene.turn(5_001) == [.open(1)])
        #expect(scene.pool.slots.map(\.state) == [.draining, .connecting])
        #expect(scene.pool.failures == 0)
        scene.ended(0, 6_000)
        #expect(scene.turn(9_000).isEmpty, "its end asks for no other")
    }

    @Test func aPeerThatSaysGoAwayToEverythingIsNotStormed() {
        var scene = PoolFixture(2...4)
        var opens: [Int64] = []
        for now in stride(from: Int64(0), through: 30_000, by: 10) {
            for case .open(let id) in scene.turn(now) {
                opens.append(now)
                scene.opened(id)
                scene.pool.retired(id, now: at(now), jitter: 1)
            }
        }
        #expect(opens.count == 8, "those that drain are bounded, too")
        #expect(zip(opens.dropFirst(), opens).allSatisfy { $0 - $1 >= 1_000 })
    }

    @Test func aConnectionThatWorkedIsReplacedAfterAShortRandomWait() {
        var scene = PoolFixture(1...4)
        _ = scene.opens(0...10, succeed: true)
        scene.ended(0, 5_000)
        #expect(scene.pool.nextTurn == at(5_100))
        let (early, due) = (scene.turn(5_090), scene.turn(5_100))
        #expect(early.isEmpty)
        #expect(due == [.open(1)])
    }

    @Test func aConnectionThatStoodForLongUnusedDidNotFail() {
        var scene = PoolFixture(1...4)
        _ = scene.turn(0)
        scene.opened(0, proven: false)
        scene.ended(0, 3_600_000)
        #expect(scene.pool.failures == 0)
    }

    @Test func itGrowsOnlyWhenRequestsWaitForLongAndAllAreFull() {
        var scene = PoolFixture(1...3)
        _ = scene.opens(0...10, succeed: true)
        #expect(scene.turn(5_000, oldest: 1_000).isEmpty, "there is room")
        scene.fill(0)
        #expect(scene.turn(6_000, oldest: 5_600).isEmpty, "not old enough")
        #expect(scene.turn(6_100, oldest: 5_600).isEmpty, "not for long")
        #expect(scene.turn(7_000, oldest: nil).isEmpty, "a moment's relief starts it anew")
        #expect(scene.turn(7_100, oldest: 5_600).isEmpty)
        #expect(scene.turn(8_099, oldest: 5_600).isEmpty)
        #expect(scene.turn(8_100, oldest: 5_600) == [.open(1)])
        #expect(scene.turn(20_000, oldest: 5_600).isEmpty, "one is being made")
        scene.opened(1)
        #expect(scene.turn(21_000, oldest: 5_600).isEmpty, "the new one has room")
        scene.fill(1)
        _ = scene.turn(22_000, oldest: 5_600)
        #expect(scene.turn(23_000, oldest: 5_600) == [.open(2)])
        scene.opened(2)
        scene.fill(2)
        for now in stride(from: Int64(24_000), to: 60_000, by: 500) { #expect(scene.turn(now, oldest: 5_600).isEmpty) }
        #expect(scene.pool.target == 3, "as many as there may be")
    }

    @Test func itDoesNotGrowWhileAttemptsFail() {
        var scene = PoolFixture(2...4)
        _ = scene.turn(0)
        scene.opened(0)
        scene.fill(0)
        _ = scene.turn(1_000)
        scene.ended(1, 1_000)
        for now in stride(from: Int64(1_000), to: 30_000, by: 100) {
            for case .open(let id) in scene.turn(now, oldest: 0) { scene.ended(id, now) }
        }
        #expect(scene.pool.target == 2)
    }

    @Test func itShrinksByOneAfterEachWindowInWhichFewerHadBeenEnough() {
        var scene = PoolFixture(1...3) { $0.growSustain = .zero }
        _ = scene.opens(0...10, succeed: true)
        scene.fill(0)
        for case .open(let id) in scene.turn(2_000, oldest: 0) { scene.opened(id) }
        scene.fill(1)
        for case .open(let id) in scene.turn(4_000, oldest: 0) { scene.opened(id) }
        #expect(scene.pool.liveCount == 3)
        for id in 0..<3 { scene.loads[id] = ConnectionLoad(id: id, openStreams: 1, limit: 10, freeStreams: 9) }
        // The first window saw the pressure.
        var retired: [Int64] = []
        for now in stride(from: Int64(5_000), through: 3_600_000, by: 1_000) {
            for case .retire(let id, nil) in scene.turn(now) {
                retired.append(now)
                scene.ended(id, now)
            }
        }
        #expect(retired == [1_201_000, 1_802_000], "the third is the least")
        #expect(scene.pool.liveCount == 1)
        #expect(scene.pool.target == 1)
    }

    @Test func itDoesNotShrinkBelowWhatThePeakNeeds() {
        var scene = PoolFixture(1...2) { $0.growSustain = .zero }
        _ = scene.opens(0...10, succeed: true)
        scene.fill(0)
        for case .open(let id) in scene.turn(2_000, oldest: 0) { scene.opened(id) }
        for now in stride(from: Int64(3_000), through: 3_600_000, by: 1_000) {
            let streams = now % 500_000 == 0 ? 6 : 0
            for id in 0..<2 {
                scene.loads[id] = ConnectionLoad(id: id, openStreams: streams, limit: 10, freeStreams: 4)
            }
            #expect(scene.turn(now).isEmpty, "twelve are more than half of ten")
        }
    }

    @Test func aConnectionThatFailsOftenIsReplacedOnlyIfAnotherIsWell() {
        var scene = PoolFixture(2...4)
        _ = scene.opens(0...2_000, succeed: true)
        scene.loads[0]?.failureShare = 300
        scene.loads[0]?.failingSince = at(3_000)
        scene.loads[1]?.failureShare = 300
        scene.loads[1]?.failingSince = at(3_000)
        scene.loads[1]?.lastGoodAnswer = at(3_900)
        #expect(scene.turn(4_000).isEmpty, "the service is ill")
        scene.loads[1]?.failureShare = 31
        #expect(scene.turn(4_000).isEmpty, "both fail now and then")
        scene.loads[1]?.failureShare = 30
        scene.loads[1]?.lastGoodAnswer = at(2_900)
        #expect(scene.turn(4_000).isEmpty, "nothing says that it is well now")
        scene.loads[1]?.lastGoodAnswer = at(3_500)
        #expect(scene.turn(4_000) == [.retire(0, .serverErrors), .open(2)])
        #expect(scene.turn(4_000).isEmpty, "once")
    }

    @Test func theLeastBusyGetsTheNextAndAmongEqualsTheOneThatWaitedLongest() {
        let busy = ConnectionLoad(id: 0, openStreams: 5, limit: 10, freeStreams: 5, lastStarted: 1)
        let idle = ConnectionLoad(id: 1, openStreams: 2, limit: 10, freeStreams: 8, lastStarted: 9)
        let other = ConnectionLoad(id: 2, openStreams: 2, limit: 10, freeStreams: 8, lastStarted: 8)
        let full = ConnectionLoad(id: 3, openStreams: 1, limit: 1, freeStreams: 0)
        #expect(ConnectionLoad.best([busy, idle, full]) == idle)
        #expect(ConnectionLoad.best([busy, idle, other, full]) == other)
        #expect(ConnectionLoad.best([full]) == nil)
        #expect(ConnectionLoad.best([]) == nil)
    }

    @Test func whatFailsAtOnceGetsLessForItsFailures() {
        let good = ConnectionLoad(id: 0, openStreams: 5, limit: 100, freeStreams: 95)
        var bad = ConnectionLoad(id: 1, openStreams: 0, limit: 100, freeStreams: 100, failureShare: 100)
        #expect(ConnectionLoad.best([good, bad]) == bad)
        bad.failureShare = ConnectionLoad.illShare
        #expect(ConnectionLoad.best([good, bad]) == good)
        let full = ConnectionLoad(id: 2, openStreams: 100, limit: 100, freeStreams: 0)
        #expect(ConnectionLoad.best([full, bad]) == bad, "better than none")
    }

    @Test func connectionsThatWorkAndEndSoonOneAfterTheOtherAreOpenedSlower() {
        var scene = PoolFixture(1...4)
        var opens: [Int64] = []
        for now in stride(from: Int64(0), through: 59_000, by: 10) {
            for case .open(let id) in scene.turn(now) {
                opens.append(now)
                scene.opened(id)
            }
            if let last = opens.last, now == last + 200 { scene.ended(opens.count - 1, now) }
        }
        // At most a second from each open to the next, and after the third end a wait that doubles.
        #expect(opens.prefix(8) == [0, 1_000, 2_000, 3_200, 5_400, 9_600, 13_800, 18_000])
        #expect(scene.pool.failures == 0)
        // One that lives longer makes up for it.
        #expect(scene.turn(70_000) == [.open(opens.count)])
        scene.opened(opens.count)
        scene.ended(opens.count, 110_000)
        #expect(scene.pool.nextTurn == at(110_100))
    }

    @Test func connectionsThatEndAtTheSameTimeEndForOneReason() {
        var scene = PoolFixture(4...4)
        _ = scene.opens(0...3_000, succeed: true)
        for id in 0..<4 { scene.ended(id, 4_000) }
        #expect(scene.pool.nextTurn == at(4_100))
    }

    @Test func whoIsToldOfAFaultWaitsHoweverLongTheConnectionLived() {
        var scene = PoolFixture(1...4)
        _ = scene.opens(0...10, succeed: true)
        scene.pool.retired(0, isFault: true, now: at(100_000), jitter: 1)
        #expect(scene.pool.nextTurn == at(101_000))
        #expect(scene.turn(101_000) == [.open(1)])
        scene.opened(1)
        scene.pool.retired(1, isFault: true, now: at(200_000), jitter: 1)
        #expect(scene.pool.nextTurn == at(202_000))
    }

    @Test func whileSomethingIsQueuedNoWaitIsLongerThanAQuarterOfAMinute() {
        var scene = PoolFixture(1...4)
        var opens: [Int64] = []
        for now in stride(from: Int64(0), through: 300_000, by: 10) {
            for case .open(let id) in scene.turn(now, oldest: now) {
                opens.append(now)
                scene.ended(id, now)
            }
        }
        let waits = zip(opens.dropFirst(), opens).map { $0 - $1 }
        #expect(waits.prefix(6) == [1_000, 2_000, 4_000, 8_000, 15_000, 15_000])
    }

    @Test func unknownNumbersChangeNothing() {
        var scene = PoolFixture()
        scene.pool.opened(7)
        scene.pool.proven(7)
        scene.pool.retired(7, now: at(0), jitter: 1)
        scene.pool.ended(7, now: at(0), jitter: 1)
        #expect(scene.pool.slots.isEmpty)
        #expect(scene.pool.failures == 0)
    }
}
