import Model
import Redis
import TestKit
import TestTraits
import Testing

@testable import Store

/// A Redis written by a version whose keys named devices in clear text. One test at a time: each has its own server,
/// not a cluster, since the keys of the view are written as a single server has them.
@Suite(.server, .serialized, .timeLimit(.minutes(1))) struct EarlierFormatTests {
    /// Writes a registration as that version did.
    private func register(_ fixture: StoreFixture, _ device: String, _ order: String, offset: Int64) async throws {
        let text = String(decoding: try record("aa").encoded, as: UTF8.self)
        let stamp = "\(offset):1741190531000"
        try await fixture.raw("HSET", "waybill:devices:{\(orderType)/\(order)}", device, text)
        try await fixture.raw("HSET", "waybill:devices-stamps:{\(orderType)/\(order)}", device, stamp)
        try await fixture.raw("SADD", "waybill:device:{\(device)/\(orderType)}", order)
        try await fixture.raw(
            "HSET", "waybill:device-stamps:{\(device)/\(orderType)}", order, "\(stamp):1741190531000000")
        try await fixture.raw("HSET", "waybill:device-ended:{\(device)/\(orderType)}", "gone", stamp)
    }

    private func completeView(_ fixture: StoreFixture) async throws {
        let information = try #require(try await fixture.raw("INFO", "replication").text)
        let line = information.split(whereSeparator: \.isNewline).first { $0.hasPrefix("master_replid:") }
        let history = try #require(line).dropFirst("master_replid:".count)
        try await fixture.raw("SET", "waybill:epoch", "random:\(history)")
        try await fixture.raw("HSET", "waybill:tail:offsets", "waybill.orders/0", "7", "waybill.registrations/0", "9")
    }

    @Test func theEarlierFormatIsIncompleteButItsOrderOffsetsAreReused() async throws {
        try await StoreFixture.with(isAlone: true) { fixture in
            let view = MaterializedView(redis: fixture.redis)
            #expect(try await !EarlierFormat(view).isThere())
            try await self.completeView(fixture)
            #expect(try await EarlierFormat(view).isThere())
            var place = try #require(try await view.look().first)
            #expect(place.epoch == nil)
            #expect(place.plan == nil)
            #expect(place.tails(withRegistrationsIn: "waybill.registrations", on: "c") == ["c/waybill.orders/0": 7])
            // It says nothing about another history.
            try await fixture.raw("SET", "waybill:epoch", "random:other")
            place = try #require(try await view.look().first)
            #expect(place.tails(withRegistrationsIn: "waybill.registrations", on: "c").isEmpty)
            try await fixture.redis.completeView()
            place = try #require(try await view.look().first)
            #expect(place.epoch != nil)
            #expect(place.isHere)
        }
    }

    @Test func earlierKeysAreRemovedAndTheirRegistrationsMigrated() async throws {
        try await StoreFixture.with(isAlone: true) { fixture in
            let devices = ["device", "}", "{", "a/{b}c", "a:b", "0123456789abcdef0123456789abcdef"]
            for (index, device) in devices.enumerated() {
                try await self.register(fixture, device, "1", offset: Int64(index))
                try await self.register(fixture, device, "2", offset: Int64(index))
                // This version ended the registration.
                try await fixture.registrations.unregister(
                    registration(device, "2"), at: .init(offset: 100, epochMilliseconds: 1_741_190_531_000))
            }
            try await fixture.raw("SET", "waybill:device:{odd}", "a string")
            try await self.completeView(fixture)
            let format = EarlierFormat(MaterializedView(redis: fixture.redis))
            try await format.invalidate()
            #expect(try await format.isThere(), "until nothing was found")
            var removed: [Int] = []
            for _ in 0..<2 {
                var (count, cursor): (Int, String?) = (0, nil)
                repeat {
                    let page = try await format.removePage(from: cursor)
                    (count, cursor) = (count + page.removed, page.next)
                } while cursor != nil
                removed.append(count)
            }
            #expect(removed == [devices.count * 3 + 1, 0])
            try await format.forget()
            #expect(try await !format.isThere())
            for device in devices {
                let key = try registration(device, "1")
                let listed = try await fixture.registrations.orders(of: key.device, type: key.order.orderType)
                #expect(listed.map(\.rawValue) == ["1"], "\(device)")
                #expect(try await fixture.registrations.registration(key) == record("aa"))
            }
            let names = try #require(try await fixture.raw("KEYS", "*").array).compactMap(\.text)
            #expect(!names.contains { $0.contains("}/") || $0.contains("{{") || $0.hasPrefix("waybill:device:") })
            #expect(!names.contains { $0.hasPrefix("waybill:device-") || $0.hasPrefix("waybill:tail") })
        }
    }

    @Test func gatewaysOfBothFormatsListRegistrationsOfEither() async throws {
        try await StoreFixture.with(isAlone: true) { fixture in
            try await self.completeView(fixture)
            let view = MaterializedView(redis: fixture.redis)
            let gateways = EarlierGateways(view)
            #expect(gateways.mayServe)
            let (old, new) = (try registration("device", "old"), try registration("device", "new"))
            func listed() async throws -> Set<String> {
                Set(
                    try await fixture.registrations.orders(of: old.device, type: old.order.orderType).map(\.rawValue))
            }
            func earlier() async throws -> Set<String> {
                let members = try await fixture.raw("SMEMBERS", "waybill:device:{device/\(orderType)}").array ?? []
                return Set(members.compactMap(\.text))
            }
            // One registration was made through the earlier version, and one through this version.
            try await self.register(fixture, "device", "old", offset: 7)
            let stamp = RegistrationStamp(offset: 3, epochMilliseconds: 1_741_190_532_000, cluster: "c", partition: 1)
            try await gateways.register(new, at: stamp)
            _ = try await fixture.registrations.register(new, record("bb"), at: stamp)
            #expect(try await listed() == ["new"])
            try await gateways.adopt(old.device, old.order.orderType)
            #expect(try await listed() == ["new", "old"])
            #expect(try await earlier() == ["new", "old"])
            // Three numbers, as that version reads them.
            let text = try await fixture.raw("HGET", "waybill:device-stamps:{device/\(orderType)}", "new").text
            let parts = try #require(text).split(separator: ":")
            #expect(parts.prefix(2) == ["3", "1741190532000"])
            #expect(parts.count == 3)
            // A registration that ends in this format ends in the earlier one too, for good.
            let end = RegistrationStamp(offset: 8, epochMilliseconds: 1_741_190_540_000, cluster: "c", partition: 1)
            try await fixture.registrations.unregister(old, at: end)
            try await gateways.unregister(old, at: end)
            try await gateways.adopt(old.device, old.order.orderType)
            #expect(try await listed() == ["new"])
            #expect(try await earlier() == ["new"])
            // Once no gateway serves from the earlier format, nothing is written there.
            try await EarlierFormat(view).invalidate()
            let later = EarlierGateways(view)
            try await later.register(old, at: end)
            #expect(!later.mayServe)
            #expect(try await earlier() == ["new"])
        }
    }
}
