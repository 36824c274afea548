import Kafka
import Testing

@testable import Packager

struct KeyQueueTests {
    private static let start = ContinuousClock.now
    private static let limits = KeyQueue.Limits(records: 1000, bytes: 1 << 20, batchKeys: 4, batchBytes: 4096)

    private func record(
        _ key: String?, _ offset: Int64, _ partition: Int32 = 0, value: Int = 0
    ) -> KafkaRecord {
        KafkaRecord(
            topic: "t", partition: partition, offset: offset, timestampMilliseconds: 0, key: key.map { Array($0.utf8) },
            value: [UInt8](repeating: 0, count: value))
    }

    private func add(_ key: String, _ offset: Int64, group: Int, to queue: inout KeyQueue) {
        #expect(queue.add(self.record(key, offset), group: group, isShared: true) == .taken)
    }

    private func shown(_ works: [KeyedWork]) -> [String] {
        works.map { work in
            "\(work.key.map { String(decoding: $0, as: UTF8.self) } ?? "-"):"
                + work.records.map { "\($0.offset)" }.joined(separator: ",")
        }
    }

    private func seconds(_ attempts: Int) -> Duration { .seconds(attempts) }

    @Test func waitingRecordsOfAKeyAreReturnedTogetherInOrder() {
        var queue = KeyQueue(limits: Self.limits)
        queue.add([self.record("a", 0), self.record("b", 1), self.record("a", 2), self.record(nil, 3)])
        #expect(self.shown(queue.next()) == ["a:0,2", "b:1", "-:3"])
        #expect(queue.next().count == 0)
    }

    @Test func newRecordsOfAKeyInFlightWaitUntilItIsDone() {
        var queue = KeyQueue(limits: Self.limits)
        queue.add([self.record("a", 0)])
        #expect(self.shown(queue.next()) == ["a:0"])
        queue.add([self.record("a", 1), self.record("a", 2)])
        #expect(queue.next().count == 0)
        queue.done(Array("a".utf8))
        #expect(self.shown(queue.next()) == ["a:1,2"])
        queue.done(Array("a".utf8))
        #expect(queue.records == 0)
        #expect(queue.bytes == 0)
    }

    @Test func theRestOfAKeyIsReadyAgainBeforeRecordsThatCameMeanwhile() {
        var queue = KeyQueue(limits: Self.limits)
        let key = Array("a".utf8)
        queue.add([self.record("a", 0), self.record("a", 1), self.record("a", 2, 1), self.record("b", 3)])
        let works = queue.next()
        queue.add([self.record("a", 4)])
        queue.partly(key, works[0].finished(by: .partly(1)))
        #expect(queue.records == 4)
        queue.partly(Array("b".utf8), works[1].finished(by: .partly(0)))
        let rest = queue.next()
        #expect(self.shown(rest) == ["a:1,2,4", "b:3"])
        #expect(rest.map(\.attempts) == [0, 0])
        // Those of partition 1 are another member's now; one of them is done nevertheless.
        #expect(queue.drop([KafkaPartition(topic: "t", partition: 1)]).isEmpty)
        queue.partly(key, rest[0].finished(by: .partly(2)))
        #expect(self.shown(queue.next()) == ["a:4"])
        #expect(queue.drop([KafkaPartition(topic: "t", partition: 1)]).isEmpty)
        queue.done(key)
        queue.done(Array("b".utf8))
        #expect(queue.records == 0)
        #expect(queue.bytes == 0)
    }

    @Test func aBatchRespectsItsLimitsButHoldsAtLeastOneKey() {
        var queue = KeyQueue(limits: Self.limits)
        queue.add((0..<6).map { self.record("small\($0)", Int64($0)) })
        #expect(queue.next().count == 4)
        #expect(queue.next().count == 2)
        queue.add([self.record("x", 10, value: 9000), self.record("y", 11)])
        #expect(self.shown(queue.next()) == ["x:10"])
        #expect(self.shown(queue.next()) == ["y:11"])
    }

