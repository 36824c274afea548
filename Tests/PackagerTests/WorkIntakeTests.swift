import Kafka
import TestKit
import Testing

@testable import Packager

/// Decisions on which records are in hand and which are put off, without Kafka: each partition is a list of records.
struct WorkIntakeTests {
    private static let limits = KeyQueue.Limits(records: 60, bytes: 12_000, batchKeys: 8, batchBytes: 2000)
    private static let groups = ["a", "b", "c"].map { KeyGroup(name: $0, awaits: nil) }

    private func record(_ key: String, _ offset: Int64, _ partition: Int32 = 0, value: Int = 0) -> KafkaRecord {
        KafkaRecord(
            topic: "t", partition: partition, offset: offset, timestampMilliseconds: 0, key: Array(key.utf8),
            value: [UInt8](repeating: 0, count: value))
    }

    private func partition(_ number: Int32 = 0) -> KafkaPartition { KafkaPartition(topic: "t", partition: number) }

    private func intake(awaiting: [String: String] = [:]) -> WorkIntake {
        var intake = WorkIntake(limits: Self.limits)
        intake.update(Self.groups.map { KeyGroup(name: $0.name, awaits: awaiting[$0.name]) })
        return intake
    }

    /// Works on everything that is in hand, batch by batch.
    private func work(_ intake: inout WorkIntake) -> [Int64] {
        var done: [Int64] = []
        while case let works = intake.queue.next(), !works.isEmpty {
            for work in works {
                done += work.records.map(\.offset)
                intake.queue.done(work.key)
            }
        }
        return done
    }

    /// Reads again what can be read, from a partition's records, and works on it.
    private func readAll(_ intake: inout WorkIntake, _ log: [KafkaRecord]) -> [Int64] {
        var done: [Int64] = []
        while var reading = intake.nextReading() {
            _ = intake.addAgain(log.filter { (reading.from..<reading.to).contains($0.offset) }, &reading)
            if !reading.isOver { _ = intake.readToTheEnd(&reading) }
            intake.end(reading)
            done += self.work(&intake)
        }
        return done
    }

    @Test func aGroupTakesAtMostHalfAndLeavesRoomForOthers() {
        var intake = self.intake()
        let first = intake.add((0..<100).map { self.record("b/\($0)", $0) })
        #expect(intake.queue.records == 30)
        #expect(first.putOff.map(\.offset) == Array(30..<100))
        #expect(first.holds == [self.partition(): 30])
        #expect(intake.add([self.record("a/1", 100), self.record("b/1", 101)]).putOff.map(\.offset) == [101])
        #expect(intake.queue.records == 31, "another group is taken in")
        #expect(intake.room.records >= 256, "and asked for")
        #expect(intake.nextReading() == nil, "nothing is read as long as there is no room")
    }

    @Test func aSingleGroupUsesTheWholeLimitWithoutDeferral() {
        var intake = WorkIntake(limits: Self.limits)
        intake.update([KeyGroup(name: "b", awaits: nil)])
        #expect(intake.add((0..<60).map { self.record("b/\($0)", $0) }).isEmpty)
        #expect(intake.room.records == 0)
    }

    @Test func recordsOfAnAwaitedBrandAreDeferredInOrder() {
        var intake = self.intake(awaiting: ["b": "expired"])
        let log = (0..<1000).map { self.record($0 % 10 == 0 ? "a/\($0)" : "b/\($0 % 7)", Int64($0)) }
        var done: [Int64] = []
        for start in stride(from: 0, to: 1000, by: 20) {
            let deferral = intake.add(Array(log[start..<start + 20]))
            #expect(deferral.putOff.count == 18)
            done += self.work(&intake)
        }
        #expect(done == Array(stride(from: 0, to: 1000, by: 10)), "the other brand is not kept waiting")
        #expect(intake.queue.records == 0)
        #expect(intake.deferred.counts == [2: 900])
        #expect(intake.nextReading() == nil)
        intake.update(Self.groups)
        // A record that arrives meanwhile is put off behind the others.
        #expect(intake.add([self.record("b/0", 1000)]).putOff.map(\.offset) == [1000])
        let rest = self.readAll(&intake, log + [self.record("b/0", 1000)])
        #expect(rest.count == 901)
        #expect(Set(rest).count == 901)
        for key in 0..<7 {
            let offsets = rest.filter { $0 < 1000 && $0 % 7 == key }
            #expect(offsets == offsets.sorted())
        }
        #expect(intake.deferred.isEmpty)
        #expect(intake.deferred.counts.isEmpty)
        #expect(intake.add([self.record("b/0", 1001)]).isEmpty, "it comes directly again")
    }

    @Test func aLargeKeyIsDeferredWithoutDelayingItsGroup() {
        var intake = self.intake()
        let log = (0..<20).map { self.record("b/big", $0, value: 900) }
        #expect(intake.add(log).putOff.map(\.offset) == Array(2..<20), "as much as a batch takes")
        #expect(intake.add([self.record("b/small", 20)]).isEmpty)
        #expect(intake.deferred.keyCount == 1)
        #expect(self.readAll(&intake, log).isEmpty, "there is no room for it")
        var works = intake.queue.next()
        #expect(works.map(\.records.count) == [2])
        intake.queue.later(works[0].key, now: .now) { _ in .seconds(1000) }
        works = intake.queue.next()
        #expect(works.map(\.records.count) == [1], "the others are not kept waiting")
        intake.queue.done(works[0].key)
        intake.queue.wake(now: .now + .seconds(1000))
        #expect(self.work(&intake) == [0, 1])
        #expect(self.readAll(&intake, log) == Array(2..<20))
        #expect(intake.deferred.keyCount == 0)
        #expect(intake.deferred.isEmpty)
    }

