import TestKit
import Testing

@testable import Kafka

struct ConsumerLedgerTests {
    private static let mine = KafkaPartition(topic: "t", partition: 0)

    private func record(_ offset: Int64, _ partition: Int32 = 0, in assignment: UInt64 = 1) -> KafkaRecord {
        var record = KafkaRecord(
            topic: "t", partition: partition, offset: offset, timestampMilliseconds: 0, key: nil, value: nil)
        record.assignment = assignment
        return record
    }

    private func position(_ offset: Int64, _ partition: Int32 = 0) -> KafkaPosition {
        KafkaPosition(topic: "t", partition: partition, offset: offset)
    }

    @Test func onlyTheContiguousPrefixIsCommitted() {
        var ledger = PartitionLedger(assignment: 1)
        #expect(ledger.position == nil)
        for offset: Int64 in [10, 11, 15, 16] { ledger.handOut(offset) }
        #expect(ledger.position == nil, "nothing is done")
        ledger.finish(11)
        #expect(ledger.position == nil, "the first one is missing")
        ledger.finish(10)
        #expect(ledger.position == 15, "there are no records between")
        ledger.acknowledge(15)
        #expect(ledger.position == nil, "the broker knows")
        ledger.finish(16)
        ledger.finish(15)
        #expect(ledger.position == 17)
        #expect(ledger.inHand == 0)
    }

    @Test func oneParkedRecordIsTheOnlyWorkAndHoldsTheCommitBack() {
        var ledger = ConsumerLedger()
        ledger.add([Self.mine])
        for start in stride(from: Int64(0), to: 10_001, by: 500) {
            let records = (start..<min(10_001, start + 500)).map { offset in
                var record = KafkaRecord(
                    topic: "t", partition: 0, offset: offset, timestampMilliseconds: 1000 + offset, key: nil, value: nil
                )
                record.assignment = ledger.assignment
                return record
            }
            ledger.handOut(records)
            ledger.finish(records.dropFirst(start == 0 ? 1 : 0).map(\.receipt))
        }
        let parked = ledger.progress([Self.mine: 10_001])["t"]
        #expect(parked == KafkaProgress(unworked: 1, committedLag: 10_001, oldestEpochMilliseconds: 1000))
        #expect(ledger.progress([:])["t"] == parked, "without an end: what was handed out")
        #expect(ledger.progress([Self.mine: 10_011])["t"]?.unworked == 11, "ten were not handed out yet")
        ledger.finish([self.record(0, in: ledger.assignment).receipt])
        ledger.acknowledge(ledger.committable, chosenIn: ledger.assignment)
        #expect(ledger.progress([Self.mine: 10_001])["t"] == KafkaProgress())
    }

    @Test func theAgeOfTheFirstRecordIsKnownHoweverLongItWaits() {
        var ledger = PartitionLedger(assignment: 1)
        for offset in 0..<Int64(5000) {
            ledger.handOut(offset)
            ledger.mark(offset, 1000 + offset)
            if offset != 7 { ledger.finish(offset) }
        }
        #expect(ledger.progress(end: nil).oldestEpochMilliseconds == 1007)
        // A deferred record counts as unfinished.
        ledger.hold(7)
        ledger.putOff(7)
        #expect(ledger.progress(end: nil).oldestEpochMilliseconds == 1007)
        ledger.hold(nil)
        #expect(ledger.progress(end: nil).oldestEpochMilliseconds == nil)
    }

    @Test func aRepeatedOrUnknownFinishHasNoEffect() {
        var ledger = PartitionLedger(assignment: 1)
        ledger.handOut(1)
        ledger.handOut(2)
        #expect(ledger.finish(3) == false)
        #expect(ledger.finish(0) == false)
        #expect(ledger.finish(2) == true)
        #expect(ledger.finish(2) == false)
        #expect(ledger.inHand == 1)
        #expect(ledger.position == nil)
    }

    @Test func noOffsetAfterAReleasedRecordIsCommitted() {
        var ledger = PartitionLedger(assignment: 1)
        for offset: Int64 in 0..<5 { ledger.handOut(offset) }
        for offset: Int64 in [0, 1, 3] { ledger.finish(offset) }
        ledger.letGo(4)
        ledger.letGo(2)
        #expect(ledger.inHand == 0)
        #expect(ledger.position == 2)
    }

