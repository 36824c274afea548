import Kafka
import Model
import Store
import Testing

@testable import Packager

/// The decisions of restoring, without a server.
@Suite struct RestorePlanTests {
    private func place(_ epoch: String?, isHere: Bool = true, plan: String? = nil) -> MaterializedView.Shard {
        MaterializedView.Shard(epoch: epoch, isHere: isHere, plan: plan)
    }

    @Test func theViewStatusIsThatOfItsWorstPlace() {
        #expect(ViewStatus([self.place("a")]) == .complete)
        #expect(ViewStatus([self.place("a"), self.place("b", isHere: false)]) == .doubtful)
        #expect(ViewStatus([self.place("a", isHere: false), self.place(nil)]) == .missing)
        #expect(ViewStatus([self.place("a"), self.place(nil, plan: "p"), self.place(nil)]) == .restoring)
        #expect(ViewStatus([]) == .missing)
    }

    @Test func aRestoreReadsAPartitionFromTheLowestOffsetOfAllPlaces() {
        let bounds = [
            "orders": [
                OffsetRange(partition: 0, first: 10, end: 90), OffsetRange(partition: 1, first: 0, end: 0),
            ]
        ]
        func from(_ tails: [[String: Int64]]) -> Int64 { RestorePlan.jobs(bounds, in: "west", tails: tails)[0].from }
        #expect(from([]) == 10)
        #expect(from([["west/orders/0": 50]]) == 50)
        #expect(from([["west/orders/0": 50], ["west/orders/0": 40]]) == 40)
        #expect(from([["west/orders/0": 50], [:]]) == 10, "one shard knows nothing")
        #expect(from([["west/orders/0": 50], ["east/orders/0": 50]]) == 10, "one shard knows another cluster")
        #expect(from([["west/orders/0": 5]]) == 10, "what was deleted cannot be read")
        #expect(from([["west/orders/0": 91]]) == 10, "a topic that was made anew")
        let jobs = RestorePlan.jobs(bounds, in: "west", tails: [["west/orders/0": 90]])
        #expect(jobs.map(\.isDone) == [true, true], "there is nothing to read")
        #expect(RestorePlan.tails(jobs, in: "west") == ["west/orders/0": 90, "west/orders/1": 0])
        #expect(RestorePlan.partition("a/b/7").map { "\($0.topic) \($0.partition)" } == "a/b 7")
        #expect(RestorePlan.partition("nothing") == nil)
        #expect(RestorePlan.partition("a/x") == nil)
    }

    @Test func anEndOffsetIsCertainAfterThirtySecondsOfAnUnchangedView() {
        var samples = TailSamples()
        let start = ContinuousClock.now
        let first = [self.place("one")]
        #expect(samples.isDue(at: start))
        #expect(samples.add(["t/0": 1], in: first, at: start) == nil)
        #expect(!samples.isDue(at: start + .seconds(4)))
        #expect(samples.isDue(at: start + .seconds(5)))
        for second in [5, 10, 15, 20, 25] {
            #expect(samples.add(["t/0": Int64(second)], in: first, at: start + .seconds(second)) == nil)
        }
        #expect(samples.add(["t/0": 30], in: first, at: start + .seconds(30)) == ["t/0": 1])
        #expect(samples.add(["t/0": 41], in: first, at: start + .seconds(41)) == ["t/0": 10])
        #expect(samples.add(["t/0": 80], in: [self.place("two")], at: start + .seconds(80)) == nil, "another view")
    }

    @Test func aPartitionThatEndsEarlierThanBeforeIsReportedUntilItIsAsLong() {
        var seen = SeenEnds()
        func note(_ ends: [String: Int64], _ tails: [String: Int64]...) -> [String]? {
            seen.note(ends, tails: tails) ? seen.behind.sorted() : nil
        }
        #expect(note(["t/0": 5, "t/1": 9]) == nil)
        #expect(note(["t/0": 6, "t/1": 9], ["t/1": 9, "east/t/0": 70]) == nil)
        #expect(note(["t/0": 2, "t/1": 9], ["t/1": 9]) == ["t/0"])
        #expect(note(["t/0": 4, "t/1": 9]) == nil, "it was reported")
        #expect(note(["t/0": 4, "t/1": 9], ["t/0": 1], ["t/1": 12]) == ["t/0", "t/1"], "before this process")
        #expect(note(["t/0": 6, "t/1": 12]) == [])
    }

