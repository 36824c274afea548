import Model
import Redis
import TestKit
import TestTraits
import Testing

@testable import Store

/// Requests for one registration that race. One test at a time: each has its own server.
@Suite(.server, .serialized) struct RegistrationRaceTests {
    static let noon: Int64 = 1_767_268_800_000

    func stamp(_ offset: Int64, _ moment: Int64 = noon) -> RegistrationStamp {
        RegistrationStamp(offset: offset, epochMilliseconds: moment)
    }

    /// Returns the push token on the order's side, and whether the device's side exists.
    func standing(_ fixture: StoreFixture, _ key: RegistrationKey) async throws -> (token: String?, isListed: Bool) {
        let devices = try await fixture.registrations.devices(of: [key.order])[0]
        let orders = try await fixture.registrations.orders(of: key.device, type: key.order.orderType)
        return (
            devices.first { $0.device == key.device }?.registration.pushToken.rawValue, orders.contains(key.order.order)
        )
    }

    @Test func theLaterKafkaOffsetWinsInAnyOrder() async throws {
        try await StoreFixture.with { fixture in
            let key = try registration("device", "1")
            #expect(try await fixture.registrations.register(key, record("bb"), at: self.stamp(7)) == .new)
            let renewed = try await fixture.registrations.register(key, record("aa"), at: self.stamp(6))
            #expect(renewed == .renewed, "it says what is so")
            #expect(try await self.standing(fixture, key) == ("bb", true))
            try await fixture.registrations.unregister(key, at: self.stamp(5))
            #expect(try await self.standing(fixture, key) == ("bb", true))
            try await fixture.registrations.unregister(key, at: self.stamp(9))
            #expect(try await self.standing(fixture, key) == (nil, false))
            _ = try await fixture.registrations.register(key, record("cc"), at: self.stamp(8))
            #expect(try await self.standing(fixture, key) == (nil, false), "the end came later")
            #expect(try await fixture.registrations.register(key, record("dd"), at: self.stamp(10)) == .new)
            #expect(try await self.standing(fixture, key) == ("dd", true))
        }
    }

    @Test func stampsOverAMinuteApartAreOrderedByTime() async throws {
        try await StoreFixture.with { fixture in
            let key = try registration("device", "1")
            _ = try await fixture.registrations.register(key, record("aa"), at: self.stamp(1000))
            _ = try await fixture.registrations.register(key, record("bb"), at: self.stamp(3, Self.noon + 61_000))
            #expect(try await self.standing(fixture, key) == ("bb", true), "the topic was made anew")
            try await fixture.registrations.unregister(key, at: self.stamp(1001, Self.noon))
            #expect(try await self.standing(fixture, key) == ("bb", true))
            _ = try await fixture.registrations.register(key, record("cc"), at: self.stamp(-1, Self.noon + 60_999))
            #expect(try await self.standing(fixture, key) == ("bb", true), "without an offset the moment decides")
            _ = try await fixture.registrations.register(key, record("cc"), at: self.stamp(-1, Self.noon + 61_001))
            #expect(try await self.standing(fixture, key) == ("cc", true))
            try await fixture.registrations.unregister(key)
            #expect(try await self.standing(fixture, key) == (nil, false))
        }
    }

