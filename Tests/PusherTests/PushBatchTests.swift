import APNS
import Kafka
import Model
import Testing

@testable import Pusher

/// The content of the records of a batch, without a socket.
@Suite struct PushBatchTests {
    private let topics = Topics()

    private func order(_ name: String) throws -> OrderKey { try OrderKey("order.com.example.shop/\(name)") }

    private func record(_ topic: String, _ key: String?, _ value: [UInt8]?, offset: Int64 = 0) -> KafkaRecord {
        KafkaRecord(
            topic: topic, partition: 0, offset: offset, timestampMilliseconds: 0, key: key.map { Array($0.utf8) },
            value: value)
    }

    private func changed(_ name: String) -> KafkaRecord {
        self.record(self.topics.orders, "order.com.example.shop/\(name)", [1])
    }

    private func removed(_ name: String) -> KafkaRecord {
        self.record(self.topics.orders, "order.com.example.shop/\(name)", nil)
    }

    private func registration(_ digit: Int = 1, at milliseconds: Int64 = 0) throws -> RegistrationRecord {
        RegistrationRecord(
            pushToken: try PushToken(String(repeating: "a\(digit)", count: 32)),
            registeredEpochMilliseconds: milliseconds)
    }

    private func batch(_ records: [KafkaRecord]) -> PushBatch { PushBatch(records, topics: self.topics) }

    @Test func repeatedChangesOfAnOrderNeedOneLookup() throws {
        let batch = self.batch(["a", "b", "a", "a", "b"].map(self.changed))
        #expect(batch.changed.map(\.order) == [try self.order("a"), try self.order("b")])
        #expect(batch.changed.map(\.records) == [[0, 2, 3], [1, 4]])
    }

    @Test func aRemovedOrderNotifiesNoDeviceUnlessItIsRecreated() throws {
        #expect(self.batch([self.changed("a"), self.removed("a")]).changed.isEmpty)
        #expect(self.batch([self.removed("a")]).changed.isEmpty)
        let back = self.batch([self.changed("a"), self.removed("a"), self.changed("a")])
        #expect(back.changed.map(\.order) == [try self.order("a")])
        #expect(back.changed.map(\.records) == [[2]])
    }

    @Test func aSilentVersionIsIgnoredAndOtherChangesAreKept() throws {
        let silent = KafkaRecord(
            topic: self.topics.orders, partition: 0, offset: 1, timestampMilliseconds: 0,
            key: Array("order.com.example.shop/a".utf8), value: [1],
            headers: [KafkaHeader(name: RecordHeader.silent.rawValue, text: "1")])
        #expect(self.batch([silent]).isEmpty)
        #expect(self.batch([silent, self.changed("a"), silent]).changed.map(\.records) == [[1]])
    }

    @Test func aRegistrationMovedToAnotherPartitionIsIgnored() throws {
        let key = "device/order.com.example.shop/a"
        let topic = self.topics.registrations
        let registered = self.record(topic, key, try self.registration(1).encoded)
        let moved = [nil, try self.registration(2).encoded].map { value in
            KafkaRecord(
                topic: topic, partition: 0, offset: 1, timestampMilliseconds: 0, key: Array(key.utf8), value: value,
                headers: [KafkaHeader(name: RecordHeader.silent.rawValue, text: "1")])
        }
        #expect(self.batch(moved).isEmpty)
        #expect(self.batch([registered] + moved).registered.values.map(\.record) == [0])
    }

    @Test func theLastRecordOfARegistrationWins() throws {
        let key = "device/order.com.example.shop/a"
        let topic = self.topics.registrations
        let (first, second) = (try self.registration(1), try self.registration(2))
        let renewed = self.batch([self.record(topic, key, first.encoded), self.record(topic, key, second.encoded)])
        #expect(renewed.registered.mapValues(\.registration) == [try RegistrationKey(key): second])
        #expect(renewed.registered.values.map(\.record) == [1])
        let ended = self.batch([self.record(topic, key, first.encoded), self.record(topic, key, nil)])
        #expect(ended.registered.isEmpty)
        #expect(ended.unreadable.isEmpty)
    }

