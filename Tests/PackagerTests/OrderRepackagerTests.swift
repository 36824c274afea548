import Brands
import Kafka
import Model
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

@Suite(.server) struct OrderRepackagerTests {
    private func repackager(_ fixture: PackagerFixture, _ brand: Brand) throws -> OrderRepackager {
        let packager = OrderPackager(brand, tokens: try BrandFixture.tokens())
        var repackager = OrderRepackager(
            topics: fixture.topics, store: OrderStore(redis: fixture.redis), producer: fixture.producer,
            packagers: { [brand.orderType: packager] })
        repackager.now = { ChangeLog.noon * 1000 }
        return repackager
    }

    /// Packages orders with a brand, as a change would.
    private func fill(_ fixture: PackagerFixture, _ brand: Brand, _ orders: [String]) async throws {
        var log = ChangeLog()
        let packager = OrderPackager(brand, tokens: try BrandFixture.tokens())
        try await fixture.processor(packager: packager).process(
            orders.map { log.change("order.replaced", $0, ChangeLog.document($0)) })
    }

    /// Retries when two writers of one order conflict, as their callers do.
    private func untilDone(_ body: () async throws -> Void) async throws {
        for _ in 0..<100 {
            do { return try await body() } catch is RetriableFailure { continue }
        }
        try await body()
    }

    @Test func aCurrentOrderIsNotRepackagedUnlessForced() async throws {
        try await PackagerFixture.run { fixture in
            let brand = fixture.brandFixture.brand
            try await self.fill(fixture, brand, ["a"])
            let before = try await fixture.stored("a")
            let keys = [try ChangeLog.key("a"), try ChangeLog.key("unknown")]
            let repackager = try self.repackager(fixture, brand)
            #expect(try await repackager.repackage(keys) == [.current, .absent])
            #expect(try await fixture.stored("a")?.revision == before?.revision)
            #expect(try await fixture.count(fixture.topics.orders) == 1)
            #expect(try await repackager.repackage(keys, evenIfCurrent: true) == [.signed, .absent])
            #expect(try #require(try await fixture.stored("a")).revision > #require(before).revision)
        }
    }

    @Test func aNewCertificateSignsOrdersAgainWithoutNotifying() async throws {
        let renewed = try RenewedBrand()
        let old = try renewed.load()
        try await PackagerFixture.run { fixture in
            try await self.fill(fixture, old, ["a", "b"])
            let keys = [try ChangeLog.key("a"), try ChangeLog.key("b")]
            let before = try #require(try await StoredArchive.read(keys[0], from: fixture.redis))
            #expect(try before.verify(root: renewed.root).contains(try renewed.certificate()))
            let key = "waybill:1:order:{\(keys[0])}"
            let stamp = try await fixture.redis.send(RedisCommand("HGET", .string(key), "stamp")).text
            try renewed.renewCertificate()
            let repackager = try self.repackager(fixture, try renewed.load())
            let revision = try await fixture.stored("a")?.revision
            #expect(try await repackager.repackage(keys, isDryRun: true) == [.signed, .signed])
            #expect(try await fixture.stored("a")?.revision == revision)
            #expect(try await repackager.repackage(keys) == [.signed, .signed])
            let after = try #require(try await StoredArchive.read(keys[0], from: fixture.redis))
            #expect(try after.verify(root: renewed.root).contains(try renewed.certificate()))
            #expect(after.stamp.version.ordinal == 1)
            #expect(after.stamp.modifiedEpochSeconds == before.stamp.modifiedEpochSeconds)
            #expect(after.stamp.entityTag != before.stamp.entityTag)
            #expect(try after.file("order.json") == before.file("order.json"))
            #expect(try await fixture.redis.send(RedisCommand("HGET", .string(key), "stamp")).text == stamp)
            #expect(try await fixture.count(fixture.topics.orders) == 2)
            #expect(try await repackager.repackage(keys) == [.current, .current])
        }
    }

    @Test func repackagingWithAnAddedPicturePublishesANewVersion() async throws {
        let renewed = try RenewedBrand()
        try renewed.remove(asset: "lamp.png")
        let old = try renewed.load()
        try await PackagerFixture.run { fixture in
            try await self.fill(fixture, old, ["a"])
            let key = try ChangeLog.key("a")
            let before = try #require(try await fixture.stored("a"))
            try renewed.write(asset: "lamp.png", SampleFile.png(seed: 99))
            let repackager = try self.repackager(fixture, try renewed.load())
            #expect(try await repackager.repackage([key]) == [.renewed])
            let after = try #require(try await fixture.stored("a"))
            #expect(after.state.version.ordinal == 2)
            #expect(after.state.modifiedEpochSeconds == before.state.modifiedEpochSeconds + 1)
            #expect(after.state.document == before.state.document)
            #expect(after.state.positions == before.state.positions)
            #expect(after.unpublished.isEmpty)
            #expect(after.assets.count == before.assets.count + 1)
            let archive = try #require(try await StoredArchive.read(key, from: fixture.redis))
            #expect(try archive.file("lamp.png") == SampleFile.png(seed: 99))
            _ = try archive.verify(root: renewed.root)
            let last = try #require(try await fixture.read(fixture.topics.orders, 2).last)
            let record = try OrderRecord.decode(try #require(last.value))
            #expect(record.version.ordinal == 2)
            #expect(record.content == after.content)
            // The next change continues from there.
            var log = ChangeLog(offset: 50)
            try await fixture.processor(packager: OrderPackager(try renewed.load(), tokens: try BrandFixture.tokens()))
                .process([log.change("order.patched", "a", ["orderNumber": "7"])])
            #expect(try await fixture.state("a")?.version.ordinal == 3)
        }
    }

    @Test func repackagingThatWouldInvalidateAnOrderLeavesItUnchanged() async throws {
        let renewed = try RenewedBrand()
        let merchant: JSON = [
            "merchantIdentifier": "merchant.com.example", "displayName": "Shop", "url": "https://shop.example.com/",
        ]
        try renewed.write(defaults: ["merchant": merchant])
        let old = try renewed.load()
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            var document = ChangeLog.document().object ?? JSONObject()
            document["merchant"] = nil
            let packager = OrderPackager(old, tokens: try BrandFixture.tokens())
            try await fixture.processor(packager: packager).process([
                log.change("order.replaced", "a", .object(document))
            ])
            let revision = try #require(try await fixture.stored("a")).revision
            try renewed.write(defaults: [:])
            let repackager = try self.repackager(fixture, try renewed.load())
            guard case .refused(let reason)? = try await repackager.repackage([try ChangeLog.key("a")]).first else {
                Issue.record("not refused")
                return
            }
            #expect(reason.contains("$.merchant"))
            #expect(try await fixture.stored("a")?.revision == revision)
        }
    }

