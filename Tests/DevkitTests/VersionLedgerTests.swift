import Kafka
import Model
import Testing

@testable import Devkit

/// The history of versions in `waybill.orders`, and its last records, are judged correctly.
@Suite struct VersionLedgerTests {
    static let key = "order.com.example.shop/o-1"

    private static func state(
        _ version: Int64, note: String, modified: Int64, isRemoved: Bool = false
    ) throws -> OrderState {
        OrderState(
            key: try OrderKey(Self.key), document: OrderDocument(members: ["status": .string(note)]),
            token: try AuthenticationToken("0123456789abcdef"), version: version, modifiedEpochSeconds: modified,
            positions: AppliedPositions(), recent: RecentChanges(), isRemoved: isRemoved)
    }

    private static func record(
        _ version: Int64, _ note: String, _ modified: Int64, offset: Int64, partition: Int32 = 3,
        isSilent: Bool = false
    ) throws -> KafkaRecord {
        let value = OrderRecord(try Self.state(version, note: note, modified: modified), content: nil).encoded
        return KafkaRecord(
            topic: "orders", partition: partition, offset: offset, timestampMilliseconds: 1000 + offset,
            key: Array(Self.key.utf8), value: value,
            headers: isSilent ? [KafkaHeader(name: RecordHeader.silent.rawValue, text: "1")] : [])
    }

    private static func tombstone(offset: Int64) -> KafkaRecord {
        KafkaRecord(
            topic: "orders", partition: 3, offset: offset, timestampMilliseconds: 1, key: Array(Self.key.utf8),
            value: nil, headers: [])
    }

    private static func ledger(_ told: [(Int64, String, Int64)]) throws -> VersionLedger {
        var ledger = VersionLedger()
        for (offset, (version, note, modified)) in told.enumerated() {
            ledger.take(try Self.record(version, note, modified, offset: Int64(offset)))
        }
        return ledger
    }

    @Test func theFirstPublicationOfTheLastVersionIsKept() throws {
        let ledger = try Self.ledger([(1, "a", 10), (2, "b", 11), (2, "b", 11)])
        #expect(ledger.entries[Self.key]?.publishedEpochMilliseconds == 1001)
    }

    @Test func orderedAndRepeatedVersionsHaveNoFault() throws {
        let ledger = try Self.ledger([(1, "a", 10), (2, "b", 11), (2, "b", 11), (4, "c", 20)])
        #expect(ledger.faults == [])
        #expect(ledger.repeated == 1)
        #expect(ledger.late == 0)
        #expect(ledger.records == 4)
        let stored = try Self.state(4, note: "c", modified: 20)
        #expect(VersionLedger.difference(ledger.entries[Self.key], stored: stored) == nil)
    }

    @Test func aVersionUsedForTwoStatesIsAFault() throws {
        #expect(try Self.ledger([(1, "a", 10), (2, "b", 11), (2, "c", 11)]).faults.count == 1)
        let faults = try Self.ledger([(2, "b", 11), (2, "b", 12)]).faults
        #expect(faults.count == 1)
        #expect(faults.first?.contains("3/0") == true)
        #expect(faults.first?.contains("3/1") == true)
    }

    @Test func aNewVersionWithoutALaterTimeIsAFault() throws {
        #expect(try Self.ledger([(1, "a", 10), (2, "b", 10)]).faults.count == 1)
        #expect(try Self.ledger([(2, "b", 10), (1, "a", 10)]).faults.count == 1)
        #expect(try Self.ledger([(2, "b", 11), (1, "a", 10)]).faults == [])
    }

    @Test func anOlderVersionAsTheLastRecordIsADifference() throws {
        let ledger = try Self.ledger([(1, "a", 10), (3, "c", 12), (2, "b", 11)])
        #expect(ledger.late == 1)
        #expect(ledger.faults == [])
        let stored = try Self.state(3, note: "c", modified: 12)
        let difference = VersionLedger.difference(ledger.entries[Self.key], stored: stored)
        #expect(difference?.contains("Redis has version 3, waybill.orders 2 at 3/2") == true)
    }

    @Test func aMissingOrUnequalEntryIsADifference() throws {
        let ledger = try Self.ledger([(1, "a", 10)])
        let entry = ledger.entries[Self.key]
        #expect(VersionLedger.difference(entry, stored: nil) != nil)
        #expect(VersionLedger.difference(nil, stored: try Self.state(1, note: "a", modified: 10)) != nil)
        #expect(VersionLedger.difference(nil, stored: nil) == nil)
        #expect(
            VersionLedger.difference(entry, stored: try Self.state(1, note: "b", modified: 10))?.contains("status")
                == true)
        #expect(VersionLedger.difference(entry, stored: try Self.state(1, note: "a", modified: 11)) != nil)
    }

    @Test func aRemovedOrderAgreesWithATombstoneOnly() throws {
        var ledger = try Self.ledger([(1, "a", 10)])
        let removed = try Self.state(2, note: "a", modified: 11, isRemoved: true)
        #expect(VersionLedger.difference(ledger.entries[Self.key], stored: removed) != nil)
        ledger.take(Self.tombstone(offset: 9))
        #expect(VersionLedger.difference(ledger.entries[Self.key], stored: removed) == nil)
        let alive = try Self.state(2, note: "a", modified: 11)
        #expect(VersionLedger.difference(ledger.entries[Self.key], stored: alive)?.contains("tombstone") == true)
    }

    @Test func anOrderThatMovesToAnotherPartitionLeavesATombstone() throws {
        var ledger = try Self.ledger([(1, "a", 10), (2, "b", 11)])
        ledger.take(try Self.record(4, "b", 11, offset: 7, partition: 19, isSilent: true))
        #expect(ledger.faults.count == 1)
        #expect(ledger.faults.first?.contains("[3, 19]") == true)
        // The partitions are read in any order.
        ledger.take(Self.tombstone(offset: 2))
        #expect(ledger.faults == [])
        #expect(ledger.entries[Self.key]?.place == "19/7")
        #expect(ledger.entries[Self.key]?.publishedEpochMilliseconds == 1001)
        let stored = try Self.state(4, note: "b", modified: 11)
        #expect(VersionLedger.difference(ledger.entries[Self.key], stored: stored) == nil)
    }

    @Test func onlyASilentUnchangedRecordMayKeepItsModifiedTime() throws {
        var other = try Self.ledger([(1, "a", 10)])
        other.take(try Self.record(3, "b", 10, offset: 7, isSilent: true))
        #expect(other.faults.count == 1)
        var loud = try Self.ledger([(1, "a", 10)])
        loud.take(try Self.record(3, "a", 10, offset: 7))
        #expect(loud.faults.count == 1)
    }

    @Test func aRecordThatCannotBeReadIsAFault() throws {
        var ledger = VersionLedger()
        ledger.take(
            KafkaRecord(
                topic: "orders", partition: 0, offset: 0, timestampMilliseconds: 1, key: Array(Self.key.utf8),
                value: Array("{".utf8), headers: []))
        #expect(ledger.faults.count == 1)
    }
}
