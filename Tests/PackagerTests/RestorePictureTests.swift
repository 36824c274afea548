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

/// Pictures by URL are only in Redis, so they are lost with it.
@Suite(.server, .timeLimit(.minutes(2))) struct RestorePictureTests {
    @Test func aRestoredOrderOmitsItsPictureUntilItIsFetchedAgain() async throws {
        try await PictureFixture.run { fixture in
            let lamp = SampleFile.png(seed: 3)
            try fixture.server.answer("/lamp", .init(lamp))
            var log = ChangeLog()
            try await fixture.processor().process([
                log.change("order.replaced", "o", fixture.document([fixture.url("/lamp"), "lamp.png"]))
            ])
            try await fixture.working([fixture.worker()]) {
                try await eventually("the picture") { try await fixture.package("o").files.count == 1 }
                try await eventually("nothing is waited for") { try await fixture.due() == 0 }
            }
            let before = try #require(try await fixture.packagerFixture.state("o"))
            let records = try await fixture.packagerFixture.read(
                fixture.packagerFixture.topics.orders, Int(before.version.ordinal))

            _ = try await fixture.packagerFixture.redis.send(RedisCommand("FLUSHALL"))
            let restorer = fixture.packagerFixture.restorer
            try await restorer.restore(records)
            #expect(try await fixture.packagerFixture.state("o") == before)
            // A changed brand waits for the picture, else devices would lose it.
            let key = try ChangeLog.key("o")
            #expect(try await fixture.repackager().repackage([key]) == [.current])
            // As it was, but for the picture, which is noted.
            #expect(try await fixture.repackager().package(requested: [key]) == [.signed])
            #expect(try await fixture.packagerFixture.state("o") == before)
            #expect(try await fixture.images("o") == [nil, "lamp.png"])
            #expect(try await fixture.due() == 1)

            try await fixture.working([fixture.worker()]) {
                try await eventually("the picture again") { try await fixture.package("o").files.count == 1 }
                try await eventually("nothing is waited for") { try await fixture.due() == 0 }
            }
            let (_, files) = try await fixture.package("o")
            #expect(Array(files.values) == [lamp])
            // Devices are notified, because what they fetched meanwhile lacks it.
            let after = try #require(try await fixture.packagerFixture.state("o"))
            #expect(after.version == before.version + 1)
            #expect(after.modifiedEpochSeconds > before.modifiedEpochSeconds)
            let last = try await fixture.packagerFixture.read(
                fixture.packagerFixture.topics.orders, Int(before.version.ordinal) + 1
            ).last
            #expect(try OrderRecord.decode(try #require(last?.value)).version == after.version)
        }
    }
}
