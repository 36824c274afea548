import CoreMetrics
import Kafka
import Logging
import Model
import NIOCore
import NIOPosix
import Operations
import Packaging
import Redis
import ServiceLifecycleTestKit
import Store
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Brands
@testable import Packager

extension OrderRepackager {
    /// Makes the packages of warm and cold orders.
    ///
    /// - Returns: one outcome per key, in order.
    func package(requested keys: [OrderKey]) async throws -> [Outcome] {
        let (warm, cold) = try await self.package(warm: keys)
        let outcomes = Dictionary(uniqueKeysWithValues: try await warm + self.package(cold: cold))
        return try keys.map { try #require(outcomes[$0]) }
    }
}

/// Orders whose records Kafka does not give, or has lost: they alone wait, and a change that needs nothing of them is
/// applied.
@Suite(.server, .timeLimit(.minutes(2))) struct UnreadableOrderTests {
    private static let month: Int64 = 30 * 24 * 3600
    private static let noTraces = #"{"partitions":[],"sequences":[]}"#

    /// A reader of records that has no answer for some orders.
    private final class Records: Sendable {
        private let silent = Mutex<Set<OrderKey>>([])
        /// Set when a silent order is read.
        let reached = Flag()
        /// The reads of silent orders end when it is set.
        let released = Flag()

        func silence(_ orders: [String]) throws {
            let keys = Set(try orders.map(ChangeLog.key))
            self.silent.withLock { $0 = keys }
        }

        func store(_ redis: RedisClient, _ cold: ColdOrders) -> OrderStore {
            OrderStore(redis: redis) { orders in
                let silent = self.silent.withLock { $0 }
                if orders.contains(where: { silent.contains($0.key) }) {
                    self.reached.set()
                    try? await eventually("the end of the wait") { self.released.isSet }
                }
                return zip(orders, await cold.records(orders)).map { order, found in
                    silent.contains(order.key) ? .failure(KafkaError(.timedOut, "reading waybill.orders/0")) : found
                }
            }
        }
    }

    private func run(
        _ body: @escaping @Sendable (PackagerFixture, Records, OrderStore) async throws -> Void
    ) async throws {
        try await PackagerFixture.run { fixture in
            let cold = ColdOrders(
                topic: fixture.topics.orders, KafkaConfiguration(bootstrap: fixture.broker.bootstrap), fixture.metrics)
            let records = Records()
            try await withCleanup(cold.close) {
                try await body(fixture, records, records.store(fixture.redis, cold))
            }
        }
    }

    private func processor(_ fixture: PackagerFixture, _ store: OrderStore) throws -> ChangeProcessor {
        var processor = try fixture.processor(store: store)
        processor.policy = .followed
        processor.now = { (ChangeLog.noon + Self.month) * 1000 }
        return processor
    }

    private func repackager(
        _ fixture: PackagerFixture, _ store: OrderStore, _ packager: OrderPackager? = nil
    ) throws -> OrderRepackager {
        let brand = fixture.brandFixture.brand
        let packager = try packager ?? OrderPackager(brand, tokens: try BrandFixture.tokens())
        return OrderRepackager(
            topics: fixture.topics, store: store, producer: fixture.producer,
            packagers: { [brand.orderType: packager] })
    }

    /// Publishes orders that ended, and leaves of them in Redis what it keeps of cold ones.
    private func cool(_ fixture: PackagerFixture, _ log: inout ChangeLog, _ orders: [String]) async throws {
        try await fixture.processor().process(
            orders.map { log.change("order.replaced", $0, ChangeLog.document(extra: [("status", "completed")])) })
        for order in orders {
            let fields: [RedisArgument] = [
                "document", "sources", "recent", "contributions", "etag", "head", "assets", "tail", "signer", "content",
            ]
            _ = try await fixture.redis.send(RedisCommand(["HDEL", try self.hash(order)] + fields))
        }
    }

    /// Publishes two versions of an order, of which the last one has no package.
    private func leave(_ fixture: PackagerFixture, _ log: inout ChangeLog, _ order: String) async throws {
        let processor = try self.processor(fixture, OrderStore(redis: fixture.redis))
        for number in ["1", "2"] {
            try await processor.process([log.change("order.replaced", order, ChangeLog.document(number))])
        }
    }

    private func hash(_ order: String) throws -> RedisArgument {
        .string("waybill:1:order:{\(try ChangeLog.key(order))}")
    }

    @Test func aChangeOfAWarmOrderIsNotBehindOneOfAColdOrder() async throws {
        try await self.run { fixture, records, store in
            var log = ChangeLog()
            try await self.cool(fixture, &log, ["cold", "dead"])
            try await fixture.processor().process([log.change("order.replaced", "warm", ChangeLog.document())])
            try records.silence(["dead"])
            let works = KeyedWork.each(
                of: ["dead", "cold", "warm"].map { log.change("order.patched", $0, ["orderNumber": "9"]) })
            let processor = try self.processor(fixture, store)
            async let outcomes = processor.process(works)
            // Published while the cold ones are waited for.
            try await eventually("the warm one") { try await fixture.count(fixture.topics.orders) == 4 }
            #expect(try await fixture.state("warm")?.version.ordinal == 2)
            records.released.set()
            let ended = await outcomes
            guard case .later(let reason) = ended[0] else {
                Issue.record("\(ended[0])")
                return
            }
            #expect(reason.contains("waybill.orders/0"))
            #expect(ended.dropFirst() == [.done, .done])
            #expect(try await fixture.count(fixture.topics.deadLetters) == 0)
            try records.silence([])
            #expect(await processor.process([works[0]]) == [.done])
        }
    }

    @Test func packagesOfWarmOrdersAreMadeWhileAColdOneIsWaitedFor() async throws {
        try await self.run { fixture, records, store in
            var log = ChangeLog()
            try await self.cool(fixture, &log, ["dead"])
            for order in ["a", "b"] { try await self.leave(fixture, &log, order) }
            try records.silence(["dead"])
            let requests = PackageRequests(redis: fixture.redis)
            let own = RedisClient(
                waiting: try RedisConfiguration(url: fixture.server.url),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
            let service = RequestedPackages(
                requests: PackageRequests(redis: own), repackager: try self.repackager(fixture, store),
                requested: PackagerMetrics(factory: fixture.metrics).packagesRequested,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            ) {
                await own.close()
            }
            try await testGracefulShutdown { trigger in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await service.run() }
                    let loop = MultiThreadedEventLoopGroup.singleton.next()
                    // More often than there are batches in hand.
                    for _ in 0..<6 {
                        try await requests.add(try ChangeLog.key("dead"), on: loop).get()
                        try await eventually("the read") {
                            let left = try await fixture.redis.send(RedisCommand("EXISTS", "waybill:1:{requests}"))
                            return left.integer == 0 && records.reached.isSet
                        }
                    }
                    for order in ["a", "b"] {
                        try await requests.add(try ChangeLog.key(order), on: loop).get()
                        try await eventually("its package") { try await fixture.stored(order)?.isPackaged == true }
                    }
                    records.released.set()
                    trigger.triggerGracefulShutdown()
                    try await group.waitForAll()
                }
            }
            #expect(fixture.counter("waybill_packages_requested_total") == 2)
        }
    }