    @Test func aLowerOffsetRestartsTheLedger() {
        var ledger = PartitionLedger(assignment: 1)
        for offset: Int64 in 100..<103 { ledger.handOut(offset) }
        ledger.finish(100)
        ledger.handOut(0)
        #expect(ledger.inHand == 1)
        #expect(ledger.position == nil)
        ledger.finish(0)
        #expect(ledger.position == 1)
        // A commit for the former topic, in flight since before it was recreated.
        ledger.acknowledge(101)
        #expect(ledger.position == 1)
        ledger.acknowledge(1)
        #expect(ledger.position == nil)
    }

    @Test func aLateResultOfARecreatedTopicFinishesNoNewRecord() {
        var ledger = PartitionLedger(assignment: 1)
        for offset: Int64 in 0..<3 { ledger.handOut(offset) }
        ledger.finish(0)
        for offset: Int64 in 0..<3 { ledger.handOut(offset) }
        #expect(ledger.inHand == 3)
        ledger.finish(0)
        #expect(ledger.position == 1)
        for _ in 0..<2 {
            ledger.handOut(0)
            ledger.handOut(1)
        }
        for _ in 0..<3 { #expect(ledger.finish(1) == false, "it may be one of three former ones") }
        #expect(ledger.finish(1) == true)
        #expect(ledger.finish(0) == false, "it may be the former one")
        #expect(ledger.finish(0) == true)
        #expect(ledger.position == 2)
        ledger.letGo(2)
        #expect(ledger.inHand == 0)
    }

    /// An hour of work beyond one parked record must not fill the memory.
    @Test func finishedRecordsAfterAGapNeedBoundedMemory() {
        var ledger = PartitionLedger(assignment: 1)
        ledger.handOut(0)
        for offset: Int64 in 1..<200_000 {
            ledger.handOut(offset)
            ledger.finish(offset)
        }
        #expect(ledger.inHand == 1)
        #expect(ledger.position == nil)
        #expect(Mirror(reflecting: ledger).children.allSatisfy { ($0.value as? [Int64])?.count ?? 0 <= 100 })
        ledger.finish(0)
        #expect(ledger.position == 200_000)
    }

    @Test func aDeferredRecordBlocksTheCommitUntilItIsFinished() {
        var ledger = ConsumerLedger()
        ledger.add([Self.mine])
        let records = (0..<6).map { self.record(Int64($0)) }
        ledger.handOut(records)
        var deferral = KafkaDeferral()
        deferral.putOff = [2, 3].map { records[$0].receipt }
        deferral.holds = [Self.mine: 2]
        ledger.apply(deferral)
        #expect(ledger.inHand == 4, "what is put off is not waited for")
        ledger.finish([0, 1, 4, 5].map { records[$0].receipt })
        #expect(ledger.committable == [self.position(2)])
        deferral = KafkaDeferral()
        deferral.again = [records[2].receipt]
        deferral.holds = [Self.mine: 3]
        ledger.apply(deferral)
        #expect(ledger.inHand == 1)
        #expect(ledger.committable == [self.position(2)], "it is in hand again")
        ledger.finish([records[2].receipt])
        #expect(ledger.committable == [self.position(3)])
        deferral.again = [records[3].receipt]
        deferral.holds.updateValue(nil, forKey: Self.mine)
        ledger.apply(deferral)
        ledger.finish([records[3].receipt])
        #expect(ledger.committable == [self.position(6)])
        #expect(ledger.isOwned(Self.mine, since: 1))
        ledger.add([Self.mine])
        #expect(!ledger.isOwned(Self.mine, since: 1))
        #expect(ledger.committable.isEmpty)
    }

    /// Many records of a brand that waits, among records of brands that continue.
    @Test func deferredRecordsNeedBoundedMemory() {
        var ledger = PartitionLedger(assignment: 1)
        for offset: Int64 in 0..<200_000 {
            ledger.handOut(offset)
            if offset % 10 == 0 {
                ledger.finish(offset)
            } else {
                ledger.hold(1)
                ledger.putOff(offset)
            }
        }
        #expect(ledger.position == 1)
        #expect(Mirror(reflecting: ledger).children.allSatisfy { ($0.value as? [Int64])?.count ?? 0 <= 100 })
        for offset: Int64 in 1..<200_000 where offset % 10 != 0 {
            ledger.handOutAgain(offset)
            ledger.hold(offset + 1)
            ledger.finish(offset)
        }
        ledger.hold(nil)
        #expect(ledger.position == 200_000)
        #expect(ledger.inHand == 0)
    }

    /// Random work on one partition, compared with a set of all unfinished offsets.
    @Test(arguments: 0..<20) func theLedgerAgreesWithANaiveModel(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var ledger = PartitionLedger(assignment: 1)
        var (open, lost, known, putOff) = (Set<Int64>(), Set<Int64>(), Set<Int64>(), Set<Int64>())
        let start = Int64.random(in: 0...50, using: &random)
        var (next, committed) = (start, start)
        for _ in 0..<3000 {
            switch Int.random(in: 0..<13, using: &random) {
            case 10:
                guard let offset = open.randomElement(using: &random) else { continue }
                open.remove(offset)
                putOff.insert(offset)
                ledger.hold(putOff.min())
                ledger.putOff(offset)
            case 11, 12:
                guard let offset = putOff.randomElement(using: &random) else { continue }
                putOff.remove(offset)
                open.insert(offset)
                ledger.handOutAgain(offset)
                ledger.hold(putOff.min())
            case 0..<4:
                next += Int64.random(in: 1...3, using: &random) / 3
                if known.isEmpty { committed = next }
                ledger.handOut(next)
                open.insert(next)
                known.insert(next)
                next += 1
            case 4..<8:
                let offset = open.randomElement(using: &random) ?? next
                #expect(ledger.finish(offset) == (open.remove(offset) != nil))
            case 8:
                guard Int.random(in: 0..<40, using: &random) == 0, let offset = open.randomElement(using: &random)
                else { continue }
                ledger.letGo(offset)
                open.remove(offset)
                lost.insert(offset)
            default:
                let expected = min(open.union(lost).union(putOff).min() ?? next, next)
                #expect(ledger.position == (known.isEmpty || expected <= committed ? nil : expected))
                #expect(ledger.inHand == open.count)
                guard let position = ledger.position else { continue }
                #expect(position > committed)
                ledger.acknowledge(position)
                committed = position
            }
        }
    }

    @Test func resultsFromAnEarlierAssignmentAreIgnored() {
        var ledger = ConsumerLedger()
        ledger.add([Self.mine])
        let early = [self.record(0, in: ledger.assignment), self.record(1, in: ledger.assignment)]
        ledger.handOut(early)
        ledger.remove([Self.mine])
        #expect(ledger.inHand == 0)
        ledger.finish(early.map(\.receipt))
        #expect(ledger.committable.isEmpty)
        ledger.add([Self.mine])
        let late = [self.record(0, in: ledger.assignment), self.record(1, in: ledger.assignment)]
        ledger.handOut(late)
        ledger.finish(early.map(\.receipt))
        #expect(ledger.committable.isEmpty)
        #expect(ledger.inHand == 2)
        ledger.finish(late.map(\.receipt))
        #expect(ledger.committable == [self.position(2)])
    }

    @Test func anAcknowledgementOfAnEarlierAssignmentIsIgnored() {
        var ledger = ConsumerLedger()
        ledger.add([Self.mine])
        let chosen = ledger.assignment
        ledger.add([Self.mine])
        ledger.handOut([self.record(0, in: ledger.assignment)])
        ledger.finish([self.record(0, in: ledger.assignment).receipt])
        ledger.acknowledge([self.position(9)], chosenIn: chosen)
        #expect(ledger.committable == [self.position(1)])
        ledger.acknowledge([self.position(1)], chosenIn: ledger.assignment)
        #expect(ledger.committable.isEmpty)
    }

    @Test func partitionsAssignedTogetherAdvanceIndependently() {
        var ledger = ConsumerLedger()
        let partitions = (0..<3).map { KafkaPartition(topic: "t", partition: $0) }
        ledger.add(partitions)
        let records = (0..<9).map { self.record(Int64($0 / 3), Int32($0 % 3)) }
        ledger.handOut(records)
        #expect(ledger.inHand == 9)
        ledger.finish(records.filter { $0.partition != 1 || $0.offset != 1 }.map(\.receipt))
        #expect(ledger.committable == [self.position(3, 0), self.position(1, 1), self.position(3, 2)])
        #expect(ledger.inHand(of: Set(partitions)) == 1)
        ledger.remove([partitions[1]])
        #expect(ledger.inHand == 0)
        #expect(ledger.committable == [self.position(3, 0), self.position(3, 2)])
    }
}
