import Kafka
import Model
import TestKit
import Testing

@testable import Pusher

/// The keys that wait in the pending topic, from the parking's point of view: without a socket.
@Suite struct PendingParkingTests {
    private static let topic = "waybill.push-pending"
    private let start = MonotonicTime.now
    private let later = MonotonicTime.now + .seconds(3600)

    private func receipt(_ topic: String, _ offset: Int64, partition: Int32 = 0) -> KafkaReceipt {
        KafkaRecord(
            topic: topic, partition: partition, offset: offset, timestampMilliseconds: 0, key: nil, value: nil
        ).receipt
    }

    private func key(_ order: String) throws -> PendingPushKey { try PendingPushKey("order.a/\(order)") }

    private func shared(_ order: String, _ offset: Int64, partition: Int32 = 0) throws -> ParkedPush {
        ParkedPush(
            key: try self.key(order), receipts: [self.receipt("orders", offset, partition: partition)],
            epochMilliseconds: offset)
    }

    private func pending(_ order: String, _ offset: Int64, partition: Int32 = 0) throws -> ParkedPush {
        ParkedPush(
            key: try self.key(order), receipts: [self.receipt(Self.topic, offset, partition: partition)],
            epochMilliseconds: offset)
    }

    private func parking(_ limits: Parking.Limits = .init(keys: 100, records: 100, pending: 100)) -> Parking {
        var parking = Parking(limits, pendingTopic: Self.topic)
        parking.beginFold(0, to: 0, now: self.start)
        parking.advanceFold(0, to: 0, now: self.start)
        return parking
    }

    private func take(_ parking: inout Parking) throws -> [ParkedPush] {
        parking.take([try OrderTypeIdentifier("order.a"): 100], records: 1000, now: self.later)
    }

    /// Parks an entry, and compares the offset of the record that it completes.
    private func expect(
        _ done: Int64?, _ parking: inout Parking, _ push: ParkedPush, _ now: MonotonicTime
    ) throws {
        let replaced = parking.park(push, now: now)
        #expect(replaced?.offset == done)
    }

    @Test func anOverduePushIsWrittenOnceAndCompleted() throws {
        var parking = self.parking()
        try self.expect(nil, &parking, self.shared("o", 1), self.start)
        try self.expect(nil, &parking, self.shared("o", 2), self.start + .seconds(1))
        #expect(parking.takeOverdue(since: self.start - .seconds(1), most: 10).isEmpty)
        let overdue = parking.takeOverdue(since: self.start, most: 10)
        #expect(overdue.map(\.receipts.count) == [2])
        let none = try self.take(&parking)
        #expect(none.isEmpty, "it is being written")
        try self.expect(nil, &parking, self.shared("o", 3), self.start + .seconds(2))
        let done = parking.written(try self.key("o"), true, now: self.start + .seconds(3))
        #expect(done.map(\.offset) == [1, 2])
        let late = try self.take(&parking)
        #expect(late.map { $0.receipts.map(\.offset) } == [[3]], "it came too late to be written")
        #expect(parking.isEmpty)
        #expect(parking.recordCount == 0)
    }

    @Test func aFailedWriteOfAPushIsRetried() throws {
        var parking = self.parking()
        _ = parking.park(try self.shared("o", 1), now: self.start)
        _ = parking.takeOverdue(since: self.start, most: 10)
        let done = parking.written(try self.key("o"), false, now: self.start + .seconds(1))
        #expect(done.isEmpty)
        #expect(parking.recordCount == 1)
        #expect(parking.takeOverdue(since: self.start, most: 10).isEmpty)
        #expect(parking.takeOverdue(since: self.start + .seconds(1), most: 10).count == 1)
    }

    @Test func theNewestRecordOfAKeyReplacesEarlierOnes() throws {
        var parking = self.parking()
        try self.expect(nil, &parking, self.pending("o", 1), self.start)
        try self.expect(1, &parking, self.pending("o", 4), self.start)
        #expect(parking.pendingCount == 1)
        let taken = try self.take(&parking)
        #expect(taken.map { $0.receipts.map(\.offset) } == [[4]])
        try self.expect(nil, &parking, self.pending("o", 6), self.start)
        let end = parking.finish(taken[0].receipts[0])
        #expect(end?.key.order.order.rawValue == "o")
        #expect(end?.isReplaced == true, "its note would take the newer one for done")
    }