    @Test func offsetsAreComparedOnlyWithinAClusterAndPartition() async throws {
        try await StoreFixture.with { fixture in
            let key = try registration("device", "1")
            func stamp(_ offset: Int64, _ seconds: Int64, _ cluster: String, partition: Int32 = 3) -> RegistrationStamp
            {
                RegistrationStamp(
                    offset: offset, epochMilliseconds: Self.noon + seconds * 1000, cluster: cluster,
                    partition: partition)
            }
            _ = try await fixture.registrations.register(key, record("aa"), at: stamp(1000, 0, "east"))
            try await fixture.registrations.unregister(key, at: stamp(3, 10, "west"))
            #expect(try await self.standing(fixture, key) == (nil, false), "it ended on the new cluster")
            _ = try await fixture.registrations.register(key, record("bb"), at: stamp(2000, 5, "east"))
            #expect(try await self.standing(fixture, key) == (nil, false), "before its end")
            _ = try await fixture.registrations.register(key, record("cc"), at: stamp(4, 9, "west"))
            #expect(try await self.standing(fixture, key) == ("cc", true), "on one cluster the offset decides")
            _ = try await fixture.registrations.register(key, record("dd"), at: stamp(0, 20, "west", partition: 19))
            #expect(try await self.standing(fixture, key) == ("dd", true), "the topic has more partitions")
            // As another version of Waybill stamps it.
            _ = try await fixture.registrations.register(key, record("ee"), at: self.stamp(1, Self.noon + 19_000))
            #expect(try await self.standing(fixture, key) == ("ee", true))
            #expect(stamp(3, 10, "west").isNewer(than: stamp(1000, 0, "east")))
            #expect(!stamp(3, 10, "west").isNewer(than: stamp(1000, 0, "west")))
        }
    }

    @Test func rememberedUnregistrationsExpire() async throws {
        try await StoreFixture.with { fixture in
            let key = try registration("device", "1")
            try await fixture.registrations.unregister(key, at: self.stamp(1))
            for name in [StoreKeys.ended(key.order), StoreKeys.ended(DeviceTag(key.device, key.order.orderType))] {
                let seconds = try #require(try await fixture.raw("TTL", name).integer)
                #expect((1...Registrations.endedSeconds).contains(seconds))
            }
            try await fixture.registrations.unregister(key)
            _ = try await fixture.registrations.register(key, record("aa"), at: self.stamp(2))
            #expect(try await fixture.raw("EXISTS", StoreKeys.ended(key.order)).integer == 0, "nothing is left behind")
            #expect(try await fixture.registrations.retire(key, record("aa")))
            #expect(try await self.standing(fixture, key) == (nil, false))
            #expect(try await fixture.raw("DBSIZE").integer == 0)
            _ = try await fixture.registrations.register(key, record("aa"), at: self.stamp(3))
            try await fixture.registrations.unregister(key)
            #expect(try await fixture.raw("DBSIZE").integer == 0)
        }
    }

    @Test func theEndOfARegistrationNamesNoDevice() async throws {
        try await StoreFixture.with { fixture in
            let key = try registration("device", "1")
            try await fixture.registrations.unregister(key, at: self.stamp(5))
            for name in [StoreKeys.ended(key.order), StoreKeys.ended(DeviceTag(key.device, key.order.orderType))] {
                let members = try await fixture.raw("HKEYS", name).array?.compactMap(\.text) ?? []
                #expect(members.count == 1)
                #expect(!members.contains("device") && !members.contains("1"))
            }
            _ = try await fixture.registrations.register(key, record("aa"), at: self.stamp(4))
            #expect(try await self.standing(fixture, key) == (nil, false))
            // An earlier release names the device.
            _ = try await fixture.raw("DEL", StoreKeys.ended(key.order))
            _ = try await fixture.raw("HSET", StoreKeys.ended(key.order), "device", "5:\(Self.noon)")
            _ = try await fixture.registrations.register(key, record("aa"), at: self.stamp(4))
            #expect(try await self.standing(fixture, key).token == nil)
            _ = try await fixture.registrations.register(key, record("aa"), at: self.stamp(6))
            #expect(try await self.standing(fixture, key) == ("aa", true))
            #expect(try await fixture.raw("EXISTS", StoreKeys.ended(key.order)).integer == 0)
        }
    }

    @Test func extremeStampsAreAccepted() async throws {
        try await StoreFixture.with { fixture in
            let key = try registration("device:1:2", "1")
            for number in [Int64.min, -1, 0, .max] {
                _ = try await fixture.registrations.register(
                    key, record("aa"), at: RegistrationStamp(offset: number, epochMilliseconds: number))
            }
            #expect(try await self.standing(fixture, key) == ("aa", true))
        }
    }

