import Brands
import CoreMetrics
import Kafka
import Logging
import Model
import Operations
import Packaging
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Restored orders: as they were published, without a package until somebody asks for it.
@Suite(.server, .timeLimit(.minutes(2))) struct RestoredPackageTests {
    private func repackager(_ fixture: PackagerFixture, _ brand: Brand) throws -> OrderRepackager {
        let packager = OrderPackager(brand, tokens: try BrandFixture.tokens())
        var repackager = OrderRepackager(
            topics: fixture.topics, store: OrderStore(redis: fixture.redis), producer: fixture.producer,
            packagers: { [brand.orderType: packager] })
        repackager.now = { (ChangeLog.noon + 86_400) * 1000 }
        return repackager
    }

    private func fill(_ fixture: PackagerFixture, _ brand: Brand, _ orders: [String]) async throws {
        var log = ChangeLog()
        try await fixture.processor(packager: OrderPackager(brand, tokens: try BrandFixture.tokens())).process(
            orders.map { log.change("order.replaced", $0, ChangeLog.document($0)) })
    }

    private func states(_ fixture: PackagerFixture, _ orders: [String]) async throws -> [OrderState?] {
        try await OrderStore(redis: fixture.redis).orders(orders.map(ChangeLog.key)).map { try $0.get()?.state }
    }

    @Test func lostOrdersComeBackAsTheyWereAndArePackagedOnRequest() async throws {
        let renewed = try RenewedBrand()
        try await PackagerFixture.run { fixture in
            let names = (0..<20).map { "o\($0)" }
            try await self.fill(fixture, try renewed.load(), names)
            let before = try await self.states(fixture, names)
            let content = try #require(try await fixture.stored("o7")).content
            let records = try await fixture.read(fixture.topics.orders, 20)
            _ = try await fixture.redis.send(RedisCommand("FLUSHALL"))
            // No signature of the past comes back: the certificate may have been renewed since.
            try renewed.renewCertificate()

            try await fixture.restorer.restore(records)
            #expect(fixture.counter("waybill_restore_orders_total") == 20)
            #expect(try await self.states(fixture, names) == before)
            let restored = try #require(try await fixture.stored("o7"))
            #expect(!restored.isPackaged)
            #expect(restored.content == content)
            #expect(restored.isPublished)

            let key = try ChangeLog.key("o7")
            let repackager = try self.repackager(fixture, try renewed.load())
            #expect(try await repackager.package(requested: [key]) == [.signed])
            let archive = try #require(try await StoredArchive.read(key, from: fixture.redis))
            #expect(try archive.verify(root: renewed.root).contains(try renewed.certificate()))
            #expect(archive.stamp.version == restored.state.version)
            #expect(try await fixture.stored("o7")?.content == content, "the same but for the signature")
            #expect(try await fixture.count(fixture.topics.orders) == 20)
        }
    }

    /// The record says what devices have of a restored order, so a changed brand gives them a new version.
    @Test func aChangedBrandRenewsARestoredOrderThatHasNoPackage() async throws {
        let renewed = try RenewedBrand()
        try renewed.remove(asset: "lamp.png")
        try await PackagerFixture.run { fixture in
            try await self.fill(fixture, try renewed.load(), ["a"])
            let records = try await fixture.read(fixture.topics.orders, 1)
            _ = try await fixture.redis.send(RedisCommand("FLUSHALL"))
            try await fixture.restorer.restore(records)
            let key = try ChangeLog.key("a")
            let same = try self.repackager(fixture, try renewed.load())
            #expect(try await same.repackage([key]) == [.current])
            #expect(try await same.repackage([key], evenIfCurrent: true) == [.current], "there is nothing to sign")
            try renewed.write(asset: "lamp.png", SampleFile.png(seed: 99))
            #expect(try await self.repackager(fixture, try renewed.load()).repackage([key]) == [.renewed])
            #expect(try await fixture.stored("a")?.state.version.ordinal == 2)
            #expect(try await fixture.count(fixture.topics.orders) == 2)
        }
    }

    /// Orders that were not lost stay as they are, and a record that is damaged holds up no other.
    @Test func aRestoreWritesOnlyLostOrdersAndSkipsDamagedRecords() async throws {
        try await PackagerFixture.run { fixture in
            let names = (0..<40).map { "o\($0)" }
            try await self.fill(fixture, fixture.brandFixture.brand, names)
            let before = try await self.states(fixture, names)
            var records = try await fixture.read(fixture.topics.orders, 40)
            let keys = records.compactMap { $0.key.map { "waybill:1:order:{\(String(decoding: $0, as: UTF8.self))}" } }
            let restorer = fixture.restorer
            #expect(try await restorer.stand(records))
            try await restorer.restore(records)
            #expect(fixture.counter("waybill_restore_orders_total") == 0)
            for lost in [keys.prefix(20), keys.suffix(20), keys[10..<30]] {
                for key in lost { _ = try await fixture.redis.send(RedisCommand("DEL", .string(key))) }
                #expect(try await !restorer.stand(records))
                let written = fixture.counter("waybill_restore_orders_total")
                try await restorer.restore(records)
                #expect(fixture.counter("waybill_restore_orders_total") == written + 20)
                #expect(try await self.states(fixture, names) == before)
            }

            let value = try #require(records[0].value)
            let place = try #require(value.firstIndex(of: UInt8(ascii: "[")))
            records[0] = KafkaRecord(
                topic: records[0].topic, partition: 0, offset: 0, timestampMilliseconds: 0, key: records[0].key,
                value: value[...place] + Array("tru,".utf8) + value[(place + 1)...])
            for key in keys.prefix(20) { _ = try await fixture.redis.send(RedisCommand("DEL", .string(key))) }
            try await restorer.restore(records)
            #expect(fixture.counter("waybill_restore_refused_total") == 1)
            #expect(try await fixture.redis.send(RedisCommand("EXISTS", .string(keys[0]))).integer == 0)
            #expect(try await fixture.redis.send(RedisCommand("EXISTS", .string(keys[1]))).integer == 1)
        }
    }

    /// Records of superseded versions say nothing about the current ones.
    @Test func earlierRecordsBringNothingBack() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let names = (0..<20).map { "o\($0)" }
            let processor = try fixture.processor()
            for round in 0..<2 {
                try await processor.process(
                    names.map { log.change("order.replaced", $0, ChangeLog.document("\(round)")) })
            }
            try await processor.process([log.change("order.removed", "o3", nil)])
            let records = try await fixture.read(fixture.topics.orders, 41)
            let restorer = fixture.restorer
            #expect(try await restorer.stand(Array(records[..<20])))
            try await restorer.restore(Array(records[..<20]))
            #expect(fixture.counter("waybill_restore_orders_total") == 0)
            let before = try await self.states(fixture, names)
            _ = try await fixture.redis.send(RedisCommand("FLUSHALL"))
            try await restorer.restore(records)
            #expect(try await restorer.stand(records))
            #expect(try await self.states(fixture, names) == before)
        }
    }

    /// A worker that publishes a record without having packaged the order takes its content from Redis.
    @Test func aReannouncedOrderHasTheStoredContent() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let change = log.change("order.replaced", "o", ChangeLog.document())
            let processor = try fixture.processor()
            try await processor.process([change])
            try await fixture.forgetTold("o")
            try await processor.process([change])
            let contents = try await fixture.read(fixture.topics.orders, 2).map {
                try OrderRecord.decode(try #require($0.value)).content
            }
            let stored = try #require(try await fixture.stored("o"))
            #expect(contents == [stored.content, stored.content])
        }
    }
}

