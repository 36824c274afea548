import Model
import NIOCore
import Redis
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Store

/// The changes that scripts of registrations tell, the mark of a first fetch, and the sums in Redis.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct AdoptionTotalsTests {
    private static let brand = Result { try OrderTypeIdentifier(orderType) }

    /// Counts the changes as a service does.
    private final class Counter: Sendable {
        private let levels = Mutex((orders: 0, devices: 0))
        var orders: Int { self.levels.withLock(\.orders) }
        var devices: Int { self.levels.withLock(\.devices) }

        func note(_ change: Registrations.Change) {
            self.levels.withLock { levels in
                switch change {
                case .firstDevice: levels.orders += 1
                case .lastDevice: levels.orders -= 1
                case .firstOrder: levels.devices += 1
                case .lastOrder: levels.devices -= 1
                }
            }
        }
    }

    /// Requests in any order, some of them late, leave a count of exactly the orders and devices that there are.
    @Test(arguments: [1, 2, 3]) func theChangesAddUpToWhatIsRegistered(_ seed: UInt64) async throws {
        try await StoreFixture.with { fixture in
            let counter = Counter()
            let registrations = Registrations(redis: fixture.redis) { _, change in counter.note(change) }
            var random = SeededGenerator(seed: seed)
            let orders = ["1", "2", "3"]
            for order in orders { #expect(try await fixture.write(version(order, 1)) == .written) }
            #expect(try await fixture.write(removal("3", 2)) == .written)
            for step in 0..<120 {
                let device = "d\(Int.random(in: 0..<3, using: &random))"
                let key = try registration(device, orders.randomElement(using: &random) ?? "")
                let offset = Int64(step) - Int64.random(in: 0..<6, using: &random)
                let stamp = RegistrationStamp(offset: offset, epochMilliseconds: 1_741_190_531_000)
                switch Int.random(in: 0..<6, using: &random) {
                case 0, 1: _ = try await registrations.register(key, record("aa"), at: stamp)
                case 2: try await registrations.unregister(key, at: stamp)
                case 3: _ = try await registrations.retire(key, record("aa"))
                case 4:
                    try await registrations.restore([.init(key: key, registration: record("aa"), stamp: stamp)])
                default: try await registrations.restore([.init(key: key, registration: nil, stamp: stamp)])
                }
                var found = (orders: 0, devices: Set<String>())
                for order in orders {
                    let devices = try await fixture.registrations.devices(of: [StoreTests.key(order)])[0]
                    if !devices.isEmpty { found.orders += 1 }
                }
                for name in ["d0", "d1", "d2"] {
                    let device = try DeviceIdentifier(name)
                    let listed = try await fixture.registrations.orders(of: device, type: Self.brand.get())
                    if !listed.isEmpty { found.devices.insert(name) }
                }
                try #require(counter.orders == found.orders && counter.devices == found.devices.count, "step \(step)")
            }
        }
    }

    private static func isUnfetched(_ fixture: StoreFixture, _ reader: PackageReader) async throws -> Bool? {
        let spans = try await reader.spans(of: try key("1"), on: fixture.loop).get()
        return spans?.isUnfetched
    }

    @Test func aFetchIsMarkedOnceAndTheMarkStaysWithTheNextVersion() async throws {
        try await StoreFixture.with { (fixture: StoreFixture) async throws -> Void in
            let reader = PackageReader(redis: fixture.redis, readsMark: true)
            let order = try key("1")
            let early = try await reader.markFetched(order)
            #expect(!early, "there is no such order")
            let exists = try await fixture.raw("EXISTS", StoreKeys.order(order)).integer
            #expect(exists == 0)
            let first = try await fixture.write(try version("1", 1))
            let before = try await Self.isUnfetched(fixture, reader)
            let marks = [try await reader.markFetched(order), try await reader.markFetched(order)]
            let second = try await fixture.write(try version("1", 2))
            let after = try await Self.isUnfetched(fixture, reader)
            #expect(before == true)
            #expect(marks == [true, false])
            #expect(after == false)
            let third = try await fixture.write(try removal("1", 3))
            #expect([first, second, third] == [.written, .written, .written])
            let late = try await reader.markFetched(order)
            #expect(!late)
            let left = try await fixture.raw("HGET", StoreKeys.order(order), "fetched")
            #expect(left == .null)
        }
    }

    @Test func countsAddUpUntilTheyAreDeleted() async throws {
        try await StoreFixture.with { fixture in
            let totals = AdoptionTotals(redis: fixture.redis)
            let brand = try Self.brand.get()
            #expect(try await totals.all() == AdoptionTotals.Standing())
            let (old, new) = (
                AdoptionTotals.Name.count(.added, brand, day: "2025-03-05"),
                AdoptionTotals.Name.count(.added, brand, day: "2025-03-06")
            )
            try await totals.add([old: 2, new: 3, .level(.orders, brand): 5])
            let first = try await totals.all()
            #expect(!first.part.isEmpty)
            #expect(first.numbers == [old: 2, new: 3, .level(.orders, brand): 5])
            #expect(first.level(.orders, of: brand) == nil, "nobody has counted")
            try await totals.add([new: 1, .level(.orders, brand): -6])
            try await totals.delete([old])
            let second = try await totals.all()
            #expect(second.part == first.part)
            #expect(second.numbers == [new: 4, .level(.orders, brand): -1])
            _ = try await fixture.server.everywhere("FLUSHALL")
            try await totals.add([new: 1])
            #expect(try await totals.all().part != first.part)
        }
    }

    @Test func aSweepCountsWhatIsRegistered() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.redis.completeView()
            let brand = try Self.brand.get()
            let other = try OrderTypeIdentifier("order.com.example.other")
            let totals = AdoptionTotals(redis: fixture.redis)
            for (device, order) in [("d", "1"), ("d", "2"), ("e", "2"), ("f", "3")] {
                _ = try await fixture.registrations.register(registration(device, order), record("aa"))
            }
            try await fixture.registrations.unregister(registration("f", "3"))
            let foreign = RegistrationKey(device: try DeviceIdentifier("d"), order: try OrderKey("\(other)/9"))
            _ = try await fixture.registrations.register(foreign, record("aa"))
            // Left by a crash, or a lost Redis.
            try await totals.add([.level(.orders, brand): 40, .level(.devices, try OrderTypeIdentifier("a.b")): -3])
            var sweep = AssetSweep(ViewEpochCache(MaterializedView(redis: fixture.redis)))
            sweep.adoption = totals
            _ = try await sweep.run {}
            let standing = try await totals.all()
            #expect(standing.level(.orders, of: brand) == 2)
            #expect(standing.level(.devices, of: brand) == 2)
            #expect(standing.level(.orders, of: other) == 1)
            #expect(standing.level(.devices, of: other) == 1)
            #expect(standing.numbers.count == 4)
        }
    }

    /// One packager at a time publishes.
    @Test func theTurnIsOfOneOwnerAndComesBackAfterThePeriod() async throws {
        try await StoreFixture.with { fixture in
            let totals = AdoptionTotals(redis: fixture.redis)
            func claim(_ owner: String) async throws -> Bool {
                try await totals.claim(by: owner, lease: .seconds(60), period: .milliseconds(1))
            }
            try await eventually("the first turn") { try await claim("a") }
            #expect(try await !claim("b"))
            try await totals.end(by: "a", period: .milliseconds(1))
            try await eventually("the next turn") { try await claim("b") }
        }
    }
}