    @Test func anOrderThatCannotBeReadIsPostponedAlone() async throws {
        try await self.run { fixture, records, store in
            var log = ChangeLog()
            try await self.cool(fixture, &log, ["dead", "cold"])
            try await fixture.processor().process([log.change("order.replaced", "warm", ChangeLog.document())])
            records.released.set()
            try records.silence(["dead"])
            let keys = try ["dead", "cold", "warm"].map(ChangeLog.key)
            let repackager = try self.repackager(fixture, store)
            let repackaged = try await repackager.repackage(keys, evenIfCurrent: true)
            for outcomes in [repackaged, try await repackager.package(requested: keys)] {
                guard case .postponed(let reason) = outcomes[0] else {
                    Issue.record("\(outcomes[0])")
                    continue
                }
                #expect(reason.contains("waybill.orders/0"))
                #expect(outcomes.postponed(of: keys) == [keys[0]])
            }
        }
    }

    /// A certificate that cannot sign is no fault of the orders that are asked for with it.
    @Test func anOrderThatCannotBeSignedIsPostponedAlone() async throws {
        try await self.run { fixture, _, store in
            var log = ChangeLog()
            for order in ["good", "bad"] { try await self.leave(fixture, &log, order) }
            let brand = fixture.brandFixture.brand
            let builder = PackageBuilder(brand)
            let packager = OrderPackager(brand, tokens: try BrandFixture.tokens()) {
                (order, pictures, seconds) throws(PackagingError) in
                guard order.object?["orderIdentifier"] != "bad" else { throw PackagingError(.signing, "expired") }
                return try builder.build(order, pictures: pictures, signingEpochSeconds: seconds)
            }
            let keys = try ["bad", "good"].map(ChangeLog.key)
            let outcomes = try await self.repackager(fixture, store, packager).package(requested: keys)
            #expect(outcomes.postponed(of: keys) == [keys[0]])
            #expect(outcomes[1] == .signed)
            let unable = OrderPackager(brand, tokens: try BrandFixture.tokens()) { (_, _, _) throws(PackagingError) in
                throw PackagingError(.signing, "expired")
            }
            await #expect(throws: PackagingError.self) {
                try await self.repackager(fixture, store, unable).repackage(keys, evenIfCurrent: true)
            }
        }
    }

    /// It may be older than the last one that was published, if Redis fell back.
    @Test func aVersionIsNotAnnouncedBySomebodyWhoPackagesIt() async throws {
        try await self.run { fixture, _, store in
            var log = ChangeLog()
            try await self.leave(fixture, &log, "o")
            let version = try #require(try await fixture.state("o")?.version)
            _ = try await fixture.redis.send(
                RedisCommand("HSET", try self.hash("o"), "unpublished", .integer(version)))
            let before = try await fixture.count(fixture.topics.orders)
            let keys = [try ChangeLog.key("o")]
            #expect(try await self.repackager(fixture, store).package(requested: keys) == [.signed])
            #expect(try await fixture.count(fixture.topics.orders) == before)
            _ = try await self.repackager(fixture, store).repackage(keys)
            #expect(try await fixture.count(fixture.topics.orders) == before + 1)
        }
    }

    /// The document of the order is a damaged one, or its record is not there.
    @Test(arguments: [true, false])
    func aRemovalAndAReplacementNeedNoReadableOrder(isDamaged: Bool) async throws {
        try await self.run { fixture, _, store in
            var log = ChangeLog()
            let orders = ["removed", "replaced", "both", "patched"]
            try await self.cool(fixture, &log, orders)
            for order in orders {
                let field: [RedisArgument] = isDamaged ? ["document", "{"] : ["record", "0:99:5:00000000:ended"]
                _ = try await fixture.redis.send(RedisCommand(["HSET", try self.hash(order)] + field))
                if isDamaged {
                    _ = try await fixture.redis.send(
                        RedisCommand(
                            "HSET", try self.hash(order), "sources", .string(Self.noTraces), "recent", "", "record", "")
                    )
                }
            }
            log.timestamp += 1000
            // The traces of a damaged order can be read here, so any change is known as a new one.
            let time = isDamaged ? nil : ChangeLog.noon + 1
            let works = KeyedWork.each(of: [
                log.change("order.removed", "removed", nil, time: time),
                log.change("order.replaced", "replaced", ChangeLog.document("9"), time: time),
                log.change("order.patched", "both", ["orderNumber": "8"]),
                log.change("order.replaced", "both", ChangeLog.document("9"), time: time),
                log.change("order.patched", "both", ["orderNumber": "10"]),
                log.change("order.patched", "patched", ["orderNumber": "9"]),
            ])
            let outcomes = try await self.processor(fixture, store).process(works)
            #expect(outcomes.prefix(3) == [.done, .done, .done], "\(outcomes)")
            #expect(try await fixture.state("removed")?.isRemoved == true)
            for (order, number) in [("replaced", "9"), ("both", "10")] {
                let state = try #require(try await fixture.state(order))
                #expect(state.document.members["orderNumber"] == .string(number))
                #expect(state.version.ordinal == 2, "above the one that devices have")
            }
            // Its patch needs the order: it waits for a restore, or is a dead letter.
            #expect((outcomes[3] == .done) == isDamaged)
            #expect(try await fixture.count(fixture.topics.deadLetters) == (isDamaged ? 1 : 0))
            #expect(try await fixture.count(fixture.topics.orders) == 7)
        }
    }

    /// The traces that would tell a repetition cannot be read: after a move to another cluster all changes come again,
    /// and a publisher may send one again later than the version.
    @Test(arguments: [(seconds: 0, time: 1), (1, nil), (1, 0)] as [(seconds: Int64, time: Int64?)])
    func aReplacementThatMayBeInAnUnreadableOrderWaits(seconds: Int64, time: Int64?) async throws {
        try await self.run { fixture, _, store in
            var log = ChangeLog()
            try await self.cool(fixture, &log, ["o"])
            _ = try await fixture.redis.send(
                RedisCommand("HSET", try self.hash("o"), "record", "0:99:5:00000000:ended"))
            log.timestamp += seconds * 1000
            let change = log.change(
                "order.replaced", "o", ChangeLog.document("0"), time: time.map { ChangeLog.noon + $0 })
            let outcomes = try await self.processor(fixture, store).process(KeyedWork.each(of: [change]))
            guard case .later = outcomes[0] else {
                Issue.record("\(outcomes)")
                return
            }
            #expect(try await fixture.count(fixture.topics.orders) == 1)
        }
    }

    /// Nothing is written of an order whose document is not known.
    @Test(arguments: [true, false])
    func aReplacementThatIsRefusedLeavesAnUnreadableOrder(isDamaged: Bool) async throws {
        try await self.run { fixture, _, store in
            var log = ChangeLog()
            try await self.cool(fixture, &log, ["o", "p"])
            for order in ["o", "p"] {
                let field: [RedisArgument] =
                    isDamaged
                    ? ["document", "{", "sources", .string(Self.noTraces), "recent", "", "record", ""]
                    : ["record", "0:99:5:00000000:ended"]
                _ = try await fixture.redis.send(RedisCommand(["HSET", try self.hash(order)] + field))
            }
            log.timestamp += 1000
            let time = ChangeLog.noon + 1
            let invalid = ChangeLog.document("2", extra: [("colour", "green")])
            let works = KeyedWork.each(of: [
                log.change("order.replaced", "o", invalid, time: time),
                log.change("order.patched", "o", ["orderNumber": "3"]),
                log.change("order.replaced", "p", invalid, time: time),
            ])
            let before = try await fixture.redis.send(RedisCommand("HGETALL", try self.hash("o")))
            let outcomes = try await self.processor(fixture, store).process(works)
            #expect(outcomes.map { $0 == .done } == [isDamaged, isDamaged], "\(outcomes)")
            #expect(try await fixture.count(fixture.topics.deadLetters) == (isDamaged ? 3 : 0))
            #expect(try await fixture.count(fixture.topics.orders) == 2)
            #expect(try await fixture.redis.send(RedisCommand("HGETALL", try self.hash("o"))) == before)
        }
    }

    /// A version that is to be announced and cannot be read keeps no other one back.
    @Test func anUnreadableOrderIsAnnouncedLater() async throws {
        try await self.run { fixture, records, store in
            var log = ChangeLog()
            try await self.cool(fixture, &log, ["dead", "cold"])
            records.released.set()
            try records.silence(["dead"])
            let publisher = VersionPublisher(topics: fixture.topics, store: store, producer: fixture.producer)
            let keys = try ["dead", "none", "cold"].map(ChangeLog.key)
            let unread = try await publisher.announce(keys)
            #expect(Set(unread.keys) == Set(keys.prefix(2)))
            #expect(unread[keys[0]]?.contains("waybill.orders/0") == true)
            #expect(try await fixture.count(fixture.topics.orders) == 3)
        }
    }

    /// Orders that only cannot be read now are not damaged: the commands are to be run again.
    @Test func commandsTellUnreadOrdersFromDamagedOnes() async throws {
        try await self.run { fixture, records, store in
            var log = ChangeLog()
            try await self.cool(fixture, &log, ["dead", "lost", "cold"])
            let values = try await fixture.read(fixture.topics.orders, 3).map { ($0.key ?? [], $0.value ?? []) }
            _ = try await fixture.redis.send(
                RedisCommand("HSET", try self.hash("lost"), "record", "0:99:5:00000000:ended"))
            records.released.set()
            try records.silence(["dead"])
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let expiry = ExpireRun(
                topics: fixture.topics, scan: OrderScan(redis: fixture.redis), store: store, producer: nil,
                logger: logger, now: { (ChangeLog.noon + Self.month) * 1000 }, report: { _, _ in })
            let expired = try await expiry.run(
                fixture.brandFixture.brand.orderType, OrderRetention(endedDays: 1))
            #expect(expired == .init(read: 3, removed: 1, damaged: 1, unread: 1))
            let reader = try KafkaReader(KafkaConfiguration(bootstrap: fixture.broker.bootstrap))
            try await withCleanup(reader.close) {
                let run = RekeyRun(reader: reader, producer: fixture.producer, logger: logger) { _, _ in }
                let moved = try await OrderMove(run: run, store: store, topics: fixture.topics).move(
                    Dictionary(values) { first, _ in first }, from: 0)
                #expect(moved == .init(moved: 1, left: 1, unread: 1))
            }
            // Those that are not moved have no tombstone in their old partition.
            #expect(try await fixture.count(fixture.topics.orders) == 5)
        }
    }
}

