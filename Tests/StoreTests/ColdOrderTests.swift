import Model
import NIOCore
import Redis
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Store

@Suite struct CoolingTests {
    @Test func anOrderIsColdByTheAgeOfItsVersion() throws {
        let now: Int64 = 1_800_000_000
        func isCold(_ cooling: Cooling, status: String, days: Int64) throws -> Bool {
            var state = try state("1", version: 1)
            state.document.members["status"] = .string(status)
            state.modifiedEpochSeconds = now - days * 86_400 - 1
            return cooling.isCold(state, nowEpochSeconds: now)
        }
        let cooling = Cooling(after: .seconds(7 * 86_400))
        for status in ["completed", "cancelled"] {
            #expect(try !isCold(cooling, status: status, days: 0))
            #expect(try isCold(cooling, status: status, days: 1))
        }
        #expect(try !isCold(cooling, status: "open", days: 6))
        #expect(try isCold(cooling, status: "open", days: 7))
        #expect(try !isCold(Cooling(after: nil), status: "completed", days: 3650))
    }

    @Test func aRecordIsReadFromItsText() {
        for (text, isEnded) in [("3:1234:56:00c0ffee", false), ("0:0:0:deadbeef:ended", true)] {
            let record = PublishedRecord(text)
            #expect(record?.isEnded == isEnded)
            #expect(record?.text == text)
        }
        for text in ["", "-", "3:1234:5", "3:-1:5:aa", "x:1:2:aa", "3:1:2:aa:over", "3:1:2:aa:ended:"] {
            #expect(PublishedRecord(text) == nil, "\(text)")
        }
        #expect(PublishedRecord(cluster: "c", partition: 1, offset: -1, bytes: 1, isEnded: false) == nil)
    }
}

