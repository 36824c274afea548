import Brands
import Kafka
import Model
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Changes from another cluster, and changes that are all redelivered.
@Suite(.server, .timeLimit(.minutes(2))) struct AnotherClusterTests {
    @Test func changesOfAnotherClusterApplyDespiteLowerOffsets() async throws {
        try await PackagerFixture.run { fixture in
            let processor = try fixture.processor()
            var east = ChangeLog(cluster: "east", offset: 5000)
            let before = [
                east.change("order.replaced", "o", ChangeLog.document("1")),
                east.change("order.patched", "o", ["orderNumber": "2"]),
            ]
            try await processor.process(before)
            var west = ChangeLog(cluster: "west", timestamp: (ChangeLog.noon - 86_400) * 1000)
            let after = west.change("order.patched", "o", ["orderNumber": "3"])
            try await processor.process([after])
            #expect(try await fixture.state("o")?.document.members["orderNumber"] == "3")
            // All are redelivered, and the first cluster's changes also arrive under the mirror's name and offsets.
            var mirror = ChangeLog(cluster: "west", topic: "east.waybill.order-changes", offset: 70)
            let mirrored = before.map { record in
                mirror.record(key: record.keyText, value: record.value, headers: record.headers)
            }
            try await processor.process([after])
            try await processor.process(before + mirrored)
            let state = try #require(try await fixture.state("o"))
            #expect(state.document.members["orderNumber"] == "3")
            #expect(state.version.ordinal == 2)
            #expect(try await fixture.count(fixture.topics.orders) == 2)
        }
    }

    /// The group lost its offsets: everything is redelivered.
    @Test func fullRedeliveryRepublishesOnlyUnacknowledgedVersions() async throws {
        try await PackagerFixture.run { fixture in
            let processor = try fixture.processor()
            var log = ChangeLog()
            let names = (0..<20).map { "o\($0)" }
            let first = names.map { log.change("order.replaced", $0, ChangeLog.document("1")) }
            let second = names.map { log.change("order.patched", $0, ["orderNumber": "2"]) }
            try await processor.process(first)
            try await processor.process(second)
            #expect(try await fixture.count(fixture.topics.orders) == 40)
            try await processor.process(first + second)
            try await processor.process(second)
            #expect(try await fixture.count(fixture.topics.orders) == 40)
            #expect(fixture.counter("waybill_changes_skipped_total", reason: "redelivered") == 60)
            // For one order it is not known whether its record was acknowledged.
            try await fixture.forgetTold("o3")
            try await processor.process(first + second)
            #expect(try await fixture.count(fixture.topics.orders) == 41)
            try await processor.process(first + second)
            #expect(try await fixture.count(fixture.topics.orders) == 41)
        }
    }

    /// Returns a processor whose publications are lost, and its producer.
    private func dying(_ fixture: PackagerFixture) throws -> (ChangeProcessor, KafkaProducer) {
        let nowhere = try KafkaProducer(
            KafkaConfiguration(bootstrap: "127.0.0.1:1", properties: ["message.timeout.ms": "100"]))
        let whole = try fixture.processor()
        var processor = ChangeProcessor(
            topics: whole.topics, packagers: whole.packagers, store: whole.store, registrations: whole.registrations,
            producer: nowhere, metrics: whole.metrics, logger: whole.logger)
        processor.now = whole.now
        return (processor, nowhere)
    }

    @Test func aLostAnnouncementIsPublishedOnRedelivery() async throws {
        try await PackagerFixture.run { fixture in
            let processor = try fixture.processor()
            let (dying, nowhere) = try self.dying(fixture)
            var log = ChangeLog()
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document())])
            let announced = log.change("order.announced", "o", nil)
            await #expect(throws: RetriableFailure.self) { try await dying.process([announced]) }
            #expect(try await fixture.stored("o")?.isPublished == false)
            try await processor.process([announced])
            #expect(try await fixture.count(fixture.topics.orders) == 2)
            try await processor.process([announced])
            #expect(try await fixture.count(fixture.topics.orders) == 2, "once it is published, no more")
            #expect(try await fixture.read(fixture.topics.orders, 2).allSatisfy { $0.headers.isEmpty })
            await nowhere.close()
        }
    }

    /// The cluster was lost before a version was published there; its mirror has the change.
    @Test func aLostPublicationIsMadeUpForInAnotherCluster() async throws {
        try await PackagerFixture.run { fixture in
            let processor = try fixture.processor()
            let (dying, nowhere) = try self.dying(fixture)
            var east = ChangeLog(cluster: "east", offset: 5000)
            var west = ChangeLog(cluster: "west")
            try await processor.process([east.change("order.replaced", "o", ChangeLog.document())])
            let change = east.change("order.patched", "o", ["orderNumber": "2"])
            await #expect(throws: RetriableFailure.self) { try await dying.process([change]) }
            let mirrored = west.record(key: change.keyText, value: change.value, headers: change.headers)
            try await processor.process([mirrored])
            let last = try #require(try await fixture.read(fixture.topics.orders, 2).last)
            #expect(try OrderRecord.decode(last.value ?? []).document.members["orderNumber"] == "2")
            #expect(last.headers.isEmpty, "devices are told")
            #expect(try await fixture.stored("o")?.isPublished == true)
            try await processor.process([mirrored])
            let again = west.record(key: change.keyText, value: change.value, headers: change.headers)
            try await processor.process([again])
            #expect(try await fixture.count(fixture.topics.orders) == 2)
            await nowhere.close()
        }
    }

    /// Another topic's silent change may be published before the redelivery of a change whose publication was lost.
    @Test func aSilentVersionDoesNotReplaceALostPublication() async throws {
        try await PackagerFixture.run { fixture in
            let processor = try fixture.processor()
            let (dying, nowhere) = try self.dying(fixture)
            var log = ChangeLog()
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document())])
            let loud = log.change("order.patched", "o", ["orderNumber": "2"])
            await #expect(throws: RetriableFailure.self) { try await dying.process([loud]) }
            var back = ChangeLog(topic: "back-fill")
            let silent = back.change("order.patched", "o", ["statusDescription": "old"], source: "/old", isSilent: true)
            try await processor.process([silent])
            try await processor.process([loud])
            try await processor.process([loud, silent])
            let records = try await fixture.read(fixture.topics.orders, 3)
            #expect(records.map { $0.header(RecordHeader.silent.rawValue) } == [nil, "1", nil])
            #expect(try await fixture.count(fixture.topics.orders) == 3)
            await nowhere.close()
        }
    }

    @Test func aRedeliveredChangeOfARestoredOrderPublishesNothing() async throws {
        try await PackagerFixture.run { fixture in
            let packager = OrderPackager(fixture.brandFixture.brand, tokens: try BrandFixture.tokens())
            let processor = try fixture.processor(packager: packager)
            var log = ChangeLog()
            let change = log.change("order.replaced", "o", ChangeLog.document("1"))
            try await processor.process([change])
            let records = try await fixture.read(fixture.topics.orders, 1)
            _ = try await fixture.redis.send(RedisCommand("FLUSHALL"))
            let restorer = fixture.restorer
            try await restorer.restore(records)
            try await processor.process([change])
            #expect(try await fixture.count(fixture.topics.orders) == 1)
        }
    }
}
