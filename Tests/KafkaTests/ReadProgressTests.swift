import Testing

@testable import Kafka

@Suite struct ReadProgressTests {
    private let start = ContinuousClock.now

    private func progress(from: Int64 = 10, to: Int64 = 20) -> ReadProgress {
        ReadProgress(name: "orders/3", from: from, to: to, patience: .seconds(5), now: self.start)
    }

    @Test func theLastRecordEndsTheRead() throws {
        var progress = self.progress()
        for offset in Int64(10)..<20 {
            #expect(!progress.isDone)
            #expect(try progress.takes(offset))
        }
        #expect(progress.isDone)
    }

    @Test func aRecordPastTheEndEndsTheReadAndIsNotTaken() throws {
        var progress = self.progress()
        #expect(try progress.takes(12))
        #expect(try !progress.takes(25))
        #expect(progress.isDone)
        #expect(progress.position == 20)
    }

    @Test func offsetsWithoutRecordsAtTheEndCount() throws {
        var progress = self.progress()
        #expect(try progress.takes(10))
        try progress.reachedEnd(at: 19)
        #expect(!progress.isDone)
        try progress.reachedEnd(at: 20)
        #expect(progress.isDone)
    }

    @Test func offsetsThatStartOverAreRefused() throws {
        var progress = self.progress()
        _ = try progress.takes(14)
        #expect(throws: KafkaError(.outOfRange, "")) { try progress.takes(14) }
        #expect(throws: KafkaError(.outOfRange, "")) { try progress.reachedEnd(at: 0) }
    }

    @Test func deletedOffsetsAreSkipped() throws {
        var progress = self.progress(from: 0)
        try progress.begin(OffsetRange(partition: 3, first: 15, end: 30))
        #expect(progress.position == 15)
        var past = self.progress(from: 0)
        try past.begin(OffsetRange(partition: 3, first: 25, end: 30))
        #expect(past.isDone)
    }

    @Test func aPartitionThatEndsBeforeTheReadIsRefused() {
        var progress = self.progress()
        #expect(throws: KafkaError(.outOfRange, "")) {
            try progress.begin(OffsetRange(partition: 3, first: 0, end: 9))
        }
    }

    @Test func aStalledReadTimesOutWithTheLatestError() throws {
        var progress = self.progress()
        progress.complained(KafkaError(.transport, "reading orders/3: refused"))
        try progress.check(now: self.start + .seconds(4))
        progress.moved(now: self.start + .seconds(4))
        try progress.check(now: self.start + .seconds(8))
        progress.complained(KafkaError(.transport, "reading orders/3: still refused"))
        do throws(KafkaError) {
            try progress.check(now: self.start + .seconds(9))
            Issue.record("patience without an end")
        } catch {
            #expect(error.code == .timedOut)
            #expect(error.message.hasPrefix("reading orders/3: nothing at 10 of 20 for 5.0 seconds"))
            #expect(error.message.hasSuffix("reading orders/3: still refused"))
        }
    }

    @Test func theLargestOffsetDoesNotTrap() throws {
        var progress = self.progress(from: 0, to: .max)
        #expect(try progress.takes(.max - 1))
        #expect(progress.isDone)
    }
}