    @Test func unreadableRecordsAreSeparated() throws {
        var records = [
            self.record(self.topics.orders, nil, [1]), self.record(self.topics.orders, "no order", [1]),
            self.record(self.topics.registrations, nil, nil),
            self.record(self.topics.registrations, "device/order.com.example.shop/a", [0x7B]),
            KafkaRecord(
                topic: self.topics.orders, partition: 7, offset: 9, timestampMilliseconds: -1,
                key: Array("order.com.example.shop/".utf8) + [0xFF], value: nil),
        ]
        records.append(self.changed("a"))
        let batch = self.batch(records)
        #expect(batch.unreadable.count == 5)
        #expect(batch.unreadable.last?.origin == "waybill.orders/7/9")
        #expect(batch.changed.map(\.order) == [try self.order("a")])
        #expect(batch.registered.isEmpty)
    }

    @Test func onlyOrderChangesWithAKnownTimestampHaveAnAge() throws {
        let key = Array("order.com.example.shop/a".utf8)
        let batch = self.batch(
            [(self.topics.orders, 5), (self.topics.orders, -7), (self.topics.registrations, 5)].map { topic, moment in
                KafkaRecord(
                    topic: topic, partition: 0, offset: 0, timestampMilliseconds: moment, key: key, value: [1])
            })
        #expect(batch.records.map(\.epochMilliseconds) == [5, -1, -1])
    }

    @Test func staleRecordsAreNotLookedUp() throws {
        let key = "device/order.com.example.shop/a"
        func moved(_ record: KafkaRecord, to milliseconds: Int64) -> KafkaRecord {
            KafkaRecord(
                topic: record.topic, partition: 0, offset: 0, timestampMilliseconds: milliseconds, key: record.key,
                value: record.value)
        }
        let registration = self.record(self.topics.registrations, key, try self.registration().encoded)
        let records = [
            moved(self.changed("old"), to: 99), moved(self.changed("new"), to: 100),
            moved(self.changed("timeless"), to: -1), moved(registration, to: 99),
        ]
        let batch = PushBatch(records, topics: self.topics, staleBefore: 100)
        #expect(batch.changed.map(\.order.order.rawValue) == ["new", "timeless"])
        #expect(batch.registered.isEmpty)
        #expect(batch.staleCount == 2)
        #expect(batch.records.count == 4, "all of them are done")
    }

    @Test func recordsSetAsideCanBeLookedUpLater() throws {
        let key = "device/order.com.example.shop/b"
        let registered = self.record(
            self.topics.registrations, key, try self.registration(at: 7).encoded, offset: 3)
        var batch = self.batch([self.changed("a"), self.changed("b"), self.changed("b"), registered])
        let aside = batch.setAside { $0.order.order.rawValue == "b" }
        #expect(batch.changed.map(\.order) == [try self.order("a")])
        #expect(batch.registered.isEmpty)
        #expect(aside.map(\.records) == [[1, 2], [3]])
        #expect(aside.map(\.push.key.text) == ["order.com.example.shop/b", key])
        let later = PushBatch(aside.map(\.push))
        #expect(later.changed.map(\.order) == [try self.order("b")])
        #expect(later.changed.map(\.records) == [[0, 1]])
        #expect(later.awaited.map(\.key) == [try RegistrationKey(key)])
        #expect(later.awaited.map(\.registeredEpochMilliseconds) == [7])
        #expect(later.records.map(\.receipt) == aside.flatMap(\.push.receipts))
    }

    /// However late the record is read: a pusher that was down for an hour forgets no device.
    @Test func aRegistrationWithin15MinutesOfAChangeIsSoon() throws {
        let modified: Int64 = 1_767_268_800
        func isSoon(_ seconds: Int64) throws -> Bool {
            PushBatch.isSoon(try self.registration(at: (modified + seconds) * 1000), after: modified)
        }
        #expect(try isSoon(0))
        #expect(try isSoon(900))
        #expect(try !isSoon(901))
        #expect(try isSoon(-5))
        #expect(try !PushBatch.isSoon(self.registration(), after: nil))
    }
}
