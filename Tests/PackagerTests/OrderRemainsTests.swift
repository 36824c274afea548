import Foundation
import Kafka
import Logging
import Model
import Operations
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Brands
@testable import Packager

/// The remains of removed orders, and how a second removal, `forget` and `expire` end it.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct OrderRemainsTests {
    private static let record = Result {
        RegistrationRecord(pushToken: try PushToken("ab12"), registeredEpochMilliseconds: ChangeLog.noon * 1000)
    }

    private func registration(_ device: String, _ order: String) throws -> RegistrationKey {
        RegistrationKey(device: try DeviceIdentifier(device), order: try ChangeLog.key(order))
    }

    /// Publishes a registration that Redis does not get.
    private func publish(_ fixture: PackagerFixture, _ key: RegistrationKey) async throws {
        let message = KafkaMessage(
            topic: fixture.topics.registrations, key: Array(key.text.utf8), value: try Self.record.get().encoded)
        _ = try await fixture.producer.produce(message)
    }

    /// Returns the last value of each key of a topic.
    private func last(_ fixture: PackagerFixture, _ topic: String) async throws -> [String: [UInt8]?] {
        let records = try await fixture.read(topic, Int(try await fixture.count(topic)))
        return Dictionary(records.map { ($0.keyText, $0.value) }) { $1 }
    }

    private func keys(_ fixture: PackagerFixture, _ pattern: String) async throws -> [String] {
        let reply = try await fixture.redis.send(RedisCommand("KEYS", .string(pattern)))
        return (reply.array ?? []).compactMap(\.text)
    }

    /// As a gateway left it whose last step came after the removal.
    private func leaveDevice(_ fixture: PackagerFixture, _ key: RegistrationKey) async throws {
        let text = String(decoding: try Self.record.get().encoded, as: UTF8.self)
        _ = try await fixture.redis.send(
            RedisCommand(
                "HSET", .string("waybill:1:devices:{\(key.order)}"), .string(key.device.rawValue), .string(text)))
    }

    @Test func aRemovalOfARemovedOrderEndsWhatIsLeft() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            try await processor.process([log.change("order.replaced", "o1", ChangeLog.document())])
            try await processor.process([log.change("order.removed", "o1", nil)])
            let key = try self.registration("late", "o1")
            for isTraceOver in [false, true] {
                if isTraceOver {
                    _ = try await fixture.redis.send(RedisCommand("DEL", .string("waybill:1:order:{\(key.order)}")))
                }
                try await self.publish(fixture, key)
                try await self.leaveDevice(fixture, key)
                try await processor.process([log.change("order.removed", "o1", nil)])
                #expect(try await Registrations(redis: fixture.redis).registration(key) == nil, "\(isTraceOver)")
                #expect(try await self.last(fixture, fixture.topics.registrations) == [key.text: nil])
            }
            // An order that exists keeps its devices, whatever removal of another version comes.
            try await processor.process([log.change("order.replaced", "o2", ChangeLog.document())])
            let other = try self.registration("device", "o2")
            try await self.leaveDevice(fixture, other)
            let message = OrderRemoval.message(
                of: other.order, id: "r", version: 77, at: ChangeLog.noon, fixture.topics)
            try await processor.process([
                log.record(key: "\(other.order)", value: message.value, headers: message.headers)
            ])
            #expect(try await Registrations(redis: fixture.redis).registration(other) != nil)
        }
    }

    /// Makes the orders o1 and o2, and removes the former.
    private static func removeOneOfTwo(_ fixture: PackagerFixture) async throws {
        var log = ChangeLog()
        let processor = try fixture.processor()
        try await processor.process([
            log.change("order.replaced", "o1", ChangeLog.document()),
            log.change("order.replaced", "o2", ChangeLog.document()),
        ])
        try await processor.process([log.change("order.removed", "o1", nil)])
    }

    /// Registrations, notifications and parcels that Redis does not list with the order.
    @Test func whatOnlyTheTopicsHaveIsEnded() async throws {
        try await PackagerFixture.run { fixture in
            try fixture.broker.create(.init(fixture.topics.pushPending, partitions: 3))
            try await Self.removeOneOfTwo(fixture)
            let (gone, kept) = (try self.registration("a/b", "o1"), try self.registration("a/b", "o2"))
            for key in [gone, kept] {
                try await self.publish(fixture, key)
                let waits = PendingPushRecord(sinceEpochMilliseconds: 1).encoded
                for text in [PendingPushKey(key).text, PendingPushKey(order: key.order).text] {
                    _ = try await fixture.producer.produce(
                        KafkaMessage(topic: fixture.topics.pushPending, key: Array(text.utf8), value: waits))
                }
            }
            // A gateway that was killed between the two sides.
            let tag = "waybill:1:listed:{"
            _ = try await Registrations(redis: fixture.redis).register(gone, try Self.record.get())
            let listed = try #require(try await self.keys(fixture, tag + "*").first)
            _ = try await fixture.redis.send(
                RedisCommand("SET", "waybill:1:parcel-owner:{00}", .string("1 1 \(gone.order) f")))

            let reader = try KafkaReader(KafkaConfiguration(bootstrap: fixture.broker.bootstrap))
            try await withCleanup(reader.close) {
                func remains(_ producer: KafkaProducer?) -> OrderRemains {
                    OrderRemains(
                        topics: fixture.topics, reader: reader, store: OrderStore(redis: fixture.redis),
                        registrations: Registrations(redis: fixture.redis), producer: producer)
                }
                let orders: Set = [gone.order, kept.order, try ChangeLog.key("never")]
                let planned = try await remains(nil).end(of: orders)
                #expect(planned == [gone.order: .init(registrations: 1, notifications: 2, parcels: 0)])
                #expect(try await self.last(fixture, fixture.topics.registrations)[gone.text] != .some(nil))

                let ended = try await remains(fixture.producer).end(of: orders)
                #expect(ended == [gone.order: .init(registrations: 1, notifications: 2, parcels: 1)])
                let registered = try await self.last(fixture, fixture.topics.registrations)
                #expect(registered.filter { $0.value != nil }.map(\.key) == [kept.text])
                let waiting = try await self.last(fixture, fixture.topics.pushPending)
                #expect(
                    Set(waiting.filter { $0.value != nil }.map(\.key))
                        == [PendingPushKey(kept).text, PendingPushKey(order: kept.order).text])
                #expect(try await self.keys(fixture, tag + "*") == [], "the device's side, too")
                #expect(try await self.keys(fixture, "waybill:1:parcel*") == [])
                // Another command was killed behind its tombstone.
                _ = try await fixture.redis.send(RedisCommand("SADD", .string(listed), "o1"))
                #expect(try await remains(fixture.producer).end(of: orders) == [:], "nothing is left")
                #expect(try await self.keys(fixture, tag + "*") == [])
            }
        }
    }

    /// Two things that came between the two runs, with a packager: the late end of a registration, and one that only
    /// Kafka has.
    @Test func forgetEndsTheSecondTimeWhatCameInBetween() async throws {
        let program = Program.built("waybill-packager")
        try await Fleet.run { fleet in
            let key = try ChangeLog.key("o1")
            @Sendable func forget() async throws -> (exit: ChildProcess.Exit, output: String) {
                let child = try ChildProcess(
                    program, ["forget", "--by", "anna", "--order", "\(key)"], environment: try fleet.settings())
                return (try await child.exit(within: .seconds(60)), child.output)
            }
            try await fleet.working([try fleet.member()]) {
                try await fleet.publish([("order.replaced", "o1", "1", ChangeLog.document())])
                try await fleet.settle()
                let first = try await forget()
                #expect(first.exit == .code(0), "\(first.output)")
                let (late, unlisted) = (try self.registration("late", "o1"), try self.registration("unlisted", "o1"))
                let value = try Self.record.get().encoded
                for registration in [late, unlisted] {
                    _ = try await fleet.producer.produce(
                        KafkaMessage(
                            topic: fleet.topics.registrations, key: Array(registration.text.utf8), value: value))
                }
                _ = try await fleet.redis.send(
                    RedisCommand(
                        "HSET", .string("waybill:1:devices:{\(key)}"), .string(late.device.rawValue), .bytes(value)))

                let second = try await forget()
                #expect(second.exit == .code(0), "\(second.output)")
                #expect(
                    second.output.contains("\(key): removed: 1 devices, 1 registrations that only Kafka had"),
                    "\(second.output)")
                #expect(try await Registrations(redis: fleet.redis).devices(of: [key]) == [[]])
                let records = try await fleet.broker.records(4, of: fleet.topics.registrations)
                let ended = Set(records.filter { $0.value == nil }.map(\.keyText))
                #expect(ended == [late.text, unlisted.text])
                let third = try await forget()
                #expect(third.output.contains("\(key): no such order: it was removed before"), "\(third.output)")
                try await fleet.settle()
            }
        }
    }

    @Test func expireEndsWhatIsLeftOfOrdersThatAreRemoved() async throws {
        try await PackagerFixture.run { fixture in
            try await Self.removeOneOfTwo(fixture)
            let (gone, kept) = (try self.registration("d", "o1"), try self.registration("d", "o2"))
            for key in [gone, kept] { try await self.publish(fixture, key) }
            let reader = try KafkaReader(KafkaConfiguration(bootstrap: fixture.broker.bootstrap))
            try await withCleanup(reader.close) {
                let store = OrderStore(redis: fixture.redis)
                let run = ExpireRun(
                    topics: fixture.topics, scan: OrderScan(redis: fixture.redis), store: store,
                    remains: OrderRemains(
                        topics: fixture.topics, reader: reader, store: store,
                        registrations: Registrations(redis: fixture.redis), producer: fixture.producer),
                    producer: fixture.producer, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                    report: { _, _ in })
                let type = fixture.brandFixture.brand.orderType
                #expect(try await run.run(type, OrderRetention(endedDays: 1)) == .init(read: 1, remains: 1))
                let registered = try await self.last(fixture, fixture.topics.registrations)
                #expect(registered.filter { $0.value != nil }.map(\.key) == [kept.text])
                #expect(try await run.run(type, OrderRetention(endedDays: 1)) == .init(read: 1))
            }
        }
    }

    /// A worker died between writing a version and noting its parcels.
    @Test func aRedeliveredChangeNotesTheParcelsOfItsVersion() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            let parcel: JSON = [
                "fulfillmentIdentifier": "f1", "fulfillmentType": "shipping", "status": "onTheWay", "carrier": "UPS",
                "trackingNumber": "1Z999",
            ]
            let change = log.change("order.replaced", "o1", ChangeLog.document(extra: [("fulfillments", [parcel])]))
            try await processor.process([change])
            let keys = try await self.keys(fixture, "waybill:1:parcel*")
            #expect(keys.count == 2)
            for key in keys { _ = try await fixture.redis.send(RedisCommand("DEL", .string(key))) }
            try await fixture.forgetTold("o1")
            try await processor.process([change])
            #expect(Set(try await self.keys(fixture, "waybill:1:parcel*")) == Set(keys))
        }
    }

    @Test func ofEachKeyAndPartitionTheLastRecordCounts() throws {
        let (one, other) = (try ChangeLog.key("1"), try ChangeLog.key("2"))
        func record(_ partition: Int32, _ offset: Int64, _ key: [UInt8]?, _ value: String?) -> KafkaRecord {
            KafkaRecord(
                topic: "t", partition: partition, offset: offset, timestampMilliseconds: 0, key: key,
                value: value.map { Array($0.utf8) })
        }
        func key(_ device: String, _ order: OrderKey) throws -> [UInt8] {
            Array(RegistrationKey(device: try DeviceIdentifier(device), order: order).text.utf8)
        }
        var found = KeyedRecords(of: [one], limit: 4) { (try? RegistrationKey($0))?.order }
        for item in [
            record(0, 1, try key("a", one), "1"), record(0, 2, try key("a", one), "2"),
            record(1, 1, try key("a", one), "old"), record(0, 3, try key("b", one), "3"),
            record(0, 4, try key("b", one), nil), record(0, 5, try key("c", other), "4"),
            record(0, 6, nil, "5"), record(0, 7, [0xff, 0xfe], "6"), record(0, 8, Array("nonsense".utf8), "7"),
        ] { found.add(item) }
        #expect(found.records.map(\.value) == [Array("2".utf8), nil, Array("old".utf8)])
        #expect(found.records.map(\.partition) == [0, 0, 1], "a topic with more partitions than before")
        #expect(!found.isOverfull)
        for device in ["x", "y"] { found.add(record(2, 1, try key(device, one), "8")) }
        #expect(found.isOverfull)
        #expect(found.records.count == 4)
    }
}
