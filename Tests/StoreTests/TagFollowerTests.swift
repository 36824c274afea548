import Model
import NIOCore
import NIOPosix
import Redis
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Store

/// A device that follows only tags. One test at a time: each has its own server.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct TagFollowerTests {
    /// The knowledge of a device: it asks which orders changed, and fetches those.
    struct Device {
        let identifier: DeviceIdentifier
        var tag = ""
        var versions: [OrderIdentifier: Int64] = [:]

        /// - Returns: whether there was something to fetch.
        mutating func poll(_ fixture: StoreFixture) async throws -> Bool {
            guard let changes = try await fixture.changes(self.identifier, self.tag) else { return false }
            self.tag = changes.tag
            try await self.fetch(changes.orders, fixture)
            return true
        }

        mutating func fetch(_ orders: [OrderIdentifier], _ fixture: StoreFixture) async throws {
            let stamps = try orders.map { fixture.reader.stamp(of: try key($0.rawValue), on: fixture.loop) }
            for (order, stamp) in zip(orders, stamps) { self.versions[order] = try await stamp.get()?.version }
        }

        /// Fetches an order and then registers for it, as Wallet does.
        mutating func follow(_ order: String, _ fixture: StoreFixture) async throws {
            try await self.fetch([OrderIdentifier(order)], fixture)
            let key = RegistrationKey(device: self.identifier, order: try key(order))
            _ = try await fixture.registrations.register(key, record("aa"))
        }
    }

    private final class Counter: Sendable {
        let value = Atomic(0)
    }

    /// One device has so many orders that reading them takes several turns of the server. Writers have their own
    /// connections, so that their writes fall in between. The device learns of half of the orders on the way.
    @Test(arguments: [UInt64(11), 12])
    func aDeviceFollowingTagsLearnsEveryLatestVersion(seed: UInt64) async throws {
        try await StoreFixture.with { fixture in
            var random = SeededGenerator(seed: seed)
            var device = Device(identifier: try DeviceIdentifier("device"))
            let orders = (0..<1200).map { "o\($0)" }
            _ = try await fixture.write(try orders.map { try version($0, 1) })
            for order in orders[..<600] { try await device.follow(order, fixture) }
            var later = orders[600...]
            let shares = (0..<4).map { writer in
                orders.enumerated().filter { $0.offset % 4 == writer }.map(\.element).shuffled(using: &random)
            }
            let last = Int64(6)
            let done = Counter()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for share in shares {
                    group.addTask {
                        let redis = RedisClient(
                            try RedisConfiguration(url: fixture.server.url),
                            eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
                        for round in 2...last {
                            for order in share {
                                let outcomes = try await StoreFixture(server: fixture.server, redis: redis)
                                    .write([try version(order, round)])
                                #expect(outcomes == [.written])
                            }
                        }
                        await redis.close()
                        done.value.wrappingAdd(1, ordering: .relaxed)
                    }
                }
                while done.value.load(ordering: .relaxed) < shares.count {
                    for order in later.prefix(20) { try await device.follow(order, fixture) }
                    later = later.dropFirst(20)
                    _ = try await device.poll(fixture)
                }
                try await group.waitForAll()
            }
            for order in later { try await device.follow(order, fixture) }
            while try await device.poll(fixture) {}
            let behind = try orders.filter { device.versions[try OrderIdentifier($0)] != last }
            #expect(behind.isEmpty, "seed \(seed): \(behind.count) orders are not up to date")
        }
    }

    /// The order changes between its fetch and its registration, and another change gives the device a tag above that.
    @Test func aChangeBetweenFetchAndRegistrationIsReported() async throws {
        try await StoreFixture.with { fixture in
            var device = Device(identifier: try DeviceIdentifier("device"))
            for order in ["x", "y"] { _ = try await fixture.write(version(order, 1)) }
            try await device.follow("y", fixture)
            try await device.fetch([OrderIdentifier("x")], fixture)
            _ = try await fixture.write(version("x", 2))
            _ = try await fixture.write(version("y", 2))
            #expect(try await device.poll(fixture))
            _ = try await fixture.registrations.register(registration("device", "x"), record("aa"))
            #expect(try await device.poll(fixture), "the registration is later than the tag")
            #expect(try device.versions[OrderIdentifier("x")] == 2)
            #expect(try await !device.poll(fixture), "and reported once")
            _ = try await fixture.registrations.register(
                registration("device", "x"), record("bb", at: 1_741_190_531_002))
            #expect(try await !device.poll(fixture), "a new push token is no change")
        }
    }

    @Test func ordersOnSeveralPagesAreAllReported() async throws {
        try await StoreFixture.with { fixture in
            let orders = (0..<(2 * DeviceOrders.page + 1)).map { "o\($0)" }
            _ = try await fixture.write(try orders.map { try version($0, 1) })
            for order in orders {
                _ = try await fixture.registrations.register(registration("device", order), record("aa"))
            }
            let changes = try await fixture.changes(DeviceIdentifier("device"))
            #expect(changes?.orders.map(\.rawValue) == orders.sorted())
        }
    }
}
