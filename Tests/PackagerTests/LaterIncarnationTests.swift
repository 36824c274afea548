import Brands
import Kafka
import Logging
import Model
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Orders that come into being again when nothing in Redis tells of the earlier one, while Kafka still has its records.
@Suite(.server, .timeLimit(.minutes(2))) struct LaterIncarnationTests {
    private static let week: Int64 = 8 * 86_400

    @Test(arguments: [false, true])
    func theLaterOrderIsRestoredInWhateverOrderRecordsAreRead(isBackwards: Bool) async throws {
        try await PackagerFixture.run { scene in
            let packager = OrderPackager(scene.brandFixture.brand, tokens: try BrandFixture.tokens())
            var processor = try scene.processor(packager: packager)
            var log = ChangeLog()
            for round in 0..<5 {
                try await processor.process([
                    log.change("order.replaced", "removed", ChangeLog.document("early \(round)")),
                    log.change("order.replaced", "damaged", ChangeLog.document("early \(round)")),
                ])
            }
            try await processor.process([log.change("order.removed", "removed", nil)])
            // The trace of a removed order ends after a week; a damaged order is taken out by hand.
            let type = scene.brandFixture.brand.orderType
            for order in ["removed", "damaged"] {
                _ = try await scene.redis.send(RedisCommand("DEL", .string("waybill:order:{\(type)/\(order)}")))
            }
            processor.now = { (ChangeLog.noon + Self.week) * 1000 }
            try await processor.process([
                log.change("order.replaced", "removed", ChangeLog.document("late")),
                log.change("order.replaced", "damaged", ChangeLog.document("late")),
            ])
            let late = try #require(try await scene.state("damaged"))
            var records = try await scene.read(scene.topics.orders, 13)
            if isBackwards { records.reverse() }
            _ = try await scene.redis.send(RedisCommand("FLUSHALL"))
            let restorer = OrderRestorer(
                store: OrderStore(redis: scene.redis), packagers: { [type: packager] }, isAwaited: { _ in false },
                pictureIndex: nil, metrics: RestoreMetrics(factory: scene.metrics),
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            for record in records { #expect(try await restorer.restore([record]) == nil) }
            for order in ["removed", "damaged"] {
                let state = try #require(try await scene.state(order))
                #expect(!state.isRemoved)
                #expect(state.document.members["orderNumber"] == "late")
            }
            #expect(try await scene.state("damaged")?.version == late.version)
        }
    }
}
