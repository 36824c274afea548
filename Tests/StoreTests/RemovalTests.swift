import Model
import Redis
import TestKit
import TestTraits
import Testing

@testable import Store

/// Registrations and parcels that arrive in Redis after the removal of the order. Serialized: each test has its own
/// server.
@Suite(.server, .serialized) struct RemovalTests {
    private func keys(_ fixture: StoreFixture, _ pattern: String) async throws -> [String] {
        let scan = OrderScan(redis: fixture.redis)
        var found: Set<String> = []
        var cursor: String?
        repeat {
            let (keys, next) = try await scan.keys(pattern, from: cursor, count: 1000)
            found.formUnion(keys.compactMap(\.text))
            cursor = next
        } while cursor != nil
        return found.sorted()
    }

    /// Removes order 1 as a packager does.
    private func remove(_ fixture: StoreFixture, _ parcels: [String] = []) async throws {
        let order = try ParcelIndexTests.order("1", parcels)
        let package = OrderStore.Write.Content.version(somePackage)
        #expect(try await fixture.write(OrderStore.Write(state: order, content: package)) == .written)
        let stored = try #require(try await fixture.store.orders([order.key])[0].get())
        let removed = try state("1", version: 2, isRemoved: true)
        #expect(try await fixture.write(OrderStore.Write(state: removed, after: stored, content: .removal)) == .written)
    }

    @Test func aRemovedOrderTakesNoRegistration() async throws {
        try await StoreFixture.with { fixture in
            let key = try registration("device", "1")
            #expect(try await fixture.registrations.register(key, record("aa")) == .new, "the order may be missing")
            try await fixture.registrations.unregister(key)
            try await self.remove(fixture)
            for isTraceOver in [false, true] {
                if isTraceOver { try await fixture.raw("DEL", StoreKeys.order(key.order)) }
                #expect(try await fixture.registrations.register(key, record("aa")) == .removed)
                try await fixture.registrations.unregister(key)
                let item = Registrations.Restored(
                    key: key, registration: try record("aa"), stamp: RegistrationStamp(offset: 9, epochMilliseconds: 9))
                #expect(try await fixture.registrations.restore([item]).isEmpty)
                #expect(try await fixture.registrations.stand([item]) == [true], "a restore would leave it out, too")
                for pattern in ["waybill:1:devices*", "waybill:1:listed*"] {
                    #expect(try await self.keys(fixture, pattern) == [], "over: \(isTraceOver)")
                }
            }
            // It exists again.
            #expect(try await fixture.write(version("1", 3, expecting: 0)) == .written)
            #expect(try await fixture.registrations.register(key, record("aa")) == .new)
        }
    }

    /// A registration that a removal lists with the order is ended on both sides, wherever the attempt before stopped.
    @Test func anEndThatStopsHalfwayIsFoundWithTheOrder() async throws {
        try await StoreFixture.with { fixture in
            let key = try registration("device", "1")
            try await fixture.registrations.register(key, record("aa"))
            // Redis refuses the order's side.
            try await fixture.raw("SET", StoreKeys.ended(key.order), "a string")
            let end = Registrations.Restored(
                key: key, registration: nil,
                stamp: RegistrationStamp(offset: -1, epochMilliseconds: 1_741_190_532_000))
            #expect(try await fixture.registrations.restore([end]).count == 1)
            #expect(try await fixture.registrations.devices(of: [key.order])[0].count == 1)
            #expect(try await fixture.registrations.orders(of: key.device, type: key.order.orderType).isEmpty)
        }
    }

    /// A restore reads a removal before the version that it follows.
    @Test func aRestoreBringsNoParcelOfARemovedOrderBack() async throws {
        try await StoreFixture.with { fixture in
            let order = try ParcelIndexTests.order("1", ["7"])
            let later = order.modifiedEpochSeconds * 1000 + 5000
            for removal in [
                OrderStore.Restored.removed(try state("1", version: 2, isRemoved: true)),
                .forgotten(order.key, epochMilliseconds: later),
            ] {
                try await fixture.raw("FLUSHALL")
                _ = try await fixture.store.restore([removal])
                #expect(try await fixture.store.restore([.version(order, content: nil)]).written == 0)
                #expect(try await self.keys(fixture, "waybill:1:parcel*") == [])
            }
        }
    }

