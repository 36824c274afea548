import CoreMetrics
import Kafka
import Logging
import Model
import Packaging
import Redis
import Store
import Synchronization
import TestKit
import Testing

@testable import Packager

/// What restoring signs, and what it does not.
@Suite(.timeLimit(.minutes(2))) struct RestoreSignatureTests {
    /// Counts the signatures of the brand.
    private final class Signatures: Sendable {
        private let number = Mutex(0)
        var count: Int { self.number.withLock { $0 } }

        func workshop(_ brand: Brand) throws -> OrderWorkshop {
            let builder = PackageBuilder(brand)
            return OrderWorkshop(brand, secrets: try BrandFixture.secrets()) {
                (order, pictures, seconds) throws(PackagingError) in
                self.number.withLock { $0 += 1 }
                return try builder.build(order, pictures: pictures, signingEpochSeconds: seconds)
            }
        }
    }

    @Test func whatStandsIsComparedAndNotSignedAgain() async throws {
        try await PackagerScene.run { scene in
            let signatures = Signatures()
            let workshop = try signatures.workshop(scene.fixture.brand)
            let processor = try scene.processor(workshop: workshop)
            var log = ChangeLog()
            let names = (0..<20).map { "o\($0)" }
            for round in 0..<2 {
                try await processor.process(
                    names.map { log.change("order.replaced", $0, ChangeLog.document("\(round)")) })
            }
            try await processor.process([log.change("order.removed", "o3", nil)])
            let records = try await scene.read(scene.topics.orders, 41)
            #expect(signatures.count == 40)
            let metrics = RestoreMetrics(factory: scene.metrics)
            let type = scene.fixture.brand.orderType
            let restorer = OrderRestorer(
                store: OrderStore(redis: scene.redis), workshops: { [type: workshop] }, isAwaited: { _ in false },
                shelf: nil, metrics: metrics, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })

            // Redis was away and has everything: whether it is only judged, or some other order lacked.
            #expect(try await restorer.stand(records))
            #expect(try await restorer.restore(records) == nil)
            // Records of versions that were overtaken say nothing about what stands.
            #expect(try await restorer.stand(Array(records[..<20])))
            _ = try await restorer.restore(Array(records[..<20]))
            #expect(signatures.count == 40 && scene.counter("waybill_restore_orders_total") == 0)

            // One is lacking: it is signed, and no other.
            _ = try await scene.redis.send(RedisCommand("DEL", .string("waybill:order:{\(type)/o5}")))
            #expect(try await !restorer.stand(records))
            _ = try await restorer.restore(records)
            #expect(signatures.count == 41 && scene.counter("waybill_restore_orders_total") == 1)

            // All are lacking: each is signed once, in its last version.
            _ = try await scene.redis.send(RedisCommand("FLUSHALL"))
            _ = try await restorer.restore(records)
            #expect(signatures.count == 41 + 19)
            #expect(try await restorer.stand(records))
        }
    }
}
