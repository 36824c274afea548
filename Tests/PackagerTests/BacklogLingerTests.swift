import Kafka
import Testing

@testable import Packager

@Suite struct BacklogLingerTests {
    private let start = ContinuousClock.now

    private func isHeld(
        _ pause: inout BacklogLinger, _ inHand: Int, _ came: Int, _ now: ContinuousClock.Instant
    ) -> Bool {
        pause.isDue(inHand: inHand, came: came, now: now)
    }

    @Test func recordsBelowTheBacklogSizeAreProcessedAtOnce() {
        var pause = BacklogLinger()
        #expect(self.isHeld(&pause, 1, 1, self.start) == false)
        #expect(self.isHeld(&pause, BacklogLinger.backlog - 1, 500, self.start) == false)
    }

    @Test func aBacklogIsHeldWhileRecordsArrive() {
        var pause = BacklogLinger()
        #expect(self.isHeld(&pause, 2000, 2000, self.start) == true)
        #expect(self.isHeld(&pause, 4000, 2000, self.start + .milliseconds(10)) == true)
        #expect(self.isHeld(&pause, 4000, 0, self.start + .milliseconds(30)) == false)
    }

    @Test func aContinuousBacklogIsHeldOnceUpToTheLimit() {
        var pause = BacklogLinger()
        #expect(self.isHeld(&pause, 2000, 2000, self.start) == true)
        let later = self.start + BacklogLinger.longest
        #expect(self.isHeld(&pause, 9000, 100, later) == false)
        #expect(self.isHeld(&pause, 9000, 100, later + .seconds(60)) == false)
        // The backlog was worked off, and there is a new one.
        #expect(self.isHeld(&pause, 10, 0, later + .seconds(61)) == false)
        #expect(self.isHeld(&pause, 2000, 2000, later + .seconds(62)) == true)
    }

    @Test func twoBatchesAreInFlightWhileABacklogIsRead() async {
        let driver = KeyQueueDriver(limits: KeyQueue.Limits(records: 9, bytes: 999, batchKeys: 1, batchBytes: 999))
        func record(_ key: UInt8) -> KafkaRecord {
            KafkaRecord(topic: "t", partition: 0, offset: 0, timestampMilliseconds: 0, key: [key], value: [])
        }
        driver.add([record(1), record(2), record(3)], now: self.start, isHeld: true)
        let first = await driver.next()?.works ?? []
        #expect(first.map(\.key) == [[1]])
        #expect(await driver.next()?.works.map(\.key) == [[2]])
        async let third = driver.next()
        driver.add([record(3)], now: self.start, isHeld: true)
        _ = driver.complete(first, [.done], now: self.start) { _ in .zero }
        #expect(await third?.works.map(\.records.count) == [2])
        async let fourth = driver.next()
        driver.add([record(4)], now: self.start, isHeld: true)
        driver.add([record(4)], now: self.start)
        #expect(await fourth?.works.map(\.records.count) == [2])
    }
}
