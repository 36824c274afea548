import Brands
import CoreMetrics
import Kafka
import Logging
import Model
import Packaging
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Restored packages: the same bytes without a signature, and a new signature where the old one does not hold.
@Suite(.server, .timeLimit(.minutes(2))) struct RestoreSealTests {
    private func restorer(_ fixture: PackagerFixture, _ brand: Brand) throws -> OrderRestorer {
        let packager = OrderPackager(brand, tokens: try BrandFixture.tokens())
        var restorer = OrderRestorer(
            store: OrderStore(redis: fixture.redis), packagers: { [brand.orderType: packager] },
            isAwaited: { _ in false },
            pictureIndex: nil, metrics: RestoreMetrics(factory: fixture.metrics),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        restorer.now = { ChangeLog.noon + 86_400 }
        return restorer
    }

    private func fill(_ fixture: PackagerFixture, _ brand: Brand, _ orders: [String]) async throws {
        var log = ChangeLog()
        try await fixture.processor(packager: OrderPackager(brand, tokens: try BrandFixture.tokens())).process(
            orders.map { log.change("order.replaced", $0, ChangeLog.document($0)) })
    }

    private func archives(_ fixture: PackagerFixture, _ orders: [String]) async throws -> [[UInt8]] {
        var archives: [[UInt8]] = []
        for order in orders {
            archives.append(
                try #require(try await StoredArchive.read(try ChangeLog.key(order), from: fixture.redis), "\(order)")
                    .bytes)
        }
        return archives
    }

    @Test func lostOrdersAreRestoredByteForByteWithoutSigning() async throws {
        try await PackagerFixture.run { fixture in
            let names = (0..<20).map { "o\($0)" }
            try await self.fill(fixture, fixture.brandFixture.brand, names)
            let before = try await self.archives(fixture, names)
            let records = try await fixture.read(fixture.topics.orders, 20)
            _ = try await fixture.redis.send(RedisCommand("FLUSHALL"))

            #expect(try await self.restorer(fixture, fixture.brandFixture.brand).restore(records) == nil)
            #expect(try await self.archives(fixture, names) == before)
            #expect(fixture.counter("waybill_restore_orders_total") == 20)
            #expect(fixture.counter("waybill_restore_signatures_total") == 0)
            let directory = try TemporaryDirectory("seal")
            let root = try directory.write("root.pem", fixture.brandFixture.rootPEM)
            let archive = try #require(try await StoredArchive.read(try ChangeLog.key("o7"), from: fixture.redis))
            _ = try archive.verify(root: root)
            let record = try OrderRecord.decode(try #require(records.first?.value))
            var plain = record
            plain.seal = nil
            #expect(record.encoded.count - plain.encoded.count == 405, "the size of a record matters to Kafka")
        }
    }

    @Test func aPublishedPackageIsRebuiltFromTheTextOfItsRecord() async throws {
        try await PackagerFixture.run { fixture in
            try await self.fill(fixture, fixture.brandFixture.brand, ["a"])
            let value = try #require(try await fixture.read(fixture.topics.orders, 1).first?.value)
            let packager = OrderPackager(fixture.brandFixture.brand, tokens: try BrandFixture.tokens())
            let key = try ChangeLog.key("a")
            let package = try #require(packager.asPublished(try OrderRecordText(value), of: key))
            #expect(package.tail == (try await OrderStore(redis: fixture.redis).tails(of: [key]))[0])
            #expect(packager.asPublished(try OrderRecordText(value), of: try ChangeLog.key("b")) == nil)
            var record = try OrderRecord.decode(value)
            record.document.members["orderNumber"] = "another"
            #expect(packager.asPublished(try OrderRecordText(record.encoded), of: key) == nil)
        }
    }

    /// Orders that were not lost stay as they are, and a record that is damaged holds up no other.
    @Test func aRestoreWritesOnlyLostOrdersAndSkipsDamagedRecords() async throws {
        try await PackagerFixture.run { fixture in
            let names = (0..<40).map { "o\($0)" }
            try await self.fill(fixture, fixture.brandFixture.brand, names)
            let before = try await self.archives(fixture, names)
            var records = try await fixture.read(fixture.topics.orders, 40)
            let keys = records.compactMap { $0.key.map { "waybill:1:order:{\(String(decoding: $0, as: UTF8.self))}" } }
            for lost in [keys.prefix(20), keys.suffix(20), keys[10..<30]] {
                for key in lost { _ = try await fixture.redis.send(RedisCommand("DEL", .string(key))) }
                let written = fixture.counter("waybill_restore_orders_total")
                _ = try await self.restorer(fixture, fixture.brandFixture.brand).restore(records)
                #expect(fixture.counter("waybill_restore_orders_total") == written + 20)
                #expect(try await self.archives(fixture, names) == before)
            }
            #expect(fixture.counter("waybill_restore_signatures_total") == 0)

            let value = try #require(records[0].value)
            let place = try #require(value.firstIndex(of: UInt8(ascii: "[")))
            records[0] = KafkaRecord(
                topic: records[0].topic, partition: 0, offset: 0, timestampMilliseconds: 0, key: records[0].key,
                value: value[...place] + Array("tru,".utf8) + value[(place + 1)...])
            for key in keys.prefix(20) { _ = try await fixture.redis.send(RedisCommand("DEL", .string(key))) }
            _ = try await self.restorer(fixture, fixture.brandFixture.brand).restore(records)
            #expect(fixture.counter("waybill_restore_refused_total") == 1)
            #expect(try await fixture.redis.send(RedisCommand("EXISTS", .string(keys[0]))).integer == 0)
            #expect(try await fixture.redis.send(RedisCommand("EXISTS", .string(keys[1]))).integer == 1)
        }
    }

    /// Damaged seals too: no record leads to a package that does not verify, or to none at all.
    @Test func aRecordWithoutAValidSealIsSignedAgain() async throws {
        try await PackagerFixture.run { fixture in
            let names = (0..<6).map { "o\($0)" }
            try await self.fill(fixture, fixture.brandFixture.brand, names)
            let before = try await self.archives(fixture, names)
            let published = try await fixture.read(fixture.topics.orders, 6)
            let other = try OrderRecord.decode(try #require(published[4].value)).seal
            var records: [KafkaRecord] = []
            var seals: [PackageSeal?] = []
            for (number, original) in published.enumerated() {
                var record = try OrderRecord.decode(try #require(original.value))
                let seal = try #require(record.seal)
                let damaged = seal.dropLast(9) + (seal.suffix(9).first == "A" ? "B" : "A") + seal.suffix(8)
                record.seal = [nil, "", String(seal.dropLast(4)), other, seal, String(damaged)][number]
                seals.append(record.seal.flatMap { PackageSeal($0) })
                records.append(
                    KafkaRecord(
                        topic: original.topic, partition: 0, offset: Int64(number), timestampMilliseconds: 0,
                        key: original.key, value: record.encoded))
            }
            _ = try await fixture.redis.send(RedisCommand("FLUSHALL"))

            _ = try await self.restorer(fixture, fixture.brandFixture.brand).restore(records)
            #expect(fixture.counter("waybill_restore_signatures_total") == 5)
            // A text that was cut may be a seal by chance.
            #expect(seals[5] != nil)
            #expect(
                fixture.counter("waybill_restore_damaged_signatures_total") == (seals[2] == nil ? 1 : 2))
            let after = try await self.archives(fixture, names)
            #expect(zip(after, before).map { $0 == $1 } == [false, false, false, false, true, false])
            let directory = try TemporaryDirectory("seal")
            let root = try directory.write("root.pem", fixture.brandFixture.rootPEM)
            for name in names {
                let archive = try #require(try await StoredArchive.read(try ChangeLog.key(name), from: fixture.redis))
                _ = try archive.verify(root: root)
            }
        }
    }

    @Test func restoredOrdersAreSignedWithARenewedCertificate() async throws {
        let renewed = try RenewedBrand()
        try await PackagerFixture.run { fixture in
            try await self.fill(fixture, try renewed.load(), ["a"])
            let records = try await fixture.read(fixture.topics.orders, 1)
            _ = try await fixture.redis.send(RedisCommand("FLUSHALL"))
            try renewed.renewCertificate()
            _ = try await self.restorer(fixture, try renewed.load()).restore(records)
            #expect(fixture.counter("waybill_restore_signatures_total") == 1)
            let archive = try #require(try await StoredArchive.read(try ChangeLog.key("a"), from: fixture.redis))
            #expect(try archive.verify(root: renewed.root).contains(try renewed.certificate()))
        }
    }

    /// A worker that publishes a record without having packaged the order takes the seal from Redis.
    @Test func aReannouncedOrderHasTheStoredSeal() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let change = log.change("order.replaced", "o", ChangeLog.document())
            let processor = try fixture.processor()
            try await processor.process([change])
            try await fixture.forgetTold("o")
            try await processor.process([change])
            let seals = try await fixture.read(fixture.topics.orders, 2).map {
                try OrderRecord.decode(try #require($0.value)).seal
            }
            #expect(seals[0] != nil)
            #expect(seals[0] == seals[1])
            let stored = try #require(try await fixture.stored("o"))
            let tail = try #require(try await OrderStore(redis: fixture.redis).tails(of: [stored.state.key])[0])
            #expect(
                PackageSeal(tail: tail, signer: stored.signer, content: stored.content, entityTag: stored.entityTag)?
                    .text == seals[0])
            #expect(
                PackageSeal(
                    tail: tail, signer: stored.signer, content: stored.content,
                    entityTag: String(repeating: "0", count: 32)) == nil)
            for length in stride(from: 0, to: 350, by: 7) {
                #expect(
                    PackageSeal(
                        tail: Array(tail[..<length]), signer: stored.signer, content: stored.content,
                        entityTag: stored.entityTag) == nil)
            }
        }
    }
}
