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

/// Orders that are created again when Redis has no trace of the earlier ones, while Kafka still has their records.
@Suite(.server, .timeLimit(.minutes(2))) struct LaterIncarnationTests {
    private static let week: Int64 = 8 * 86_400

    @Test(arguments: [false, true])
    func theLaterOrderIsRestoredFromRecordsInAnyOrder(isBackwards: Bool) async throws {
        try await PackagerFixture.run { fixture in
            let packager = OrderPackager(fixture.brandFixture.brand, tokens: try BrandFixture.tokens())
            var processor = try fixture.processor(packager: packager)
            var log = ChangeLog()
            for round in 0..<5 {
                try await processor.process([
                    log.change("order.replaced", "removed", ChangeLog.document("early \(round)")),
                    log.change("order.replaced", "damaged", ChangeLog.document("early \(round)")),
                ])
            }
            try await processor.process([log.change("order.removed", "removed", nil)])
            // The trace of a removed order ends after a week; an operator deletes a damaged order.
            let type = fixture.brandFixture.brand.orderType
            for order in ["removed", "damaged"] {
                _ = try await fixture.redis.send(RedisCommand("DEL", .string("waybill:1:order:{\(type)/\(order)}")))
            }
            processor.now = { (ChangeLog.noon + Self.week) * 1000 }
            try await processor.process([
                log.change("order.replaced", "removed", ChangeLog.document("late")),
                log.change("order.replaced", "damaged", ChangeLog.document("late")),
            ])
            let late = try #require(try await fixture.state("damaged"))
            var records = try await fixture.read(fixture.topics.orders, 13)
            if isBackwards { records.reverse() }
            _ = try await fixture.redis.send(RedisCommand("FLUSHALL"))
            let restorer = fixture.restorer
            for record in records { try await restorer.restore([record]) }
            for order in ["removed", "damaged"] {
                let state = try #require(try await fixture.state(order))
                #expect(!state.isRemoved)
                #expect(state.document.members["orderNumber"] == "late")
            }
            #expect(try await fixture.state("damaged")?.version == late.version)
        }
    }
}