    @Test func aParkedKeyReturnsWithAllItsRecordsWhenItIsDue() {
        var queue = KeyQueue(limits: Self.limits)
        let key = Array("a".utf8)
        queue.add([self.record("a", 0)])
        _ = queue.next()
        queue.later(key, now: Self.start, delay: self.seconds)
        queue.add([self.record("a", 1)])
        queue.wake(now: Self.start + .milliseconds(999))
        #expect(queue.next().count == 0)
        #expect(queue.delayedCount == 1)
        #expect(queue.records == 2, "what is parked is in hand")
        queue.wake(now: Self.start + .seconds(1))
        let again = queue.next()
        #expect(self.shown(again) == ["a:0,1"])
        #expect(again.map(\.attempts) == [1])
        queue.later(key, now: Self.start + .seconds(1), delay: self.seconds)
        queue.wake(now: Self.start + .milliseconds(2900))
        #expect(queue.next().count == 0, "the second wait is longer")
        queue.wake(now: Self.start + .seconds(3))
        #expect(queue.next().map(\.attempts) == [2])
        #expect(queue.delayedSince == Self.start)
        queue.done(key)
        #expect(queue.delayedCount == 0)
        queue.add([self.record("a", 2)])
        #expect(queue.next().map(\.attempts) == [0], "what was done begins anew")
    }

    @Test func anAwaitingKeyIsReadyOnANewRecordOrAtItsDeadline() {
        var queue = KeyQueue(limits: Self.limits)
        let key = Array("a".utf8)
        queue.add([self.record("a", 0)])
        _ = queue.next()
        queue.awaits(key, until: Self.start + .seconds(60))
        queue.wake(now: Self.start + .seconds(59))
        #expect(queue.next().isEmpty)
        #expect(queue.delayedCount == 0, "nothing is wrong with it")
        queue.add([self.record("a", 1)])
        #expect(self.shown(queue.next()) == ["a:0,1"])
        // A record that arrives while the key is in work counts as well.
        queue.add([self.record("a", 2)])
        queue.awaits(key, until: Self.start + .seconds(60))
        #expect(self.shown(queue.next()) == ["a:0,1,2"])
        queue.awaits(key, until: Self.start + .seconds(60))
        queue.wake(now: Self.start + .seconds(60))
        #expect(self.shown(queue.next()) == ["a:0,1,2"])
        queue.awaits(key, until: Self.start + .seconds(90))
        #expect(queue.drop([KafkaPartition(topic: "t", partition: 0)]).map(\.offset) == [0, 1, 2])
        queue.add([self.record("a", 0)])
        #expect(self.shown(queue.next()) == ["a:0"])
        queue.done(key)
        queue.wake(now: Self.start + .seconds(100))
        #expect(queue.next().isEmpty)
        #expect(queue.records == 0)
    }

    @Test func aParkedKeyDelaysNoOtherKey() {
        var queue = KeyQueue(limits: Self.limits)
        queue.add([self.record("poison", 0)])
        _ = queue.next()
        queue.later(Array("poison".utf8), now: Self.start) { _ in .seconds(1000) }
        for number in 1...500 {
            queue.add([self.record("k\(number)", Int64(number))])
            #expect(self.shown(queue.next()) == ["k\(number):\(number)"])
            queue.done(Array("k\(number)".utf8))
        }
        #expect(queue.records == 1)
    }

    @Test func recordsOfADroppedPartitionAreNotReturnedAgain() {
        var queue = KeyQueue(limits: Self.limits)
        queue.add([self.record("work", 0), self.record("parked", 1), self.record("parked", 7, 1)])
        _ = queue.next()
        queue.later(Array("parked".utf8), now: Self.start, delay: self.seconds)
        queue.add([self.record("work", 2), self.record("ready", 3), self.record("ready", 8, 1)])
        let dropped = queue.drop([KafkaPartition(topic: "t", partition: 0)])
        #expect(Set(dropped.map(\.offset)) == [1, 2, 3])
        #expect(queue.records == 2)
        queue.later(Array("work".utf8), now: Self.start, delay: self.seconds)
        queue.wake(now: Self.start + .seconds(100))
        #expect(Set(self.shown(queue.next())) == ["ready:8", "parked:7"])
        queue.done(Array("ready".utf8))
        queue.done(Array("parked".utf8))
        #expect(queue.records == 0)
        #expect(queue.bytes == 0)
        #expect(queue.delayedCount == 0)
    }

