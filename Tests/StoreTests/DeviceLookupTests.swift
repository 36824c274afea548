import Glibc
import Model
import NIOPosix
import Redis
import TestKit
import TestTraits
import Testing

@testable import Store

/// Orders with very many devices, with odd ones, and orders that cannot be read. One test at a time: each has its own
/// servers.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct DeviceLookupTests {
    private static let odd = ["}", "{", "}x", "{}", "}{", "a/{b}c", " ", "\u{FC}", String(repeating: "}", count: 255)]

    private static func onCluster(_ body: (StoreFixture, RedisCluster) async throws -> Void) async throws {
        let cluster = try await RedisCluster.start(arguments: ["--cluster-require-full-coverage", "no"])
        var configuration = try RedisConfiguration(url: cluster.seedsURL)
        configuration.commandDeadline = .milliseconds(1500)
        let redis = RedisClient(configuration, eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(StoreFixture(server: cluster.masters[0], redis: redis), cluster))
        } catch { result = .failure(error) }
        await redis.close()
        await cluster.stop()
        try result.get()
    }

    /// Writes made-up registrations directly to Redis, the later ones with later times.
    private func fill(_ fixture: StoreFixture, _ order: String, _ count: Int) async throws {
        let script = """
            for number = tonumber(ARGV[1]), tonumber(ARGV[2]) do
              redis.call('HSET', KEYS[1], 'made-up-' .. number,
                string.format('{"format":1,"pushToken":"%064x","registered":%d}', number, number))
            end
            """
        for first in stride(from: 0, to: count, by: 20_000) {
            try await fixture.raw(
                "EVAL", script, "1", StoreKeys.devices(try key(order)), "\(first)", "\(min(count, first + 20_000) - 1)")
        }
    }

    @Test func unusualDeviceIdentifiersWorkOnACluster() async throws {
        try await Self.onCluster { fixture, _ in
            let registrations = fixture.registrations
            var items: [Registrations.Restored] = []
            for (index, device) in Self.odd.enumerated() {
                let key = try registration(device, "o\(index % 3)")
                let stamp = RegistrationStamp(offset: Int64(index), epochMilliseconds: 1_741_190_531_000)
                #expect(try await registrations.register(key, record("aa"), at: stamp) == .new, "\(device)")
                #expect(try await registrations.register(key, record("aa"), at: stamp) == .renewed)
                #expect(try await registrations.orders(of: key.device, type: key.order.orderType) == [key.order.order])
                #expect(try await fixture.changes(key.device) == nil, "no such order, but it can be asked for")
                items.append(Registrations.Restored(key: key, registration: try record("aa"), stamp: stamp))
            }
            let found = try await registrations.look(up: (0..<3).map { try key("o\($0)") })
            #expect(try found.audiences.map { try $0.get().devices.count }.reduce(0, +) == Self.odd.count)
            for item in items { try await registrations.unregister(item.key) }
            #expect(try await registrations.stand(items).allSatisfy { !$0 })
            #expect(try await registrations.restore(items).isEmpty)
            #expect(try await registrations.stand(items).allSatisfy { $0.self })
        }
    }

    /// In a single reply, more than half a million devices would break the connection.
    @Test func anOrderWithVeryManyDevicesIsReadInPages() async throws {
        try await StoreFixture.with { fixture in
            try await self.fill(fixture, "many", 600_000)
            try await self.fill(fixture, "some", 1500)
            try await self.fill(fixture, "family", 100)
            let view = MaterializedView(redis: fixture.redis)
            try await fixture.redis.completeView()
            let keys = try ["family", "many", "some"].map { try key($0) }
            let found = try await fixture.registrations.look(up: keys, in: view)
            let audiences = try found.audiences.map { try $0.get() }
            #expect(audiences.map(\.devices.count) == [100, Registrations.notifiedLimit, 1500])
            #expect(audiences.map(\.skipped) == [0, 600_000 - Registrations.notifiedLimit, 0])
            #expect(Set(audiences[2].devices).count == 1500)
            #expect(Set(audiences[1].devices).count == Registrations.notifiedLimit)
            var (count, cursor): (Int, String?) = (0, nil)
            repeat {
                let page = try await fixture.registrations.pages(of: [(keys[2], cursor)])[0]
                #expect(page.devices.count <= 1024)
                (count, cursor) = (count + page.devices.count, page.next)
            } while cursor != nil
            #expect(count >= 1500)
        }
    }

    @Test func onlyTheNewestDevicesAreReturnedAboveTheLimit() async throws {
        try await StoreFixture.with { fixture in
            try await self.fill(fixture, "o", Registrations.notifiedLimit + 500)
            let audience = try #require(
                try await fixture.registrations.look(up: [key("o")]).audiences.first
            ).get()
            #expect(audience.skipped == 500)
            let oldest = audience.devices.map(\.registration.registeredEpochMilliseconds).min()
            #expect(oldest == 500)
        }
    }

    @Test func aKeyOfTheWrongTypeAffectsOnlyItsOrder() async throws {
        try await StoreFixture.with { fixture in
            _ = try await fixture.registrations.register(registration("d", "1"), record("aa"))
            _ = try await fixture.write(version("1", 1))
            try await fixture.raw("SET", StoreKeys.devices(try key("2")), "a string")
            try await fixture.raw("SET", StoreKeys.order(try key("2")), "a string")
            try await fixture.redis.completeView()
            let both = [try key("1"), try key("2")]
            let found = try await fixture.registrations.look(
                up: both, modified: both, in: MaterializedView(redis: fixture.redis))
            #expect(try found.audiences[0].get().devices.map(\.device.rawValue) == ["d"])
            #expect(try found.modified[0].get() == 1_741_190_532)
            #expect(throws: StoreError.self) { try found.audiences[1].get() }
            #expect(throws: StoreError.self) { try found.modified[1].get() }
            // Restoring skips it as well, and does not miss it.
            let items = try ["2", "3"].map {
                Registrations.Restored(
                    key: try registration("d", $0), registration: try record("aa"),
                    stamp: RegistrationStamp(offset: 1, epochMilliseconds: 1_741_190_531_000))
            }
            #expect(try await fixture.registrations.stand(items) == [true, false])
            let damaged = try await fixture.registrations.restore(items)
            #expect(damaged.map(\.index) == [0])
            #expect(damaged.map(\.error.code) == [.corrupt])
            #expect(try await fixture.registrations.stand(items) == [true, true])
            #expect(try await fixture.registrations.pages(of: [(try key("2"), nil)]) == [.init(devices: [], next: nil)])
        }
    }

    @Test func aLookupInAnIncompleteViewFails() async throws {
        try await StoreFixture.with { fixture in
            _ = try await fixture.registrations.register(registration("d", "1"), record("aa"))
            let view = MaterializedView(redis: fixture.redis)
            // In a cluster only this order is affected.
            let error = await #expect(throws: StoreError.self) {
                _ = try await fixture.registrations.look(up: [key("1")], in: view).audiences[0].get()
            }
            #expect(error?.code == .incomplete)
            try await fixture.redis.completeView()
            #expect(
                try await fixture.registrations.look(up: [key("1")], in: view).audiences[0].get().devices.count == 1)
        }
    }

    @Test func anUnresponsiveMasterFailsOnlyItsOwnOrders() async throws {
        try await Self.onCluster { fixture, cluster in
            let keys = try (0..<30).map { try key("o\($0)") }
            for order in keys {
                _ = try await fixture.registrations.register(
                    RegistrationKey(device: .init("d"), order: order), record("aa"))
            }
            try await fixture.redis.completeView()
            let view = MaterializedView(redis: fixture.redis)
            let whole = try await fixture.registrations.look(up: keys, modified: keys, in: view)
            #expect(whole.audiences.allSatisfy { (try? $0.get().devices.count) == 1 })
            cluster.masters[1].signal(SIGSTOP)
            defer { cluster.masters[1].signal(SIGCONT) }
            let found = try await fixture.registrations.look(up: keys, modified: keys, in: view)
            let topology = try await fixture.redis.topology()
            let away = ":\(cluster.masters[1].port)"
            var failed = 0
            for (order, audience) in zip(keys, found.audiences) {
                let isAway = topology.master(of: StoreKeys.devices(order))?.description.hasSuffix(away) == true
                if isAway { failed += 1 }
                switch audience {
                case .success(let audience):
                    #expect(!isAway)
                    #expect(audience.devices.count == 1)
                case .failure(let error):
                    #expect(isAway, "\(error)")
                    #expect(error.code == .unavailable, "\(error)")
                }
            }
            #expect(failed > 0)
            #expect(failed < keys.count)
        }
    }
}