@Suite struct ColdRoomTests {
    private func request(_ partition: Int32, _ bytes: Int) throws -> OrderRepackager.ColdRequest {
        .init(order: BatchOrder(place: 0, key: try ChangeLog.key("o")), partition: partition, bytes: bytes)
    }

    @Test func ordersAreReadByPartitionsWithinALimit() throws {
        var room = ColdRoom()
        let shares = room.enter(try [(1, 10), (2, 20), (1, 30)].map { try self.request($0, $1) })
        #expect(Set(shares.map(\.bytes)) == [40, 20])
        #expect(room.count == 2 && room.bytes == 60)
        let refused = room.enter([try self.request(3, ColdRoom.byteLimit)])
        #expect(refused.isEmpty)
        for share in shares { room.leave(share) }
        let large = room.enter([try self.request(3, ColdRoom.byteLimit * 2)])
        #expect(large.count == 1, "one alone may be larger")
        room.leave(large[0])
        let many = room.enter(try (0..<100).map { try self.request($0, 1) })
        #expect(many.count == ColdRoom.limit)
    }

    @Test func anOrderIsLoggedOnceAMinute() throws {
        var log = RequestLog()
        let now = ContinuousClock.now
        let key = try ChangeLog.key("o")
        let lines = [0, 59, 60, 61].map { log.isDue(key, now: now + .seconds($0)) }
        #expect(lines == [true, false, true, false])
        let others = try (0..<2000).map { log.isDue(try ChangeLog.key("\($0)"), now: now + .seconds(62)) }
        #expect(others.count { $0 } == RequestLog.limit - 1)
        let later = log.isDue(try ChangeLog.key("1999"), now: now + .seconds(130))
        #expect(later)
    }
}