/// Outages of Redis in which no order is lost.
@Suite(.server, .timeLimit(.minutes(2))) struct RestoreAfterOutageTests {
    /// Returns the bytes, entity tag and revision of each package.
    private func standing(_ fleet: Fleet, _ orders: [OrderKey]) async throws -> [RedisValue] {
        try await fleet.redis.pipeline(
            orders.map { RedisCommand("HMGET", .string("waybill:1:order:{\($0)}"), "head", "tail", "etag", "revision") }
        )
    }

    @Test func aRestoreAfterAnOutageWithoutLostOrdersLeavesTheirPackages() async throws {
        try await Fleet.run(redis: ["--appendonly", "yes", "--appendfsync", "always"]) { fleet in
            let names = (0..<40).map { "o\($0)" }
            let orders = try names.map(ChangeLog.key)
            let members = try (0..<2).map { _ in try fleet.member() }
            @Sendable func count(_ name: String) -> Int64 { members.reduce(0) { $0 + $1.metrics.counter(name) } }
            try await fleet.working(members) {
                try await fleet.publish(names.map { ("order.replaced", $0, "r\($0)", ChangeLog.document($0)) })
                try await fleet.settle()
                _ = try await fleet.register(30, orders: orders)
                try await eventually("complete") { try await fleet.isComplete() }
                let before = try await self.standing(fleet, orders)
                let restored = count("waybill_restore_orders_total")
                #expect(count("waybill_packages_built_total") == 40)

                await fleet.server.kill()
                try await fleet.publish(
                    names.prefix(5).map { ("order.patched", $0, "p\($0)", ["statusDescription": "away"]) })
                // A gateway published it but could not write it: the view lacks something, so it is restored.
                let lacking = RegistrationKey(device: try DeviceIdentifier("late"), order: orders[9])
                let record = RegistrationRecord(pushToken: try PushToken("ab"), registeredEpochMilliseconds: 1)
                _ = try await fleet.producer.produce(
                    KafkaMessage(
                        topic: fleet.topics.registrations, key: Array(lacking.text.utf8), value: record.encoded))
                try await eventually("all notice") {
                    members.allSatisfy { $0.environment.readiness.remarks.contains { $0.hasPrefix("redis") } }
                }
                let restores = count("waybill_restores_total")
                try await fleet.server.restart()
                try await eventually("restored") {
                    count("waybill_restores_total") > restores && members.allSatisfy(\.isReady)
                }
                try await fleet.settle()

                #expect(try await Registrations(redis: fleet.redis).registration(lacking) == record)
                #expect(count("waybill_restore_orders_total") == restored)
                #expect(count("waybill_packages_built_total") == 45)
                let after = try await self.standing(fleet, orders)
                #expect(after[5...] == before[5...])
                #expect(zip(after, before).prefix(5).allSatisfy { $0 != $1 })
            }
        }
    }
}