    @Test func unknownGroupsCountAsOneGroup() {
        var intake = self.intake()
        for number in 0..<5000 { _ = intake.add([self.record("made.up.\(number)/1", Int64(number))]) }
        #expect(intake.queue.records == 30)
        #expect(intake.deferred.counts == [KeyGroups.unknown: 4970])
        #expect(intake.groups.names.count == 4)
        #expect(intake.add([self.record("a/1", 5000)]).isEmpty)
        // One of them becomes known: its new records stay behind its earlier ones.
        intake.update(Self.groups + [KeyGroup(name: "made.up.4999", awaits: nil)])
        #expect(intake.add([self.record("made.up.4999/1", 5001)]).putOff.map(\.offset) == [5001])
    }

    @Test func droppedAndDeletedDeferredRecordsAreForgotten() {
        var intake = self.intake(awaiting: ["b": "expired"])
        _ = intake.add((0..<10).map { self.record("b/1", $0, Int32($0 % 2)) })
        #expect(intake.deferred.counts == [2: 10])
        #expect(intake.drop([self.partition(1)]).isEmpty)
        #expect(intake.deferred.counts == [2: 5])
        #expect(intake.deferred.gone == 0)
        // The topic was recreated.
        let deferral = intake.add([self.record("b/1", 3)])
        #expect(deferral.holds == [self.partition(): 3])
        #expect(intake.deferred.counts == [2: 1])
        #expect(intake.deferred.gone == 5)
        // Deleted before it is read again.
        intake.update(Self.groups)
        var reading = intake.nextReading()
        #expect(reading?.from == 3)
        #expect(reading?.to == 4)
        _ = intake.readToTheEnd(&reading!)
        #expect(intake.deferred.isEmpty)
        #expect(intake.deferred.gone == 6)
    }

    @Test func aPassOverADroppedPartitionTakesNoRecords() throws {
        var intake = self.intake(awaiting: ["b": "expired"])
        let log = (0..<10).map { self.record("b/1", $0) }
        _ = intake.add(log)
        intake.update(Self.groups)
        let next = intake.nextReading()
        var reading = try #require(next)
        _ = intake.drop([self.partition()])
        // The partition is assigned again, and later records are put off again.
        intake.update([KeyGroup(name: "b", awaits: "expired"), KeyGroup(name: "a", awaits: nil)])
        _ = intake.add(Array(log[5...]))
        #expect(intake.addAgain(log, &reading).again.isEmpty)
        #expect(reading.isOver)
        intake.end(reading)
        intake.update(Self.groups)
        #expect(self.readAll(&intake, log) == Array(5..<10))
    }

    /// Random arrivals, outages of brands, keys that fail, interrupted reads, and partitions that come and go, checked
    /// against a model of the consumer's ledger.
    @Test(arguments: 0..<12) func eachRecordIsDoneOnceAndInOrderUnderRandomFailures(_ seed: UInt64) throws {
        var model = IntakeModel(seed: seed, limits: Self.limits)
        for _ in 0..<3000 { try model.step() }
        try model.drain()
    }

    /// A key in work keeps what it was given, so it is handed out once more; one of another group goes on waiting.
    @Test func whatWaitsIsReadyWhenItsObstacleIsGone() {
        var intake = self.intake()
        let now = ContinuousClock.now
        let keys = ["a/1", "a/2", "b/1", "?/1"]
        _ = intake.add(keys.enumerated().map { self.record($1, Int64($0)) })
        #expect(intake.queue.next().count == 4)
        intake.queue.awaits(Array("a/1".utf8), until: now + .seconds(60))
        intake.queue.later(Array("b/1".utf8), now: now) { _ in .seconds(60) }
        intake.queue.later(Array("?/1".utf8), now: now) { _ in .seconds(60) }
        intake.update(Self.groups)
        #expect(intake.queue.next().isEmpty, "nothing was loaded")
        let loaded = Self.groups.map { KeyGroup(name: $0.name, awaits: nil, generation: $0.name == "a" ? 1 : 0) }
        intake.update(loaded)
        #expect(Set(intake.queue.next().map { String(decoding: $0.key ?? [], as: UTF8.self) }) == ["a/1", "?/1"])
        intake.queue.awaits(Array("a/2".utf8), until: now + .seconds(60))
        let again = intake.queue.next()
        #expect(again.map(\.key) == [Array("a/2".utf8)])
        for key in ["a/1", "a/2"] { intake.queue.awaits(Array(key.utf8), until: now + .seconds(60)) }
        intake.update(loaded)
        #expect(intake.queue.next().isEmpty, "once for each loading")
        intake.update(Self.groups.map { KeyGroup(name: $0.name, awaits: $0.name == "b" ? "expired" : nil) })
        _ = intake.queue.next()
        intake.queue.awaits(Array("a/1".utf8), until: now + .seconds(60))
        intake.queue.awaits(Array("a/2".utf8), until: now + .seconds(60))
        intake.update(Self.groups)
        #expect(intake.queue.next().map(\.key) == [Array("b/1".utf8)], "its group waits no more")
    }
}
