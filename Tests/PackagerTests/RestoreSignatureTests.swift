import Brands
import CoreMetrics
import Kafka
import Logging
import Model
import Operations
import Packaging
import Redis
import Store
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Packager

/// The packages that restoring signs, and those that it does not.
@Suite(.server, .timeLimit(.minutes(2))) struct RestoreSignatureTests {
    /// Counts the signatures of the brand.
    private final class Signatures: Sendable {
        private let number = Mutex(0)
        var count: Int { self.number.withLock { $0 } }

        func packager(_ brand: Brand) throws -> OrderPackager {
            let builder = PackageBuilder(brand)
            return OrderPackager(brand, tokens: try BrandFixture.tokens()) {
                (order, pictures, seconds) throws(PackagingError) in
                self.number.withLock { $0 += 1 }
                return try builder.build(order, pictures: pictures, signingEpochSeconds: seconds)
            }
        }
    }

    @Test func onlyMissingOrdersAreSignedAgain() async throws {
        try await PackagerFixture.run { fixture in
            let signatures = Signatures()
            let packager = try signatures.packager(fixture.brandFixture.brand)
            let processor = try fixture.processor(packager: packager)
            var log = ChangeLog()
            let names = (0..<20).map { "o\($0)" }
            for round in 0..<2 {
                try await processor.process(
                    names.map { log.change("order.replaced", $0, ChangeLog.document("\(round)")) })
            }
            try await processor.process([log.change("order.removed", "o3", nil)])
            let records = try await fixture.read(fixture.topics.orders, 41)
            #expect(signatures.count == 40)
            let metrics = RestoreMetrics(factory: fixture.metrics)
            let type = fixture.brandFixture.brand.orderType
            let restorer = OrderRestorer(
                store: OrderStore(redis: fixture.redis), packagers: { [type: packager] }, isAwaited: { _ in false },
                pictureIndex: nil, metrics: metrics, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })

            // Redis was away and lost nothing: it is only judged, or restored because another order was missing.
            #expect(try await restorer.stand(records))
            #expect(try await restorer.restore(records) == nil)
            // Records of superseded versions say nothing about the current ones.
            #expect(try await restorer.stand(Array(records[..<20])))
            _ = try await restorer.restore(Array(records[..<20]))
            #expect(signatures.count == 40)
            #expect(fixture.counter("waybill_restore_orders_total") == 0)

            // One is missing: it is signed, and no other.
            _ = try await fixture.redis.send(RedisCommand("DEL", .string("waybill:1:order:{\(type)/o5}")))
            #expect(try await !restorer.stand(records))
            _ = try await restorer.restore(records)
            #expect(signatures.count == 41)
            #expect(fixture.counter("waybill_restore_orders_total") == 1)

            // All are missing: each is signed once, in its last version.
            _ = try await fixture.redis.send(RedisCommand("FLUSHALL"))
            _ = try await restorer.restore(records)
            #expect(signatures.count == 41 + 19)
            #expect(try await restorer.stand(records))
        }
    }
    /// Returns the bytes, entity tag and revision of each package.
    private func standing(_ fleet: Fleet, _ orders: [OrderKey]) async throws -> [RedisValue] {
        try await fleet.redis.pipeline(
            orders.map { RedisCommand("HMGET", .string("waybill:1:order:{\($0)}"), "head", "tail", "etag", "revision") }
        )
    }

    @Test func aRestoreAfterAnOutageWithoutLostOrdersSignsNoneAgain() async throws {
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