    @Test func anAlreadyNotifiedPushIsNotTaken() throws {
        var parking = Parking(.init(keys: 10, records: 10, pending: 10), pendingTopic: Self.topic)
        parking.beginFold(0, to: 5, now: self.start)
        for (order, offset) in [("a", 0), ("b", 1), ("c", 2)] as [(String, Int64)] {
            _ = parking.park(try self.pending(order, offset), now: self.start)
            parking.advanceFold(0, to: offset + 1, now: self.start)
        }
        let none = try self.take(&parking)
        #expect(none.isEmpty, "notes may follow")
        let notified = parking.notified(try self.key("a"), partition: 0, through: 0)
        #expect(notified?.offset == 0)
        let earlier = parking.notified(try self.key("b"), partition: 0, through: 0)
        #expect(earlier == nil, "of an earlier record")
        let other = parking.notified(try self.key("c"), partition: 1, through: 9)
        #expect(other == nil, "of another partition")
        parking.advanceFold(0, to: 5, now: self.start)
        let taken = try self.take(&parking)
        #expect(Set(taken.map(\.key.order.order.rawValue)) == ["b", "c"])
    }

    @Test func aRecordCanBeTakenOnceThePendingRecordOfItsKeyIsGone() throws {
        for isNotified in [true, false] {
            var parking = Parking(.init(keys: 10, records: 10, pending: 10), pendingTopic: Self.topic)
            parking.beginFold(0, to: 5, now: self.start)
            _ = parking.park(try self.pending("a", 0), now: self.start)
            _ = parking.park(try self.shared("a", 7), now: self.start)
            if isNotified {
                _ = parking.notified(try self.key("a"), partition: 0, through: 0)
            } else {
                _ = parking.drop([KafkaPartition(topic: Self.topic, partition: 0)])
            }
            let taken = try self.take(&parking)
            #expect(taken.map { $0.receipts.map(\.offset) } == [[7]])
        }
    }

    @Test func aPushParkedDuringAWriteStaysWhenOthersAreDropped() throws {
        var parking = self.parking()
        _ = parking.park(try self.shared("a", 1, partition: 1), now: self.start)
        _ = parking.takeOverdue(since: self.start, most: 1)
        _ = parking.park(try self.shared("a", 2, partition: 2), now: self.start)
        let dropped = parking.drop([KafkaPartition(topic: "orders", partition: 1)])
        #expect(dropped.map(\.offset) == [1])
        let done = parking.written(try self.key("a"), true, now: self.start)
        #expect(done.isEmpty)
        let taken = try self.take(&parking)
        #expect(taken.map { $0.receipts.map(\.offset) } == [[2]])
    }

    @Test func aQuietPartitionCountsAsFullyRead() throws {
        var parking = Parking(.init(keys: 10, records: 10, pending: 10), pendingTopic: Self.topic)
        parking.beginFold(0, to: 50, now: self.start)
        _ = parking.park(try self.pending("a", 0), now: self.start)
        parking.advanceFold(0, to: 1, now: self.start)
        parking.endQuietFolds(now: self.start + PendingFolds.quiet - .milliseconds(1))
        let none = try self.take(&parking)
        #expect(none.isEmpty)
        parking.endQuietFolds(now: self.start + PendingFolds.quiet)
        let taken = try self.take(&parking)
        #expect(taken.count == 1)
    }

    @Test func droppingAPartitionDropsOnlyItsOwnRecords() throws {
        var parking = self.parking()
        _ = parking.park(try self.shared("o", 1, partition: 7), now: self.start)
        _ = parking.park(try self.pending("o", 2), now: self.start)
        let dropped = parking.drop([KafkaPartition(topic: Self.topic, partition: 0)])
        #expect(dropped.map(\.offset) == [2])
        #expect(parking.pendingCount == 0)
        #expect(!parking.folds.isKnown(0))
        let left = try self.take(&parking)
        #expect(left.map { $0.receipts.map(\.offset) } == [[1]])
    }

    @Test func stalePushesAreRemoved() throws {
        var parking = self.parking()
        _ = parking.park(try self.pending("old", 5), now: self.start)
        _ = parking.park(try self.pending("new", 50), now: self.start)
        let stale = parking.takeStale(before: 50)
        #expect(stale.map(\.key.order.order.rawValue) == ["old"])
        #expect(parking.count == 1)
    }

    @Test func eachSearchForStaleRecordsScansAPartOfTheSlots() throws {
        var parking = self.parking(.init(keys: 0, records: 0, pending: 10_000))
        for number in 0..<10_000 { _ = parking.park(try self.pending("o\(number)", 5), now: self.start) }
        let found = (0..<3).map { _ in parking.takeStale(before: 50).count }
        #expect(found.reduce(0, +) == 10_000)
        #expect(found.allSatisfy { $0 < 5000 }, "\(found)")
    }

