import Brands
import CoreMetrics
import Kafka
import Logging
import Model
import NIOCore
import NIOPosix
import Packaging
import Redis
import ServiceLifecycleTestKit
import TestKit
import TestTraits
import Testing

@testable import Packager
@testable import Store

/// Versions without a package: which ones, and how they are packaged when somebody asks.
@Suite(.server, .timeLimit(.minutes(2))) struct UnpackagedTests {
    private func processor(_ fixture: PackagerFixture) throws -> ChangeProcessor {
        var processor = try fixture.processor()
        processor.policy = .followed
        return processor
    }

    private func repackager(_ fixture: PackagerFixture, now: Int64 = ChangeLog.noon + 60) throws -> OrderRepackager {
        let brand = fixture.brandFixture.brand
        let packager = OrderPackager(brand, tokens: try BrandFixture.tokens())
        var repackager = OrderRepackager(
            topics: fixture.topics, store: OrderStore(redis: fixture.redis), producer: fixture.producer,
            packagers: { [brand.orderType: packager] })
        repackager.now = { now * 1000 }
        return repackager
    }

    /// Publishes the first version of an order, and a second one.
    private func twoVersions(_ fixture: PackagerFixture, _ log: inout ChangeLog, _ order: String = "o") async throws {
        let processor = try self.processor(fixture)
        try await processor.process([log.change("order.replaced", order, ChangeLog.document())])
        try await processor.process([log.change("order.replaced", order, ChangeLog.document("2"))])
    }

    private func register(_ fixture: PackagerFixture, _ order: String) async throws {
        let device = RegistrationKey(device: try DeviceIdentifier("d"), order: try ChangeLog.key(order))
        _ = try await Registrations(redis: fixture.redis).register(
            device, RegistrationRecord(pushToken: try PushToken("ab12"), registeredEpochMilliseconds: 1))
    }

    @Test func theFirstVersionIsPackagedAndALaterOneIsNot() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            try await self.twoVersions(fixture, &log)
            #expect(fixture.counter("waybill_packages_built_total") == 1)
            #expect(fixture.counter("waybill_packages_left_total") == 1)
            let stored = try #require(try await fixture.stored("o"))
            #expect(stored.state.version.ordinal == 2)
            #expect(!stored.isPackaged)
            let key = RedisArgument.string("waybill:1:order:{\(try ChangeLog.key("o"))}")
            for field in ["head", "tail", "assets", "etag", "signer", "content"] {
                let exists = try await fixture.redis.send(RedisCommand("HEXISTS", key, .string(field)))
                #expect(exists.integer == 0, "\(field) is of the version before")
            }
            let records = try await fixture.read(fixture.topics.orders, 2)
            let told = try records.map { try OrderRecord.decode(try #require($0.value)) }
            #expect(told[0].content != nil)
            #expect(told[1].content == nil)
            #expect(told[1].state(key: try ChangeLog.key("o")) == stored.state)
        }
    }

    @Test func anOrderWithADeviceIsPackagedWithItsChange() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try self.processor(fixture)
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document())])
            try await self.register(fixture, "o")
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document("2"))])
            #expect(try await fixture.stored("o")?.isPackaged == true)
            #expect(fixture.counter("waybill_packages_left_total") == 0)
        }
    }

    @Test func aPackageThatIsAskedForHasTheSameVersionAndFollowingOnesToo() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            try await self.twoVersions(fixture, &log)
            let key = try ChangeLog.key("o")
            let before = try #require(try await fixture.stored("o"))
            let keys = [key, try ChangeLog.key("unknown")]
            #expect(try await self.repackager(fixture).package(requested: keys) == [.signed, .absent])
            #expect(try await self.repackager(fixture).package(requested: [key]) == [.current])
            let after = try #require(try await fixture.stored("o"))
            #expect(after.state == before.state)
            #expect(try await fixture.count(fixture.topics.orders) == 2, "devices need not be notified")
            let directory = try TemporaryDirectory("requested")
            let root = try directory.write("root.pem", fixture.brandFixture.rootPEM)
            let archive = try #require(try await StoredArchive.read(key, from: fixture.redis))
            _ = try archive.verify(root: root)
            let order = try JSON(parsing: try archive.file("order.json"))
            #expect(order.object?["orderNumber"] == ChangeLog.document("2").object?["orderNumber"])

            // The order was asked for a minute ago.
            var processor = try self.processor(fixture)
            processor.now = { (ChangeLog.noon + 120) * 1000 }
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document("3"))])
            #expect(try await fixture.stored("o")?.isPackaged == true)
            processor.now = { (ChangeLog.noon + 2 * 24 * 3600) * 1000 }
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document("4"))])
            #expect(try await fixture.stored("o")?.isPackaged == false)
        }
    }

    @Test func resigningLeavesAVersionWithoutAPackageAlone() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            try await self.twoVersions(fixture, &log)
            let repackager = try self.repackager(fixture)
            #expect(try await repackager.repackage([try ChangeLog.key("o")], evenIfCurrent: true) == [.current])
            #expect(try await fixture.count(fixture.topics.orders) == 2)
        }
    }

    @Test func aSilentFirstVersionIsNotPackaged() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let record = log.change("order.replaced", "o", ChangeLog.document(), isSilent: true)
            try await self.processor(fixture).process([record])
            #expect(try await fixture.stored("o")?.isPackaged == false)
            #expect(try await self.repackager(fixture).package(requested: [try ChangeLog.key("o")]) == [.signed])
        }
    }

    @Test func aChangeThatMakesThePackageTooLargeIsRefusedAtOnce() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            try await self.twoVersions(fixture, &log)
            let key = try ChangeLog.key("o")
            #expect(try await self.repackager(fixture).package(requested: [key]) == [.signed])
            let packager = OrderPackager(fixture.brandFixture.brand, tokens: try BrandFixture.tokens())
            let stored = try #require(try await fixture.stored("o"))
            let changes = [log.change("order.patched", "o", ["orderNumber": "9"])]
            func fold(_ packager: OrderPackager, _ recordBytes: Int) throws -> OrderDraft {
                let works = KeyedWork.each(of: changes)
                let order = try #require(ChangeBatch(works) { _ in .served }.orders.first)
                return packager.fold(
                    order, stored: stored, nowEpochSeconds: ChangeLog.noon + 3 * 24 * 3600, recordBytes: recordBytes
                ) { _ in true }
            }
            #expect(try fold(packager, 1 << 20).record != nil)
            #expect(try fold(packager, 100).record == nil, "its record would be too large")
            let unsure = OrderPackager(fixture.brandFixture.brand, tokens: try BrandFixture.tokens()) {
                (_, _, _) throws(PackagingError) in throw PackagingError(.tooLarge, "too large")
            }
            #expect(try fold(unsure, 1 << 20).record == nil)
        }
    }

    @Test func aLostVersionWithoutAPackageIsRestoredWithoutOne() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            try await self.twoVersions(fixture, &log)
            let before = try await fixture.state("o")
            let records = try await fixture.read(fixture.topics.orders, 2)
            _ = try await fixture.redis.send(RedisCommand("FLUSHALL"))
            let restorer = fixture.restorer
            // The first record alone, as after a fall-back: what was in its package is not what the next one has.
            try await restorer.restore(Array(records.prefix(1)))
            #expect(try await fixture.stored("o")?.contentIfKnown != nil)
            try await restorer.restore(records)
            #expect(try await fixture.stored("o")?.contentIfKnown == nil)
            #expect(try await fixture.state("o") == before)
            #expect(try await fixture.stored("o")?.isPackaged == false)
            #expect(try await self.repackager(fixture).package(requested: [try ChangeLog.key("o")]) == [.signed])
        }
    }

    @Test func theServiceMakesWhatIsAskedForUntilItStops() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            try await self.twoVersions(fixture, &log)
            let requests = PackageRequests(redis: fixture.redis)
            let own = RedisClient(
                waiting: try RedisConfiguration(url: fixture.server.url),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
            let metrics = PackagerMetrics(factory: fixture.metrics)
            let service = RequestedPackages(
                requests: PackageRequests(redis: own), repackager: try self.repackager(fixture),
                requested: metrics.packagesRequested, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            ) {
                await own.close()
            }
            try await testGracefulShutdown { trigger in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await service.run() }
                    let loop = MultiThreadedEventLoopGroup.singleton.next()
                    try await requests.add(try ChangeLog.key("o"), epochMilliseconds: 1, on: loop).get()
                    try await eventually("its package") { try await fixture.stored("o")?.isPackaged == true }
                    trigger.triggerGracefulShutdown()
                    try await group.waitForAll()
                }
            }
            #expect(fixture.counter("waybill_packages_requested_total") == 1)
        }
    }
}