    /// A caller that waits for it, as a group in a rebalance does, is notified immediately.
    @Test func unfinishedRecordsInWorkAreDroppedExactlyOnce() {
        var queue = KeyQueue(limits: Self.limits)
        let leaving: Set = [KafkaPartition(topic: "t", partition: 0)]
        queue.add([self.record("undone", 0), self.record("done", 1), self.record("both", 2), self.record("both", 9, 1)])
        _ = queue.next()
        #expect(queue.drop(leaving).isEmpty, "it may still get done")
        #expect(queue.records == 1)
        queue.later(Array("undone".utf8), now: Self.start, delay: self.seconds)
        queue.done(Array("done".utf8))
        queue.later(Array("both".utf8), now: Self.start, delay: self.seconds)
        #expect(queue.drop(leaving).map(\.offset) == [0, 2])
        #expect(queue.drop(leaving).isEmpty)
        queue.wake(now: Self.start + .seconds(100))
        #expect(self.shown(queue.next()) == ["both:9"])
    }

    @Test func aBacklogGetsItsOwnBatchesAndDelaysNoOtherGroup() {
        var queue = KeyQueue(limits: .init(records: 1000, bytes: 1 << 20, batchKeys: 20, batchBytes: 1 << 20))
        for number in 0..<100 { self.add("b\(number)", Int64(number), group: 2, to: &queue) }
        self.add("a1", 100, group: 1, to: &queue)
        self.add("c1", 101, group: 3, to: &queue)
        #expect(queue.next().count == 20, "the backlog came first")
        #expect(self.shown(queue.next()) == ["a1:100", "c1:101"], "the others go together and need not wait longer")
        self.add("a2", 102, group: 1, to: &queue)
        #expect(queue.hasReady(allowsBulk: false))
        #expect(self.shown(queue.next(allowsBulk: false)) == ["a2:102"])
        #expect(!queue.hasReady(allowsBulk: false))
        #expect(queue.next(allowsBulk: false).isEmpty)
        #expect(queue.next().count == 20)
        self.add("a3", 103, group: 1, to: &queue)
        #expect(queue.next().count == 20)
        #expect(self.shown(queue.next()) == ["a3:103"])
    }

    @Test func aBacklogOfFewKeysGetsItsOwnBatches() {
        var queue = KeyQueue(limits: .init(records: 1000, bytes: 1 << 20, batchKeys: 20, batchBytes: 1 << 20))
        for number in 0..<300 { self.add("b\(number % 2)", Int64(number), group: 2, to: &queue) }
        self.add("a1", 300, group: 1, to: &queue)
        #expect(queue.hasReady(allowsBulk: false))
        #expect(queue.next().map(\.records.count) == [150, 150])
        #expect(self.shown(queue.next(allowsBulk: false)) == ["a1:300"])
        for key in ["b0", "b1"] { queue.done(Array(key.utf8)) }
        self.add("b0", 301, group: 2, to: &queue)
        self.add("a2", 302, group: 1, to: &queue)
        #expect(self.shown(queue.next(allowsBulk: false)) == ["b0:301", "a2:302"], "the backlog is over")
    }

    @Test func aDroppedKeyThatReturnsIsQueuedOnce() {
        var queue = KeyQueue(limits: Self.limits)
        queue.add([self.record("a", 0)])
        _ = queue.drop([KafkaPartition(topic: "t", partition: 0)])
        queue.add([self.record("a", 0), self.record("b", 1)])
        #expect(self.shown(queue.next()) == ["a:0", "b:1"])
        #expect(queue.next().count == 0)
        #expect(!queue.hasReady())
    }

