import Brands
import Foundation
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

/// Cold orders with a real broker: their records are read back for changes, packages, restores and parcels.
@Suite(.server, .timeLimit(.minutes(2))) struct ColdOrderServiceTests {
    private static let month: Int64 = 30 * 24 * 3600

    private func ended(_ number: String = "1") -> JSON {
        var members = ChangeLog.document(number).object ?? [:]
        members["status"] = "completed"
        return .object(members)
    }

    private func cold(_ fixture: PackagerFixture) throws -> ColdOrders {
        ColdOrders(
            topic: fixture.topics.orders, KafkaConfiguration(bootstrap: fixture.broker.bootstrap), fixture.metrics)
    }

    /// Makes a processor a month later.
    private func processor(_ fixture: PackagerFixture, _ cold: ColdOrders) throws -> ChangeProcessor {
        var processor = try fixture.processor(store: cold.store(fixture.redis))
        processor.policy = .followed
        processor.now = { (ChangeLog.noon + Self.month) * 1000 }
        return processor
    }

    private func repackager(_ fixture: PackagerFixture, _ cold: ColdOrders) throws -> OrderRepackager {
        let brand = fixture.brandFixture.brand
        let packager = OrderPackager(brand, tokens: try BrandFixture.tokens())
        return OrderRepackager(
            topics: fixture.topics, store: cold.store(fixture.redis), producer: fixture.producer,
            packagers: { [brand.orderType: packager] })
    }

    /// Publishes orders that ended, and cools them.
    private func cool(_ fixture: PackagerFixture, _ log: inout ChangeLog, _ orders: [String]) async throws {
        try await fixture.processor().process(orders.map { log.change("order.replaced", $0, self.ended()) })
        try await fixture.redis.completeView()
        #expect(try await self.sweep(fixture).cold == orders.count)
    }

    /// Sweeps as a packager does.
    private func sweep(
        _ fixture: PackagerFixture, isReady: Bool = true
    ) async throws -> (cold: Int, tally: OrderCooler.Tally) {
        let verifying = ColdOrders(
            topic: fixture.topics.orders, KafkaConfiguration(bootstrap: fixture.broker.bootstrap), nil)
        let store = verifying.store(fixture.redis)
        let cooler = OrderCooler(
            store, VersionPublisher(topics: fixture.topics, store: store, producer: fixture.producer),
            Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        ) { isReady }
        let view = ViewEpochCache(MaterializedView(redis: fixture.redis))
        let sweep = AssetSweep(view, cooling: Cooling(after: .seconds(7 * 86_400))) { try await cooler.cool($0) }
        return try await withCleanup(verifying.close) { (try await sweep.run {}.cold, cooler.tally) }
    }

    private func isCold(_ fixture: PackagerFixture, _ order: String) async throws -> Bool {
        let key = RedisArgument.string("waybill:1:order:{\(try ChangeLog.key(order))}")
        return try await fixture.redis.send(RedisCommand("HEXISTS", key, "document")).integer == 0
    }

    private func run(_ body: @Sendable (PackagerFixture, ColdOrders) async throws -> Void) async throws {
        try await PackagerFixture.run { fixture in
            let cold = try self.cold(fixture)
            try await withCleanup(cold.close) { try await body(fixture, cold) }
        }
    }

    @Test func aChangeIsFoldedIntoTheRecordOfAColdOrder() async throws {
        try await self.run { fixture, cold in
            var log = ChangeLog()
            try await self.cool(fixture, &log, ["o", "p"])
            let processor = try self.processor(fixture, cold)
            try await processor.process([log.change("order.patched", "o", ["orderNumber": "9"])])
            let stored = try #require(try await fixture.stored("o"))
            #expect(stored.state.document.members["orderNumber"] == "9")
            #expect(stored.state.document.members["status"] == "completed")
            #expect(stored.state.version.ordinal == 2)
            #expect(try await self.isCold(fixture, "p"))
            #expect(try await fixture.count(fixture.topics.deadLetters) == 0)
        }
    }

    /// Positions that were applied before it cooled are known, and those applied while it was cold are kept.
    @Test func aRedeliveredChangeOfAColdOrderChangesNothing() async throws {
        try await self.run { fixture, cold in
            var log = ChangeLog()
            let first = log.change("order.replaced", "o", self.ended())
            try await fixture.processor().process([first])
            let before = try #require(try await fixture.state("o"))
            try await fixture.redis.completeView()
            #expect(try await self.sweep(fixture).cold == 1)
            let processor = try self.processor(fixture, cold)
            try await processor.process([first])
            #expect(try await self.isCold(fixture, "o"), "there is nothing to write")
            #expect(try await fixture.count(fixture.topics.orders) == 1)
            // A change that says nothing new advances the positions, which its record does not have.
            try await processor.process([log.change("order.replaced", "o", self.ended())])
            #expect(try await !self.isCold(fixture, "o"))
            let (cold, tally) = try await self.sweep(fixture)
            #expect(cold == 0)
            #expect(tally.unplaced == 1)
            let after = try #require(try await fixture.state("o"))
            #expect(after.version == before.version)
            #expect(after.positions != before.positions)
            // It was published again, silently, with its positions.
            #expect(tally.published == 1)
            let records = try await fixture.read(fixture.topics.orders, 2)
            #expect(records[1].header(RecordHeader.silent.rawValue) == "1")
            #expect(try await self.sweep(fixture).cold == 1)
        }
    }

    /// Orders that Kafka lost, or whose records nobody knows, are published again and cool then.
    @Test func ordersThatCannotCoolArePublishedAgain() async throws {
        try await self.run { fixture, cold in
            var log = ChangeLog()
            let names = ["lost", "unknown", "untold", "moved", "sound"]
            try await fixture.processor().process(names.map { log.change("order.replaced", $0, self.ended()) })
            try await fixture.redis.completeView()
            func set(_ order: String, _ field: RedisArgument, _ value: String) async throws {
                let key = RedisArgument.string("waybill:1:order:{\(try ChangeLog.key(order))}")
                _ = try await fixture.redis.send(RedisCommand("HSET", key, field, .string(value)))
            }
            let place = try #require(
                try await fixture.redis.send(
                    RedisCommand("HGET", .string("waybill:1:order:{\(try ChangeLog.key("moved"))}"), "record")
                ).text)
            try await set("lost", "record", "0:77:5:00000000:ended")
            try await set("unknown", "record", "-")
            try await set("untold", "record", "-")
            try await set("untold", "told", "")
            // The same offset of another cluster.
            let numbers = place.split(separator: ":")[..<3].joined(separator: ":")
            try await set("moved", "record", "\(numbers):00000001:ended")
            #expect(try await self.sweep(fixture, isReady: false).cold == 0, "a packager that is not ready cools none")
            let (first, tally) = try await self.sweep(fixture)
            #expect(first == 1)
            #expect(tally.differing == 2)
            #expect(tally.unplaced == 2)
            #expect(tally.published == 4)
            for order in names {
                #expect(try await self.isCold(fixture, order) == (order == "sound"))
            }
            let again = try await fixture.read(fixture.topics.orders, 9).dropFirst(5)
            let loud = again.filter { $0.header(RecordHeader.silent.rawValue) == nil }
            #expect(loud.map(\.keyText) == ["\(try ChangeLog.key("untold"))"], "devices may not know of it")
            let (second, rest) = try await self.sweep(fixture)
            #expect(second == 5)
            #expect(rest.published == 0)
            let store = cold.store(fixture.redis)
            for result in try await store.orders(names.map(ChangeLog.key)) {
                let order = try #require(try result.get())
                #expect(order.isCold && order.isPublished)
                #expect(order.state.version.ordinal == 1)
            }
        }
    }

    @Test func aColdOrderIsPackagedWhenItIsAskedFor() async throws {
        try await self.run { fixture, cold in
            var log = ChangeLog()
            let names = (0..<40).map { "o\($0)" }
            try await self.cool(fixture, &log, names)
            let repackager = try self.repackager(fixture, cold)
            let keys = try names.map { try ChangeLog.key($0) }
            #expect(try await repackager.package(requested: keys) == names.map { _ in .signed })
            #expect(fixture.counter("waybill_cold_orders_read_total") == 40)
            #expect(try await repackager.package(requested: keys) == names.map { _ in .current })
            let directory = try TemporaryDirectory("cold")
            let root = try directory.write("root.pem", fixture.brandFixture.rootPEM)
            let archive = try #require(try await StoredArchive.read(keys[7], from: fixture.redis))
            _ = try archive.verify(root: root)
            #expect(try await fixture.count(fixture.topics.orders) == 40, "devices need not be notified")
        }
    }

    /// A record that is not there fails its order alone.
    @Test func anOrderWhoseRecordIsGoneWaitsAndOthersDoNot() async throws {
        try await self.run { fixture, cold in
            var log = ChangeLog()
            try await self.cool(fixture, &log, ["lost", "o"])
            let key = RedisArgument.string("waybill:1:order:{\(try ChangeLog.key("lost"))}")
            for place in ["0:1:5:00000000:ended", "0:77:5:00000000:ended"] {
                _ = try await fixture.redis.send(RedisCommand("HSET", key, "record", .string(place)))
                let keys = try ["lost", "o"].map(ChangeLog.key)
                let outcomes = try await self.repackager(fixture, cold).package(requested: keys)
                guard case .postponed(let reason) = outcomes[0] else {
                    Issue.record("\(outcomes[0])")
                    continue
                }
                #expect(reason.contains("run waybill-packager restore"))
                #expect([.signed, .current].contains(outcomes[1]))
            }
            let processor = try self.processor(fixture, cold)
            let works = KeyedWork.each(of: [log.change("order.patched", "lost", ["orderNumber": "9"])])
            #expect(await processor.process(works) != [.done], "the change waits")
            #expect(try await fixture.count(fixture.topics.deadLetters) == 0)
            // As after a move to another cluster.
            var restorer = fixture.restorer
            restorer.cooling = Cooling(after: .seconds(7 * 86_400))
            try await restorer.restore(try await fixture.read(fixture.topics.orders, 2))
            #expect(await processor.process(works) == [.done])
            #expect(try await fixture.state("lost")?.document.members["orderNumber"] == "9")
        }
    }

    @Test func coldOrdersAreRestoredAsPlaces() async throws {
        try await self.run { fixture, cold in
            var log = ChangeLog()
            try await self.cool(fixture, &log, ["o", "p"])
            try await fixture.processor().process([log.change("order.replaced", "open", ChangeLog.document())])
            let store = cold.store(fixture.redis)
            let keys = try ["o", "p", "open"].map(ChangeLog.key)
            let before = try await store.orders(keys).map { try $0.get()?.state }
            _ = try await fixture.redis.send(RedisCommand("FLUSHALL"))
            var restorer = fixture.restorer
            restorer.cooling = Cooling(after: .seconds(7 * 86_400))
            restorer.now = { ChangeLog.noon + 2 * 86_400 }
            try await restorer.restore(try await fixture.read(fixture.topics.orders, 3))
            #expect(try await self.isCold(fixture, "o"))
            #expect(try await self.isCold(fixture, "p"))
            #expect(try await !self.isCold(fixture, "open"), "it may go on")
            #expect(try await store.orders(keys).map { try $0.get()?.state } == before)
        }
    }

    @Test func aRemovalEndsAColdOrder() async throws {
        try await self.run { fixture, cold in
            var log = ChangeLog()
            try await self.cool(fixture, &log, ["o"])
            try await self.processor(fixture, cold).process([log.change("order.removed", "o", nil)])
            #expect(try await fixture.state("o")?.isRemoved == true)
        }
    }
}
