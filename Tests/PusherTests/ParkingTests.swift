import Kafka
import Model
import TestKit
import Testing

@testable import Pusher

/// The keys that wait apart from the scheduler, without a socket.
@Suite struct ParkingTests {
    private let start = MonotonicTime.now

    private func receipt(_ offset: Int64, partition: Int32 = 0) -> KafkaReceipt {
        KafkaRecord(
            topic: "orders", partition: partition, offset: offset, timestampMilliseconds: 0, key: nil, value: nil
        ).receipt
    }

    private func type(_ name: String) throws -> OrderTypeIdentifier { try OrderTypeIdentifier("order.\(name)") }

    private func push(
        _ type: String, _ order: String, _ offset: Int64, partition: Int32 = 0, at milliseconds: Int64 = 0
    ) throws -> ParkedPush {
        let key = OrderKey(orderType: try self.type(type), order: try OrderIdentifier(order))
        return ParkedPush(
            key: PendingPushKey(order: key), receipts: [self.receipt(offset, partition: partition)],
            epochMilliseconds: milliseconds)
    }

    @Test func changesOfOneOrderAreParkedTogetherWithTheLatestTime() throws {
        var parking = Parking(.init(keys: 10, records: 10, pending: 10), pendingTopic: "pending")
        for offset: Int64 in 0..<3 {
            _ = parking.park(try self.push("a", "o", offset, at: 100 - offset), now: self.start)
        }
        #expect(parking.count == 1)
        #expect(parking.recordCount == 3)
        let taken = parking.take([try self.type("a"): 5], records: 100, now: self.start)
        #expect(taken.map(\.receipts) == [(0..<3).map { self.receipt($0) }])
        #expect(taken.map(\.epochMilliseconds) == [100])
        #expect(parking.isEmpty)
        #expect(parking.recordCount == 0)
    }

    @Test func orderTypesAreTakenRoundRobinAndInOrderWithinEachType() throws {
        var parking = Parking(.init(keys: 1000, records: 1000, pending: 10), pendingTopic: "pending")
        for offset: Int64 in 0..<100 { _ = parking.park(try self.push("big", "o\(offset)", offset), now: self.start) }
        for offset: Int64 in 100..<103 {
            _ = parking.park(try self.push("small", "o\(offset)", offset), now: self.start)
        }
        let openings = [try self.type("big"): 50, try self.type("small"): 50]
        let taken = parking.take(openings, records: 6, now: self.start)
        #expect(taken.filter { $0.key.order.orderType.rawValue == "order.small" }.count == 3)
        let big = taken.filter { $0.key.order.orderType.rawValue == "order.big" }
        #expect(big.map(\.key.order.order.rawValue) == ["o0", "o1", "o2"])
    }

    @Test func takeReturnsNoMoreThanTheOpeningOfAnOrderType() throws {
        var parking = Parking(.init(keys: 1000, records: 1000, pending: 10), pendingTopic: "pending")
        for offset: Int64 in 0..<100 { _ = parking.park(try self.push("a", "o\(offset)", offset), now: self.start) }
        let openings = [try self.type("a"): 7, try self.type("b"): 7]
        #expect(parking.take(openings, records: 1000, now: self.start).count == 7)
        #expect(parking.take([try self.type("a"): 0], records: 1000, now: self.start).isEmpty)
        #expect(parking.count == 93)
    }

    @Test func parkingIsCrowdedAboveHalfItsKeyLimit() throws {
        var parking = Parking(.init(keys: 10, records: 100, pending: 10), pendingTopic: "pending")
        for offset: Int64 in 0..<5 { _ = parking.park(try self.push("a", "o\(offset)", offset), now: self.start) }
        #expect(!parking.isCrowded)
        _ = parking.park(try self.push("a", "o5", 5), now: self.start)
        #expect(parking.isCrowded)
        let written = parking.takeOverdue(since: self.start, most: 3)
        for push in written { _ = parking.written(push.key, true, now: self.start) }
        #expect(written.count == 3)
        #expect(!parking.isCrowded)
    }