    @Test func aDroppedParkedKeyLeavesNoTimerForItsReturn() {
        var queue = KeyQueue(limits: Self.limits)
        queue.add([self.record("a", 0)])
        _ = queue.next()
        queue.later(Array("a".utf8), now: Self.start) { _ in .seconds(1) }
        #expect(queue.drop([KafkaPartition(topic: "t", partition: 0)]).map(\.offset) == [0])
        queue.wake(now: Self.start + .seconds(2))
        #expect(queue.next().isEmpty, "there is nothing to do")
        queue.add([self.record("a", 0)])
        #expect(self.shown(queue.next()) == ["a:0"])
        queue.wake(now: Self.start + .seconds(4))
        queue.add([self.record("a", 1)])
        #expect(queue.next().isEmpty, "it is in work")
    }

    @Test func theRoomIsTheLimitsMinusTheQueuedRecords() {
        var queue = KeyQueue(limits: .init(records: 3, bytes: 1000, batchKeys: 4, batchBytes: 4096))
        queue.add([self.record("a", 0), self.record("b", 1)])
        #expect(queue.room.records == 1)
        #expect(queue.room.bytes == 1000 - 2 * self.record("a", 0).size)
        queue.add([self.record("a", 2, value: 5000)])
        #expect(queue.room.records == 0)
        #expect(queue.room.bytes < 0)
    }

    /// Random work, with failures and changing partitions, is checked against a list of what each key has yet to see.
    @Test(arguments: 0..<12) func randomWorkIsDoneOnceAndInOrderForEachKey(_ seed: UInt64) {
        var random = Generator(state: seed)
        var queue = KeyQueue(limits: Self.limits)
        var offsets: [Int32: Int64] = [:]
        /// The records to be done by key, in order; a key belongs to one partition.
        var expected: [String: [Int64]] = [:]
        var inWork: [KeyedWork] = []
        var gone: Set<String> = []
        var now = Self.start
        func name(_ work: KeyedWork) -> String { String(decoding: work.key ?? [], as: UTF8.self) }
        for _ in 0..<4000 {
            now += .milliseconds(Int.random(in: 0...200, using: &random))
            switch Int.random(in: 0..<20, using: &random) {
            case 0..<8:
                let number = Int32.random(in: 0..<12, using: &random)
                let offset = offsets[number % 3, default: 0]
                offsets[number % 3] = offset + 1
                queue.add([self.record("k\(number)", offset, number % 3)])
                expected["k\(number)", default: []].append(offset)
            case 8..<13:
                queue.wake(now: now)
                let works = queue.next()
                #expect(Set(works.map(name)).isDisjoint(with: inWork.map(name)), "a key is in work once")
                for work in works {
                    // Everything that waits, in order: nothing is left out or repeated.
                    #expect(work.records.map(\.offset) == expected[name(work)])
                    #expect(!work.records.isEmpty)
                }
                inWork += works
            case 13..<19:
                guard let work = inWork.randomElement(using: &random) else { continue }
                inWork.removeAll { name($0) == name(work) }
                if Int.random(in: 0..<3, using: &random) == 0 {
                    queue.later(work.key, now: now) { .milliseconds(100 * min($0, 5)) }
                } else {
                    queue.done(work.key)
                    if !gone.contains(name(work)) { expected[name(work)]?.removeFirst(work.records.count) }
                }
                gone.remove(name(work))
            default:
                let partition = Int32.random(in: 0..<3, using: &random)
                _ = queue.drop([KafkaPartition(topic: "t", partition: partition)])
                for key in (0..<12).filter({ $0 % 3 == partition }).map({ "k\($0)" }) {
                    expected[key] = []
                    if inWork.contains(where: { name($0) == key }) { gone.insert(key) }
                }
            }
            #expect(queue.records == expected.values.reduce(0) { $0 + $1.count })
        }
    }

    private struct Generator: RandomNumberGenerator {
        var state: UInt64
        mutating func next() -> UInt64 {
            self.state = self.state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return (self.state >> 33) | (self.state << 31)
        }
    }
}