    @Test func pendingAndSharedRecordsHaveSeparateLimits() throws {
        var parking = self.parking(.init(keys: 2, records: 3, pending: 2))
        _ = parking.park(try self.pending("a", 0), now: self.start)
        _ = parking.park(try self.pending("b", 1), now: self.start)
        #expect(parking.pendingRoom == 0)
        #expect(parking.room == 2)
        _ = parking.park(try self.shared("c", 0), now: self.start)
        #expect(parking.room == 1)
        _ = parking.park(try self.shared("a", 1), now: self.start)
        #expect(parking.room == 1, "its key is there already")
    }

    /// For any records, writes, notifications and revocations: each record ends exactly once.
    @Test(arguments: 0..<60)
    func eachRecordEndsExactlyOnce(seed: UInt64) throws {
        var dice = SeededGenerator(seed: seed)
        var parking = self.parking()
        parking.beginFold(1, to: 0, now: self.start)
        parking.advanceFold(1, to: 0, now: self.start)
        var (open, ended): (Set<KafkaReceipt>, Set<KafkaReceipt>) = ([], [])
        var atDesk: [KafkaReceipt] = []
        var writing: [PendingPushKey] = []
        var (now, offset) = (self.start, Int64(0))
        func end(_ receipts: [KafkaReceipt]) {
            for receipt in receipts {
                #expect(open.remove(receipt) != nil, "\(receipt.origin) was not open")
                #expect(ended.insert(receipt).inserted)
            }
        }
        func finish(_ receipt: KafkaReceipt) {
            if receipt.topic == Self.topic { _ = parking.finish(receipt) }
            end([receipt])
        }
        for _ in 0..<1000 {
            now += .milliseconds(Int.random(in: 0..<100, using: &dice))
            let order = "o\(Int.random(in: 0..<12, using: &dice))"
            let partition = Int32.random(in: 0..<2, using: &dice)
            offset += 1
            switch Int.random(in: 0..<20, using: &dice) {
            case 0..<6 where parking.room > 0:
                let push = try self.shared(order, offset, partition: partition)
                open.formUnion(push.receipts)
                if let done = parking.park(push, now: now) { end([done]) }
            case 6..<10 where parking.pendingRoom > 0:
                // Each key has its partition.
                let push = try self.pending(order, offset, partition: Int32(order.utf8.count % 2))
                open.formUnion(push.receipts)
                if let done = parking.park(push, now: now) { end([done]) }
            case 10..<13:
                let openings = [try OrderTypeIdentifier("order.a"): Int.random(in: 0..<4, using: &dice)]
                atDesk += parking.take(openings, records: 10, now: now).flatMap(\.receipts)
            case 13..<16:
                guard let index = atDesk.indices.randomElement(using: &dice) else { continue }
                finish(atDesk.remove(at: index))
            case 16:
                writing += parking.takeOverdue(since: now - .seconds(1), most: 3).map(\.key)
            case 17:
                guard let index = writing.indices.randomElement(using: &dice) else { continue }
                end(parking.written(writing.remove(at: index), Bool.random(using: &dice), now: now))
            case 18:
                let through = Int64.random(in: 0...offset, using: &dice)
                let done = parking.notified(
                    try self.key(order), partition: Int32(order.utf8.count % 2), through: through)
                if let done { end([done]) }
            default:
                guard Int.random(in: 0..<10, using: &dice) == 0 else { continue }
                let leaving = KafkaPartition(
                    topic: Bool.random(using: &dice) ? "orders" : Self.topic, partition: partition)
                end(parking.drop([leaving]))
                func isLeaving(_ receipt: KafkaReceipt) -> Bool {
                    receipt.topic == leaving.topic && receipt.partition == leaving.partition
                }
                end(atDesk.filter(isLeaving))
                atDesk.removeAll(where: isLeaving)
                if leaving.topic == Self.topic {
                    parking.beginFold(leaving.partition, to: offset, now: now)
                    parking.advanceFold(leaving.partition, to: offset, now: now)
                }
            }
            #expect(parking.counts.values.reduce(0, +) == parking.count)
            #expect(parking.pendingCount <= parking.count)
        }
        for key in writing { end(parking.written(key, true, now: now)) }
        while !parking.isEmpty {
            let taken = try self.take(&parking)
            #expect(!taken.isEmpty, "what is there can be taken")
            if taken.isEmpty { break }
            atDesk += taken.flatMap(\.receipts)
        }
        for receipt in atDesk { finish(receipt) }
        #expect(open.isEmpty)
        #expect(parking.recordCount == 0)
        #expect(parking.pendingCount == 0)
        #expect(!parking.hasTaken)
    }
}