@Suite struct PackagePolicyTests {
    private func order(devices: Bool = false, requested: Int64 = 0, isRemoved: Bool = false) throws
        -> OrderStore.StoredOrder
    {
        var order = OrderStore.StoredOrder(
            state: OrderState(
                key: try ChangeLog.key("o"), document: OrderDocument(members: [:]),
                token: try AuthenticationToken("0123456789abcdef"), version: 1, modifiedEpochSeconds: 1,
                isRemoved: isRemoved),
            revision: 1, entityTag: "e", shared: [])
        (order.hasDevices, order.requestedEpochSeconds) = (devices, requested)
        return order
    }

    @Test func aVersionIsLeftIfNobodyFollowsItsOrder() throws {
        let now: Int64 = 1_700_000_000
        func leaves(_ order: OrderStore.StoredOrder?, silent: Bool = false, _ policy: PackagePolicy = .followed) -> Bool
        {
            policy.leavesPackage(after: order, isSilent: silent, nowEpochSeconds: now)
        }
        #expect(!leaves(nil))
        #expect(leaves(nil, silent: true))
        #expect(leaves(try self.order()))
        #expect(!leaves(try self.order(devices: true)))
        #expect(!leaves(try self.order(requested: now - 24 * 3600 + 1)))
        #expect(leaves(try self.order(requested: now - 24 * 3600)))
        #expect(!leaves(try self.order(isRemoved: true)), "its next version is a first one")
        for order in [nil, try self.order()] { #expect(!leaves(order, silent: true, .always)) }
    }
}
