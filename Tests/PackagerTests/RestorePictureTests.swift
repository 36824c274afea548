import CoreMetrics
import Kafka
import Logging
import Model
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Pictures by URL stand in Redis only, so they are lost with it.
@Suite(.server, .timeLimit(.minutes(2))) struct RestorePictureTests {
    @Test func aPictureIsLeftOutFetchedAgainAndShown() async throws {
        try await PictureFixture.run { scene in
            let lamp = SampleFile.png(seed: 3)
            try scene.server.answer("/lamp", .init(lamp))
            var log = ChangeLog()
            try await scene.processor().process([
                log.change("order.replaced", "o", scene.document([scene.url("/lamp"), "lamp.png"]))
            ])
            try await scene.working([scene.worker()]) {
                try await eventually("the picture") { try await scene.package("o").files.count == 1 }
                try await eventually("nothing is waited for") { try await scene.due() == 0 }
            }
            let before = try #require(try await scene.scene.state("o"))
            let records = try await scene.scene.read(scene.scene.topics.orders, Int(before.version.ordinal))

            _ = try await scene.scene.redis.send(RedisCommand("FLUSHALL"))
            let type = try OrderTypeIdentifier(BrandFixture.orderType)
            var restorer = OrderRestorer(
                store: OrderStore(redis: scene.scene.redis), packagers: { [type: scene.packager] },
                isAwaited: { _ in false }, pictureIndex: scene.pictureIndex,
                metrics: RestoreMetrics(factory: scene.scene.metrics),
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            restorer.now = { scene.clock.now }
            #expect(try await restorer.restore(records) == nil)
            // As it was, but for the picture, which is noted.
            #expect(try await scene.scene.state("o") == before)
            #expect(try await scene.images("o") == [nil, "lamp.png"])
            #expect(try await scene.due() == 1)

            try await scene.working([scene.worker()]) {
                try await eventually("the picture again") { try await scene.package("o").files.count == 1 }
                try await eventually("nothing is waited for") { try await scene.due() == 0 }
            }
            let (_, files) = try await scene.package("o")
            #expect(Array(files.values) == [lamp])
            // Devices are told: what they fetched meanwhile lacks it.
            let after = try #require(try await scene.scene.state("o"))
            #expect(after.version == before.version + 1)
            #expect(after.modifiedEpochSeconds > before.modifiedEpochSeconds)
            let last = try await scene.scene.read(scene.scene.topics.orders, Int(before.version.ordinal) + 1).last
            #expect(try OrderRecord.decode(try #require(last?.value)).version == after.version)
        }
    }
}