    @Test func aVersionThatIsNotWrittenHasNoParcel() async throws {
        try await StoreFixture.with { fixture in
            let order = try ParcelIndexTests.order("1", ["7"])
            let write = OrderStore.Write(state: order, revision: 42, content: .version(somePackage))
            #expect(try await fixture.store.write([write]) == [.conflict])
            #expect(try await self.keys(fixture, "waybill:1:parcel*") == [])
            // A worker that stalled behind its write notes them after the removal.
            try await self.remove(fixture, ["7"])
            #expect(try await fixture.store.parcels.note([order]) == [nil])
            #expect(try await self.keys(fixture, "waybill:1:parcel*") == [])
        }
    }

    /// A note of an earlier version, which comes late, neither replaces nor removes that of a later one.
    @Test func aLateNoteLeavesTheLaterVersion() async throws {
        try await StoreFixture.with { fixture in
            let first = try ParcelIndexTests.order("1", ["7"])
            var second = try ParcelIndexTests.order("1", version: 2, ["0", "7"])
            second.modifiedEpochSeconds = first.modifiedEpochSeconds
            #expect(try await fixture.store.restore([.version(second, content: nil)]).written == 1)
            #expect(try await fixture.store.parcels.note([first]) == [nil])
            let parcel = try ParcelIndexTests.parcel("7")
            #expect(try await fixture.store.parcels.owners(of: [parcel])[parcel]?.fulfillment == "f1")
        }
    }

    @Test func parcelsEndAndAreNotedAgain() async throws {
        try await StoreFixture.with { fixture in
            let order = try ParcelIndexTests.order("1", ["7"])
            let owner = StoreKeys.parcel(try ParcelIndexTests.parcel("7")).owner
            #expect(try await fixture.store.restore([.version(order, content: nil)]).written == 1)
            func life() async throws -> Int64 { try await fixture.raw("TTL", owner).integer ?? -3 }
            #expect((1...ParcelIndex.keptSeconds).contains(try await life()))
            // A restore that a crash interrupted is repeated, and finds the order as it should be.
            try await fixture.raw("DEL", owner)
            try await fixture.store.restoreParcels(of: [.version(order, content: nil)])
            #expect(try await life() > 0)
            try await fixture.raw("EXPIRE", owner, "5")
            #expect(try await fixture.store.parcels.note([order]) == [nil])
            #expect(try await life() > 5, "a version renews its parcels")
        }
    }

    /// A crash, or a Redis that fell back, left entries that the removed order does not know.
    @Test func allParcelsOfRemovedOrdersAreForgotten() async throws {
        try await StoreFixture.with { fixture in
            try await self.remove(fixture, ["7"])
            let other = try ParcelIndexTests.order("2", ["8"])
            #expect(try await fixture.store.restore([.version(other, content: nil)]).written == 1)
            let removed = try key("1")
            for number in 0..<20 {
                let keys = StoreKeys.parcel(try ParcelIndexTests.parcel("9\(number)"))
                try await fixture.raw("SET", keys.owner, "1741190532 1 \(removed) f0")
                if number % 2 == 0 { try await fixture.raw("SET", keys.order, "\(removed)") }
            }
            let old = StoreKeys.parcel(try ParcelIndexTests.parcel("of an earlier release"))
            try await fixture.raw("SET", old.order, "\(removed)")
            let forgotten = try await fixture.store.parcels.forget(ofRemoved: [removed, other.key])
            #expect(Set(forgotten.keys) == [removed], "an order that exists keeps its parcels")
            #expect((forgotten[removed] ?? 0) >= 21)
            let kept = StoreKeys.parcel(try ParcelIndexTests.parcel("8"))
            #expect(Set(try await self.keys(fixture, "waybill:1:parcel*")) == [kept.owner, kept.order])
        }
    }
}