/// The fields of a cold order, and reads and writes of one, which are the same as for any other.
@Suite(.server, .timeLimit(.minutes(2))) struct ColdOrderTests {
    /// The records of a topic, by partition and offset.
    private final class Topic: Sendable {
        private let records = Mutex<[PublishedRecord: OrderRecord]>([:])
        let reads = Mutex(0)

        func put(
            _ state: OrderState, content: String?, offset: Int64, cluster: String = "east"
        ) throws -> PublishedRecord {
            let record = OrderRecord(state, content: content)
            let place = try #require(
                PublishedRecord(
                    cluster: cluster, partition: 3, offset: offset, bytes: record.encoded.count,
                    isEnded: state.document.isEnded))
            self.records.withLock { $0[place] = record }
            return place
        }

        func compact() { self.records.withLock { $0 = [:] } }

        var reader: ColdOrderRecords {
            { orders in
                self.reads.withLock { $0 += orders.count }
                return orders.map { order in .success(self.records.withLock { $0[order.record] }) }
            }
        }
    }

    private let cooling = Cooling(after: .seconds(7 * 86_400))

    private func sweep(_ fixture: StoreFixture, _ topic: Topic) async throws -> AssetSweep.Counts {
        let store = OrderStore(redis: fixture.redis, records: topic.reader)
        return try await AssetSweep(ViewEpochCache(MaterializedView(redis: fixture.redis)), cooling: self.cooling) {
            keys in
            let outcomes = try await store.cool(keys)
            return Set(zip(keys, outcomes).filter { $1 == .cooled }.map(\.0))
        }.run {}
    }

    private func ended(_ order: String, version: Int64 = 1) throws -> OrderState {
        var state = try state(order, version: version)
        state.document.members["status"] = "completed"
        return state
    }

    /// Writes an old order, and notes that its record was acknowledged.
    private func publish(
        _ state: OrderState, _ fixture: StoreFixture, _ topic: Topic, offset: Int64 = 5
    ) async throws -> PublishedRecord {
        let content = OrderStore.Write.Content.version(somePackage)
        #expect(try await fixture.write(.init(state: state, content: content)) == .written)
        let record = try topic.put(state, content: "c", offset: offset)
        _ = try await fixture.store.notePublished([.init(state, record: record)])
        return record
    }

    private func fields(_ fixture: StoreFixture, _ order: String) async throws -> Set<String> {
        Set(try await fixture.raw("HKEYS", StoreKeys.order(try key(order))).array?.compactMap(\.text) ?? [])
    }

    private func cold(_ fixture: StoreFixture, _ topic: Topic, _ order: String = "1") async throws -> OrderState {
        try await fixture.redis.completeView()
        let state = try self.ended(order)
        _ = try await self.publish(state, fixture, topic)
        #expect(try await self.sweep(fixture, topic).cold == 1)
        return state
    }

    @Test func aColdOrderIsReadFromItsRecord() async throws {
        try await StoreFixture.with { fixture in
            let topic = Topic()
            try await fixture.redis.completeView()
            let state = try self.ended("1")
            _ = try await self.publish(state, fixture, topic)
            let before = try #require(try await fixture.store.orders([state.key])[0].get())
            let stamp = try await fixture.stamp(state.key)
            #expect(try await self.sweep(fixture, topic).cold == 1)
            #expect(try await self.sweep(fixture, topic).cold == 1)
            let pointer: Set = ["token", "version", "modified", "stamp", "revision", "told", "record"]
            #expect(try await self.fields(fixture, "1") == pointer)
            // In one piece, for which Redis allows 64 bytes a value.
            let values = try await fixture.raw("HGETALL", StoreKeys.order(state.key)).array ?? []
            #expect(values.allSatisfy { ($0.text ?? "").utf8.count <= 64 })
            #expect(topic.reads.withLock { $0 } == 1, "before it cools")

            let store = OrderStore(redis: fixture.redis, records: topic.reader)
            let cold = try #require(try await store.orders([state.key])[0].get())
            #expect(cold.state == before.state)
            #expect(cold.isCold && !before.isCold)
            #expect(cold.revision > before.revision)
            #expect(cold.content == "c")
            #expect(cold.isPublished)
            #expect(!cold.isPackaged)
            #expect(try await self.fields(fixture, "1") == pointer, "reading does not warm it")
            // For the gateway, and for the list of a device.
            let seen = try #require(try await fixture.reader.stamp(of: state.key, on: fixture.loop).get())
            #expect(seen.token == state.token)
            #expect(seen.modifiedEpochSeconds == state.modifiedEpochSeconds)
            #expect(!seen.isPackaged)
            #expect(try await fixture.stamp(state.key) == stamp)
        }
    }

    /// Redis has no part in it, so that other orders can be read.
    @Test func aRecordThatKafkaDoesNotGiveFailsItsOrderAlone() async throws {
        struct Silence: Error {}
        try await StoreFixture.with { fixture in
            let topic = Topic()
            let cold = try await self.cold(fixture, topic)
            let warm = try state("warm", version: 1)
            _ = try await OrderStore(redis: fixture.redis).write([
                .init(state: warm, after: nil, content: .version(somePackage))
            ])
            let store = OrderStore(redis: fixture.redis) { orders in orders.map { _ in .failure(Silence()) } }
            let results = try await store.orders([cold.key, warm.key])
            #expect(try results[1].get()?.state == warm)
            let error = #expect(throws: StoreError.self) { try results[0].get() }
            #expect(error?.code == .unread)
            #expect(error?.origin == FailureOrigin(.kafka, .partition))
            #expect(error?.origin.isRetriable == true)
            #expect(error?.remains == nil, "it will be read")
            topic.compact()
            let lost = OrderStore(redis: fixture.redis, records: topic.reader)
            let missing = await #expect(throws: StoreError.self) { try await lost.orders([cold.key])[0].get() }
            #expect(missing?.origin == FailureOrigin(.kafka, .order))
            #expect(missing?.remains?.state.version == cold.version)
            #expect(missing?.remains?.state.document == .empty)
        }
    }

    @Test func aLargeColdOrderIsReadAsOtherLargeOnes() async throws {
        try await StoreFixture.with { fixture in
            let topic = Topic()
            try await fixture.redis.completeView()
            var state = try self.ended("1")
            state.document.members["note"] = .string(String(repeating: "n", count: OrderStore.smallDocument))
            let record = try await self.publish(state, fixture, topic)
            #expect(try await self.sweep(fixture, topic).cold == 1)
            let store = OrderStore(redis: fixture.redis, records: topic.reader)
            guard let bytes = try await store.look(at: [state.key])[0].coldRecord?.bytes else {
                Issue.record("it was read at once")
                return
            }
            #expect(bytes == record.bytes)
            #expect(topic.reads.withLock { $0 } == 1, "before it cools")
            #expect(try await store.orders([state.key])[0].get()?.state == state)
        }
    }

    /// Each kind of write, each on a cold order.
    @Test(arguments: ["requested", "signature", "positions", "announced", "unrecorded", "version", "unpackaged"])
    func aWriteHasAllOfAColdOrder(_ kind: String) async throws {
        try await StoreFixture.with { fixture in
            let topic = Topic()
            let state = try await self.cold(fixture, topic)
            let store = OrderStore(redis: fixture.redis, records: topic.reader)
            let cold = try #require(try await store.orders([state.key])[0].get())
            var next = state
            let content: OrderStore.Write.Content
            switch kind {
            case "requested": content = .requested(somePackage, epochSeconds: 1)
            case "signature": content = .signature(somePackage)
            case "positions": content = .positions
            case "announced": content = .positionsToPublish
            case "unrecorded": content = .unrecorded
            case "version": (next.version, content) = (2, .version(somePackage))
            default: (next.version, content) = (2, .version(nil))
            }
            let write = OrderStore.Write(state: next, after: cold, content: content)
            #expect(try await store.write([write]) == [.written])
            #expect(try await store.write([write]) == [.conflict])
            // Without a reader of records, so it is warm.
            let warm = try #require(try await fixture.store.orders([state.key])[0].get())
            #expect(!warm.isCold)
            #expect(warm.state == next)
            #expect(warm.isPackaged == ["requested", "signature", "version"].contains(kind))
            if ["positions", "announced", "unrecorded"].contains(kind) { #expect(warm.content == "c") }
            // A write that its record does not have keeps it warm until another one is acknowledged.
            let returns = ["requested", "signature"].contains(kind)
            #expect(try await self.sweep(fixture, topic).cold == (returns ? 1 : 0))
            guard !returns else { return }
            let record = try topic.put(next, content: "c", offset: 9)
            // Positions alone are in no record until there is another version.
            if kind == "positions" { return }
            let acknowledged = ("", OrderStore.Publication(next, record: record, isRequested: kind == "announced"))
            #expect(try await store.acknowledge([acknowledged]) == [next.version])
            #expect(try await self.sweep(fixture, topic).cold == 1)
            #expect(try await store.orders([state.key])[0].get()?.state == next)
        }
    }

    @Test func anOrderStaysWarmUntilItsRecordIsKnown() async throws {
        try await StoreFixture.with { fixture in
            let topic = Topic()
            try await fixture.redis.completeView()
            let state = try self.ended("1")
            let record = try await self.publish(state, fixture, topic)
            // A second version whose record is not acknowledged yet.
            let second = try self.ended("1", version: 2)
            let content = OrderStore.Write.Content.version(somePackage)
            #expect(try await fixture.write(.init(state: second, revision: 1, content: content)) == .written)
            _ = try await fixture.store.notePublished([.init(state, record: record)])
            #expect(try await self.sweep(fixture, topic).cold == 0)
            #expect(try await fixture.store.orders([state.key])[0].get()?.state == second)
            // The broker did not tell its offset.
            _ = try await fixture.store.notePublished([.init(second, record: nil)])
            #expect(try await self.sweep(fixture, topic).cold == 0)
            // Nobody else publishes, but another process is about to.
            let third = try topic.put(second, content: "c", offset: 6)
            _ = try await fixture.store.notePublished([.init(second, record: third)])
            try await fixture.raw("HSET", StoreKeys.order(state.key), "unpublished", "2")
            #expect(try await self.sweep(fixture, topic).cold == 0)
            try await fixture.raw("HDEL", StoreKeys.order(state.key), "unpublished")
            #expect(try await self.sweep(fixture, topic).cold == 1)
            #expect(
                try await OrderStore(redis: fixture.redis, records: topic.reader).orders([state.key])[0].get()?.state
                    == second)
        }
    }

    @Test func anOrderWhoseRecordIsElsewhereFailsAloneUntilItIsRestored() async throws {
        try await StoreFixture.with { fixture in
            let topic = Topic()
            let state = try await self.cold(fixture, topic)
            _ = try await fixture.write(try version("2", 1))
            topic.compact()
            let store = OrderStore(redis: fixture.redis, records: topic.reader)
            let found = try await store.orders([state.key, try key("2")])
            let error = #expect(throws: StoreError.self) { try found[0].get() }
            #expect(error?.code == .cold)
            #expect(error?.message.contains("offset 5 of partition 3") == true)
            #expect(try found[1].get() != nil)
            #expect(try await fixture.store.orders([state.key])[0].code == .cold, "without a reader")
            // As in the topic of another cluster.
            let moved = try topic.put(state, content: "c", offset: 2, cluster: "west")
            let restored = OrderStore.Restored.version(state, content: "c", moved, isCold: true)
            let standing = try #require(try await store.storedVersions([state.key])[0])
            #expect(standing.isAsNew(as: state) && !standing.knows(moved, of: state))
            #expect(try await store.restore([restored]).placed == 1)
            #expect(try await store.orders([state.key])[0].get()?.state == state)
            #expect(try #require(try await store.storedVersions([state.key])[0]).knows(moved, of: state))
        }
    }

    /// A writer that writes a part of an order relies on the rest of it.
    @Test func aWriterThatReadAnOrderBeforeItCooledIsRefused() async throws {
        try await StoreFixture.with { fixture in
            let topic = Topic()
            try await fixture.redis.completeView()
            let state = try self.ended("1")
            _ = try await self.publish(state, fixture, topic)
            let before = try #require(try await fixture.store.orders([state.key])[0].get())
            #expect(try await self.sweep(fixture, topic).cold == 1)
            let contents: [OrderStore.Write.Content] = [
                .positions, .positionsToPublish, .unrecorded, .signature(somePackage),
                .requested(somePackage, epochSeconds: 1),
            ]
            let store = OrderStore(redis: fixture.redis, records: topic.reader)
            for content in contents {
                #expect(try await store.write([.init(state: state, after: before, content: content)]) == [.conflict])
            }
            #expect(try await store.orders([state.key])[0].get()?.state == state)
        }
    }

    /// Nothing is deleted that Kafka does not have, too.
    @Test func anOrderStaysWarmUnlessItsRecordHasAllOfIt() async throws {
        try await StoreFixture.with { fixture in
            let topic = Topic()
            try await fixture.redis.completeView()
            let state = try self.ended("1")
            let record = try await self.publish(state, fixture, topic)
            let silent = OrderStore(redis: fixture.redis) { orders in
                orders.map { _ in .failure(StoreError(.unavailable, "no answer")) }
            }
            #expect(try await silent.cool([state.key]) == [.unread(partition: 3)])
            let store = OrderStore(redis: fixture.redis, records: topic.reader)
            #expect(try await store.cool([state.key], except: [3]) == [.unread(partition: 3)])
            topic.compact()
            #expect(try await store.cool([state.key]) == [.differs])
            var other = state
            other.recent.append(source: "/s", id: "1")
            _ = try topic.put(other, content: "c", offset: record.offset)
            #expect(try await self.sweep(fixture, topic).cold == 0)
            #expect(try await store.cool([state.key, try key("none")]) == [.differs, .changed])
            try await fixture.raw("HSET", StoreKeys.order(state.key), "record", "")
            #expect(try await store.cool([state.key]) == [.unplaced])
            #expect(try await fixture.store.orders([state.key])[0].get()?.state == state, "it is all there")
            // It is published again, without a new announcement.
            let stored = try #require(try await fixture.store.orders([state.key])[0].get())
            #expect(try await store.write([.init(state: state, after: stored, content: .unrecorded)]) == [.written])
            let again = try topic.put(state, content: "c", offset: 2)
            let silently = OrderStore.Publication(state, record: again, isAnnounced: false)
            #expect(try await store.acknowledge([("", silently)]) == [1])
            #expect(try await self.sweep(fixture, topic).cold == 1)
            #expect(try await store.orders([state.key])[0].get()?.isPublished == true)
        }
    }

    /// The parcel of an order that an earlier release wrote is found by the order's document alone.
    @Test func anOrderStaysWarmWhileAFullRedisTakesNoEntryOfItsParcel() async throws {
        try await StoreFixture.with { fixture in
            let topic = Topic()
            let store = OrderStore(redis: fixture.redis, records: topic.reader)
            let states = try ["1", "2"].map { try ParcelIndexTests.order($0, ["P\($0)"]) }
            let parcels = try ["P1", "P2"].map(ParcelIndexTests.parcel)
            for (offset, state) in states.enumerated() {
                _ = try await self.publish(state, fixture, topic, offset: Int64(offset))
            }
            try await fixture.raw("DEL", StoreKeys.parcel(parcels[0]).owner)
            try await fixture.server.everywhere("CONFIG", "SET", "maxmemory", "1")
            #expect(try await store.cool(states.map(\.key)) == [.changed, .cooled])
            #expect(try await store.parcels.owners(of: parcels).count == 2)
            try await fixture.server.everywhere("CONFIG", "SET", "maxmemory", "0")
            #expect(try await store.cool([states[0].key]) == [.cooled])
            #expect(try await store.parcels.owners(of: parcels).count == 2)
        }
    }

    /// A topic that was made anew has lower offsets, in the same cluster.
    @Test func aRestoreMendsAPlaceThatHasNoRecordOfTheOrder() async throws {
        try await StoreFixture.with { fixture in
            let topic = Topic()
            let state = try await self.cold(fixture, topic)
            let store = OrderStore(redis: fixture.redis, records: topic.reader)
            topic.compact()
            let moved = try topic.put(state, content: "c", offset: 2)
            let restored = OrderStore.Restored.version(state, content: "c", moved, isCold: true)
            #expect(try await store.restore([restored]).placed == 1)
            #expect(try await store.restore([restored]).same == 1)
            #expect(try await store.orders([state.key])[0].get()?.state == state)
            // One that is later and has the order is not exchanged for an earlier one.
            let later = try topic.put(state, content: "c", offset: 9)
            #expect(try await store.restore([.version(state, content: "c", later, isCold: true)]).placed == 1)
            #expect(try await store.restore([restored]).same == 1)
            #expect(
                try await fixture.raw("HGET", StoreKeys.order(state.key), "record").text?.hasPrefix("3:9:") == true)
            let silent = OrderStore(redis: fixture.redis) { orders in
                orders.map { _ in .failure(StoreError(.unavailable, "no answer")) }
            }
            #expect(try await silent.restore([restored]).unread == 1)
        }
    }

    @Test func aRestoreWritesAnOrderThatHasNeitherDocumentNorPlace() async throws {
        try await StoreFixture.with { fixture in
            let topic = Topic()
            let state = try await self.cold(fixture, topic)
            let record = try topic.put(state, content: "c", offset: 5)
            try await fixture.raw("HSET", StoreKeys.order(state.key), "record", "")
            let stored = try #require(try await fixture.store.storedVersions([state.key])[0])
            #expect(!stored.knows(record, of: state))
            #expect(try await fixture.store.restore([.version(state, content: "c", record)]).written == 1)
            #expect(try await fixture.store.orders([state.key])[0].get()?.state == state)
        }
    }

    /// As after a crash between a record's acknowledgement and its note: compaction keeps the later one.
    @Test func ofTwoRecordsOfAVersionTheLaterOneCounts() async throws {
        try await StoreFixture.with { fixture in
            let topic = Topic()
            let state = try await self.cold(fixture, topic)
            let places = try [3, 9, 7].map { try topic.put(state, content: "c", offset: $0) }
            func place() async throws -> String? {
                try await fixture.raw("HGET", StoreKeys.order(state.key), "record").text
            }
            for (index, last) in [5, 9, 9].enumerated() {
                _ = try await fixture.store.notePublished([.init(state, record: places[index])])
                #expect(try await place()?.hasPrefix("3:\(last):") == true)
            }
            for number in [3, 12, 7] {
                let record = try topic.put(state, content: "c", offset: Int64(number))
                let restored = OrderStore.Restored.version(state, content: "c", record, isCold: true)
                #expect(try await fixture.store.restore([restored]).written == 0)
                #expect(try await place()?.hasPrefix("3:\(max(9, number == 3 ? 9 : 12)):") == true)
            }
        }
    }

    /// A note may come after a write that the record does not have: another process published it.
    @Test func aLateNoteDoesNotHidePositionsThatItsRecordLacks() async throws {
        try await StoreFixture.with { fixture in
            let topic = Topic()
            try await fixture.redis.completeView()
            let state = try self.ended("1")
            let content = OrderStore.Write.Content.version(somePackage)
            #expect(try await fixture.write(.init(state: state, content: content)) == .written)
            let record = try topic.put(state, content: "c", offset: 5)
            #expect(try await fixture.write(.init(state: state, revision: 1, content: .positions)) == .written)
            _ = try await fixture.store.notePublished([.init(state, record: record)])
            #expect(try await fixture.store.orders([state.key])[0].get()?.isPublished == true)
            #expect(try await self.sweep(fixture, topic).cold == 0)
            #expect(try await fixture.store.restore([.version(state, content: "c", record)]).same == 1)
            #expect(try await self.sweep(fixture, topic).cold == 0)
        }
    }

    @Test func aRestoredColdOrderIsAPlaceAlone() async throws {
        try await StoreFixture.with { fixture in
            let topic = Topic()
            let (cold, warm) = (try self.ended("1"), try self.ended("2"))
            let places = try [cold, warm].enumerated().map { try topic.put($1, content: "c", offset: Int64($0)) }
            // An older version stands, as after a fall-back.
            _ = try await fixture.write(try version("1", 0, expecting: 0))
            let orders: [OrderStore.Restored] = [
                .version(cold, content: "c", places[0], isCold: true), .version(warm, content: "c", places[1]),
            ]
            #expect(try await fixture.store.restore(orders).written == 2)
            #expect(try await fixture.store.restore(orders).same == 2)
            #expect(
                try await self.fields(fixture, "1")
                    == ["token", "version", "modified", "stamp", "revision", "told", "record"])
            let store = OrderStore(redis: fixture.redis, records: topic.reader)
            let read = try await store.orders([cold.key, warm.key]).map { try $0.get() }
            #expect(read.map { $0?.state } == [cold, warm])
            #expect(read.map { $0?.isCold } == [true, false])
            #expect(read.allSatisfy { $0?.isPublished == true })
            try await fixture.redis.completeView()
            #expect(try await self.sweep(fixture, topic).cold == 2)
        }
    }
}

extension Result where Failure == StoreError {
    fileprivate var code: StoreError.Code? { if case .failure(let error) = self { error.code } else { nil } }
}