    @Test func retiringAnOlderRegistrationKeepsANewerOneListed() async throws {
        try await StoreFixture.with { fixture in
            let key = try registration("device", "1")
            // The older registration has no stamp; of the newer one, only the device's side exists yet.
            _ = try await fixture.registrations.register(key, record("bb", at: Self.noon), at: self.stamp(1))
            _ = try await fixture.raw("DEL", StoreKeys.stamps(key.order))
            _ = try await fixture.raw(
                "HSET", StoreKeys.devices(key.order), "device",
                String(decoding: record("aa", at: Self.noon - 1).encoded, as: UTF8.self))
            #expect(try await fixture.registrations.retire(key, record("aa", at: Self.noon - 1)))
            #expect(try await self.standing(fixture, key) == (nil, true))
        }
    }

    @Test func aStampWithoutItsRegistrationIsIgnored() async throws {
        try await StoreFixture.with { fixture in
            let key = try registration("device", "1")
            let type = key.order.orderType
            _ = try await fixture.registrations.register(key, record("aa"), at: self.stamp(9))
            _ = try await fixture.raw("DEL", StoreKeys.devices(key.order))
            _ = try await fixture.raw("DEL", StoreKeys.listed(DeviceTag(key.device, type)))
            #expect(try await fixture.changes(key.device) == nil)
            #expect(try await fixture.registrations.register(key, record("bb"), at: self.stamp(8)) == .new)
            #expect(try await self.standing(fixture, key) == ("bb", true))
        }
    }

    @Test func stampsOfOtherFormatsAreParsedOrIgnored() throws {
        #expect(RegistrationStamp.read("7:12")?.stamp == self.stamp(7, 12))
        #expect(RegistrationStamp.read("7:12")?.registeredEpochMicroseconds == nil)
        #expect(RegistrationStamp.read("-1:12:99")?.stamp == self.stamp(-1, 12))
        #expect(RegistrationStamp.read("-1:12:99")?.registeredEpochMicroseconds == 99)
        #expect(RegistrationStamp.read("7:12:99:3fa2")?.registeredEpochMicroseconds == 99)
        #expect(RegistrationStamp.read("7:12::3fa2")?.stamp.origin == "3fa2")
        for text in ["", ":", "7", "7:", ":7", "a:b", "1:2:3:4:5", "99999999999999999999:1"] {
            #expect(RegistrationStamp.read(text) == nil, "\(text)")
        }
    }

    /// Several gateways each carry out some of the requests, with their steps interleaved at random. At the end both
    /// sides match the record with the highest offset.
    @Test(arguments: [UInt64(1), 2, 3, 4, 5])
    func bothSidesMatchTheRecordWithTheHighestOffset(seed: UInt64) async throws {
        try await StoreFixture.with { fixture in
            var random = SeededGenerator(seed: seed)
            let keys = try (0..<8).map { try registration("d\($0 % 3)", "o\($0 / 3)") }
            var work: [(key: RegistrationKey, offset: Int64, token: String?)] = []
            for (index, key) in keys.enumerated() {
                for offset in Int64(0)..<25 {
                    let isEnd = Bool.random(using: &random)
                    work.append((key, offset, isEnd ? nil : "\(index)a\(offset)b"))
                }
            }
            work.shuffle(using: &random)
            let shares = (0..<10).map { share in work.enumerated().filter { $0.offset % 10 == share }.map(\.element) }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for share in shares {
                    group.addTask {
                        for request in share {
                            // Gateways' clocks differ by some seconds.
                            let moment = Self.noon + (request.offset * 7919) % 10_000
                            let stamp = RegistrationStamp(offset: request.offset, epochMilliseconds: moment)
                            if let token = request.token {
                                let record = RegistrationRecord(
                                    pushToken: try PushToken(token), registeredEpochMilliseconds: moment)
                                _ = try await fixture.registrations.register(request.key, record, at: stamp)
                            } else {
                                try await fixture.registrations.unregister(request.key, at: stamp)
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            for key in keys {
                let last = work.filter { $0.key == key }.max { $0.offset < $1.offset }?.token
                #expect(try await self.standing(fixture, key) == (last, last != nil), "seed \(seed)")
            }
        }
    }
}