    @Test func aParkedPushIsTakenWhenItIsDue() throws {
        var parking = Parking(.init(keys: 10, records: 10, pending: 10), pendingTopic: "pending")
        _ = parking.park(try self.push("a", "failing", 0), due: self.start + .seconds(2), now: self.start)
        _ = parking.park(try self.push("a", "well", 1), now: self.start)
        let openings = [try self.type("a"): 5]
        #expect(parking.take(openings, records: 10, now: self.start).map(\.key.order.order.rawValue) == ["well"])
        #expect(parking.take(openings, records: 10, now: self.start + .seconds(1)).isEmpty)
        #expect(parking.take(openings, records: 10, now: self.start + .seconds(2)).count == 1)
    }

    @Test func anUnconditionalNotificationSurvivesReregistration() throws {
        let device = try DeviceIdentifier("d")
        let order = OrderKey(orderType: try self.type("a"), order: try OrderIdentifier("o"))
        func push(_ offset: Int64, registered: Int64?) -> ParkedPush {
            ParkedPush(
                key: PendingPushKey(order: order, device: device), receipts: [self.receipt(offset)],
                epochMilliseconds: -1, registeredEpochMilliseconds: registered)
        }
        for (moments, expected): ([Int64?], Int64?) in [([5, 7, 6], 7), ([5, nil], nil), ([nil, 5], nil)] {
            var parking = Parking(.init(keys: 10, records: 10, pending: 10), pendingTopic: "pending")
            for moment in moments { _ = parking.park(push(0, registered: moment), now: self.start) }
            let taken = parking.take([order.orderType: 1], records: 10, now: self.start)
            #expect(taken.map(\.registeredEpochMilliseconds) == [expected])
        }
    }

    /// For any operations: each record leaves exactly once, and the sums are right.
    @Test(arguments: 0..<40)
    func eachRecordLeavesExactlyOnce(seed: UInt64) throws {
        var dice = SeededGenerator(seed: seed)
        var parking = Parking(.init(keys: 40, records: 60, pending: 10), pendingTopic: "pending")
        var (inside, left): (Set<KafkaReceipt>, Set<KafkaReceipt>) = ([], [])
        var now = self.start
        var offset: Int64 = 0
        func leave(_ receipts: [KafkaReceipt]) {
            for receipt in receipts {
                #expect(inside.remove(receipt) != nil, "\(receipt.origin) was not there")
                #expect(left.insert(receipt).inserted)
            }
        }
        for _ in 0..<800 {
            now += .milliseconds(Int.random(in: 0..<50, using: &dice))
            switch Int.random(in: 0..<10, using: &dice) {
            case 0..<7 where parking.room > 0:
                let push = try self.push(
                    "t\(Int.random(in: 0..<4, using: &dice))", "o\(Int.random(in: 0..<30, using: &dice))", offset,
                    partition: Int32.random(in: 0..<4, using: &dice))
                offset += 1
                inside.formUnion(push.receipts)
                let isResting = Int.random(in: 0..<5, using: &dice) == 0
                _ = parking.park(push, due: isResting ? now + .milliseconds(200) : nil, now: now)
            case 7..<9:
                var openings: [OrderTypeIdentifier: Int] = [:]
                for number in 0..<4 {
                    openings[try self.type("t\(number)")] = Int.random(in: 0..<4, using: &dice)
                }
                let taken = parking.take(openings, records: 8, now: now)
                for (type, most) in openings {
                    #expect(taken.filter { $0.key.order.orderType == type }.count <= most)
                }
                #expect(Set(taken.map(\.key)).count == taken.count)
                leave(taken.flatMap(\.receipts))
            default:
                guard Int.random(in: 0..<10, using: &dice) == 0 else { continue }
                let partition = KafkaPartition(topic: "orders", partition: Int32.random(in: 0..<4, using: &dice))
                leave(parking.drop([partition]))
                #expect(!inside.contains { $0.partition == partition.partition })
            }
            #expect(parking.recordCount == inside.count)
            #expect(parking.count <= 40)
            #expect(parking.recordCount <= 60)
            #expect(parking.counts.values.reduce(0, +) == parking.count)
        }
        now += .seconds(1)
        while !parking.isEmpty {
            let openings = parking.counts.mapValues { _ in 2 }
            let taken = parking.take(openings, records: 100, now: now)
            #expect(!taken.isEmpty, "what is there can be taken")
            if taken.isEmpty { break }
            leave(taken.flatMap(\.receipts))
        }
        #expect(inside.isEmpty)
    }
}