    @Test func aRemovedOrderStaysRemoved() async throws {
        let renewed = try RenewedBrand()
        let old = try renewed.load()
        try await PackagerFixture.run { fixture in
            try await self.fill(fixture, old, ["a"])
            var log = ChangeLog(offset: 10)
            let packager = OrderPackager(old, tokens: try BrandFixture.tokens())
            try await fixture.processor(packager: packager).process([log.change("order.removed", "a", nil)])
            try renewed.renewCertificate()
            try renewed.write(asset: "logo.png", SampleFile.png(seed: 77))
            let repackager = try self.repackager(fixture, try renewed.load())
            let key = try ChangeLog.key("a")
            #expect(try await repackager.repackage([key], evenIfCurrent: true) == [.absent])
            #expect(try await StoredArchive.read(key, from: fixture.redis) == nil)
            #expect(try await fixture.count(fixture.topics.orders) == 2)
        }
    }

    @Test func concurrentRepackagingLosesNoChange() async throws {
        let renewed = try RenewedBrand()
        let old = try renewed.load()
        try await PackagerFixture.run { fixture in
            try await self.fill(fixture, old, ["a"])
            try renewed.write(asset: "logo.png", SampleFile.png(seed: 78))
            let brand = try renewed.load()
            let packager = OrderPackager(brand, tokens: try BrandFixture.tokens())
            let repackager = try self.repackager(fixture, brand)
            let key = try ChangeLog.key("a")
            // Writes as fast as it can while the repackager works: both must succeed.
            try await withThrowingTaskGroup { group in
                group.addTask {
                    var log = ChangeLog(offset: 100)
                    for number in 0..<20 {
                        let record = log.change("order.patched", "a", ["orderNumber": .string("n\(number)")])
                        try await self.untilDone {
                            try await fixture.processor(packager: packager).process([record])
                        }
                    }
                }
                group.addTask {
                    for _ in 0..<20 {
                        try await self.untilDone { _ = try await repackager.repackage([key], evenIfCurrent: true) }
                    }
                }
                try await group.waitForAll()
            }
            let state = try #require(try await fixture.state("a"))
            #expect(state.document.members["orderNumber"] == "n19")
            let last = try #require(
                try await fixture.read(fixture.topics.orders, Int(try await fixture.count(fixture.topics.orders))).last)
            #expect(try OrderRecord.decode(try #require(last.value)).version == state.version)
        }
    }

    @Test func anInterruptedAnnouncementIsPublishedLater() async throws {
        let renewed = try RenewedBrand()
        let old = try renewed.load()
        try await PackagerFixture.run { fixture in
            try await self.fill(fixture, old, ["a"])
            try renewed.write(asset: "logo.png", SampleFile.png(seed: 79))
            let brand = try renewed.load()
            let packager = OrderPackager(brand, tokens: try BrandFixture.tokens())
            let key = try ChangeLog.key("a")
            // Without a producer it writes and cannot announce, as if killed in between.
            let cut = OrderRepackager(
                topics: fixture.topics, store: OrderStore(redis: fixture.redis), producer: nil,
                packagers: { [brand.orderType: packager] })
            await #expect(throws: RetriableFailure.self) { _ = try await cut.repackage([key]) }
            #expect(try await Int64(fixture.stored("a")?.unpublished ?? "")?.ordinal == 2)
            #expect(try await fixture.count(fixture.topics.orders) == 1)
            // A change that arrives before the next attempt does not remove the mark.
            var log = ChangeLog(offset: 60)
            try await fixture.processor(packager: packager).process([
                log.change("order.patched", "a", ["orderNumber": "8"])
            ])
            #expect(try await Int64(fixture.stored("a")?.unpublished ?? "")?.ordinal == 2)
            #expect(try await self.repackager(fixture, brand).repackage([key]) == [.current])
            #expect(try await fixture.stored("a")?.unpublished == "")
            let last = try #require(try await fixture.read(fixture.topics.orders, 3).last)
            #expect(try OrderRecord.decode(try #require(last.value)).version.ordinal == 3)
        }
    }
}
