import Testing

@testable import Kafka

struct ConsumerStateTests {
    private func record(_ offset: Int64, partition: Int32 = 0, value: Int = 0) -> KafkaRecord {
        KafkaRecord(
            topic: "t", partition: partition, offset: offset, timestampMilliseconds: 0, key: nil,
            value: [UInt8](repeating: 0, count: value))
    }

    private let mine = KafkaPartition(topic: "t", partition: 0)

    @Test func aBatchKeepsTheLimitsButTakesOneRecordAtLeast() {
        var buffer = ConsumerBuffer(records: 3, bytes: 500)
        for offset in 0..<3 { buffer.append(self.record(Int64(offset), value: 72)) }
        buffer.append(self.record(3, value: 1000))
        #expect(buffer.isFull)
        #expect(buffer.take(records: 3, bytes: 500).map(\.offset) == [0, 1])
        #expect(buffer.take(records: 3, bytes: 500).map(\.offset) == [2])
        #expect(buffer.take(records: 3, bytes: 500).map(\.offset) == [3])
        #expect(buffer.take(records: 3, bytes: 500).count == 0)
        #expect(buffer.bytes == 0)
        #expect(!buffer.isFull)
    }

    @Test(arguments: [0, -1, Int.min])
    func aLimitBelowOneCountsAsOne(limit: Int) {
        var buffer = ConsumerBuffer(records: limit, bytes: limit)
        #expect(!buffer.isFull)
        buffer.append(self.record(0))
        #expect(buffer.isFull)
        #expect(buffer.take(records: limit, bytes: limit).count == 1)
    }

    @Test func recordsOfRevokedPartitionsAreDroppedAndTheWeightIsRight() {
        var buffer = ConsumerBuffer(records: 2, bytes: 10_000)
        for offset in 0..<6 { buffer.append(self.record(Int64(offset), partition: Int32(offset % 2))) }
        _ = buffer.take(records: 2, bytes: 10_000)
        buffer.drop([self.mine])
        #expect(buffer.bytes == 2 * self.record(0).size)
        #expect(buffer.take(records: 2, bytes: 10_000).map(\.offset) == [3, 5])
    }

    @Test func aFullBufferWaitsThenPausesThenResumesWhenHalfIsGone() {
        let start = ContinuousClock.now
        var state = ConsumerState(pauseAfter: .seconds(3), readAhead: (2, 1 << 20))
        #expect(state.next(now: start) == .poll(milliseconds: 100))
        #expect(state.receive(self.record(0)) == false)
        #expect(state.receive(self.record(1)) == true)
        #expect(state.next(now: start) == .wait(milliseconds: 100))
        #expect(state.isAsleep)
        #expect(state.next(now: start + .milliseconds(2950)) == .wait(milliseconds: 50))
        #expect(state.next(now: start + .seconds(3)) == .pause)
        state.isPaused = true
        #expect(state.next(now: start + .seconds(4)) == .poll(milliseconds: 100))
        state.beginLeaving([self.mine], isLost: false)
        #expect(state.next(now: start + .seconds(5)) == .resume)
        state.stop()
        #expect(state.next(now: start + .seconds(5)) == .shutDown)
    }

    @Test func fetchersAreWokenOnceAfterTheQueueMayHaveBeenFull() {
        let wakeup = FetchWakeup([("queued.min.messages", "3"), ("queued.max.messages.kbytes", "1")])
        var state = ConsumerState(pauseAfter: .seconds(3), readAhead: (100, 1 << 20), wakeup: wakeup)
        #expect(state.foundEmptyQueue() == [])
        state.assign([self.mine])
        #expect(state.next(now: .now) == .poll(milliseconds: 0))
        #expect(state.foundEmptyQueue() == [self.mine], "the queue holds what was read before")
        #expect(state.foundEmptyQueue() == [])
        #expect(state.next(now: .now) == .poll(milliseconds: 100))
        for offset in 0..<2 { _ = state.receive(self.record(Int64(offset))) }
        #expect(state.foundEmptyQueue() == [])
        for offset in 2..<5 { _ = state.receive(self.record(Int64(offset))) }
        #expect(state.foundEmptyQueue() == [self.mine])
        _ = state.receive(self.record(5, value: 1024))
        #expect(state.foundEmptyQueue() == [self.mine])
    }

    @Test func wholeMillisecondsAreRoundedUpAndNeverNegative() {
        #expect(Duration.microseconds(1).wholeMilliseconds == 1)
        #expect(Duration.milliseconds(1500).wholeMilliseconds == 1500)
        #expect(Duration.zero.wholeMilliseconds == 0)
        #expect(Duration.milliseconds(-1).wholeMilliseconds == 0)
        #expect(Duration.seconds(Int64.max).wholeMilliseconds > 0)
    }
}