    @Test func progressReportsPercentRateAndTimeLeft() {
        var progress = RestoreProgress()
        let start = ContinuousClock.now
        var jobs = [
            RestoreJobQueue.Job(name: "a/0", from: 100, to: 1100), RestoreJobQueue.Job(name: "a/1", from: 0, to: 1000),
        ]
        progress.update(jobs, at: start)
        #expect(progress.percent == 0)
        #expect(progress.rate == 0)
        #expect(progress.secondsLeft == nil)
        jobs[0].isDone = true
        progress.update(jobs, at: start + .seconds(10))
        #expect(progress.percent == 50)
        #expect(progress.rate == 100)
        #expect(progress.secondsLeft == 10)
        #expect(progress.remaining == 1000)
        progress.update([], at: start + .seconds(11))
        #expect(progress.percent == 100)
    }

    @Test func onlyTheLastRecordOfEachOrderIsReplayed() throws {
        func record(_ offset: Int64, _ order: String, _ value: [UInt8]?, _ headers: [KafkaHeader] = []) throws
            -> KafkaRecord
        {
            KafkaRecord(
                topic: "waybill.orders", partition: 0, offset: offset, timestampMilliseconds: 1000,
                key: Array("\(try ChangeLog.key(order))".utf8), value: value, headers: headers)
        }
        func state(_ order: String, version: Int64, isRemoved: Bool = false) throws -> OrderState {
            OrderState(
                key: try ChangeLog.key(order), document: OrderDocument(members: isRemoved ? [:] : ["orderNumber": "1"]),
                token: try AuthenticationToken("0123456789abcdef"), version: version, modifiedEpochSeconds: 5,
                isRemoved: isRemoved)
        }
        func value(_ order: String, version: Int64) throws -> [UInt8] {
            return OrderRecord(try state(order, version: version), content: nil).encoded
        }
        let gone = try state("c", version: 9, isRemoved: true)
        let records = [
            try record(0, "a", try value("a", version: 1)), try record(1, "b", try value("b", version: 1)),
            try record(2, "a", try value("a", version: 2)), try record(3, "b", nil),
            try record(4, "c", nil, RemovedOrder.headers(of: gone)), try record(5, "d", Array("{".utf8)),
            KafkaRecord(
                topic: "waybill.orders", partition: 0, offset: 6, timestampMilliseconds: 0, key: nil, value: nil),
            try record(7, "e", nil, [KafkaHeader(name: RecordHeader.removed.rawValue, text: "[]")]),
        ]
        let shown = NewestRecords.last(of: records).map { record in
            switch try? OrderStore.Restored(record) {
            case .version(let state, _, _, _)?: "\(record.offset) \(state.key.order) \(state.version)"
            case .removed(let state)?: "\(record.offset) \(state.key.order) removed \(state == gone)"
            case .forgotten(let key, let moment)?: "\(record.offset) \(key.order) forgotten \(moment)"
            case nil: "\(record.offset) cannot be read"
            }
        }
        #expect(
            shown == [
                "2 a 2", "3 b forgotten 1000", "4 c removed true", "5 cannot be read", "6 cannot be read",
                "7 cannot be read",
            ])
        #expect(RemovedOrder.headers(of: try state("a", version: 1)).isEmpty)
    }

    @Test func onlyTheNewestRecordsOfALargeRangeAreKept() {
        func record(_ offset: Int64, bytes: Int) -> KafkaRecord {
            KafkaRecord(
                topic: "o", partition: 0, offset: offset, timestampMilliseconds: 0, key: [1],
                value: [UInt8](repeating: 0, count: bytes))
        }
        var range = NewestRecords(from: 10)
        range.append([record(12, bytes: 10), record(15, bytes: 10)])
        #expect(range.from == 10)
        #expect(range.records.map(\.offset) == [12, 15])
        range.append([record(20, bytes: NewestRecords.limit / 2), record(21, bytes: NewestRecords.limit / 2 - 1000)])
        #expect(range.from == 10)
        #expect(range.records.count == 4)
        range.append([record(30, bytes: 1000)])
        #expect(range.from == 21)
        #expect(range.records.map(\.offset) == [21, 30])
        range.append([record(31, bytes: NewestRecords.limit + 1)])
        #expect(range.from == 31, "one alone may be larger")
        #expect(range.records.map(\.offset) == [31], "one alone may be larger")

        #expect([1, 64, 192, 10_000].map(RangeSizes.first) == [1000, 256, 85, 32])
        #expect(RangeSizes.size(offsets: 256, records: 256, bytes: 1000) == 1000)
        #expect(RangeSizes.size(offsets: 256, records: 3, bytes: 1000) == 2048, "gaps")
        #expect(RangeSizes.size(offsets: 1000, records: 1000, bytes: 2 * NewestRecords.limit) == 500, "large orders")
        #expect(RangeSizes.size(offsets: 1, records: 1, bytes: 2 * NewestRecords.limit) == 8)
        #expect(RangeSizes.size(offsets: 1 << 20, records: 0, bytes: 0) == 1 << 20)
    }
}
