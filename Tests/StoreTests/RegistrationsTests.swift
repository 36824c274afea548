import Model
import Redis
import TestKit
import TestTraits
import Testing

@testable import Store

/// One test at a time: each has its own server.
@Suite(.server, .serialized) struct RegistrationsTests {
    @Test func aSecondRegistrationReplacesThePushTokenAndReturnsTrue() async throws {
        try await StoreFixture.with { fixture in
            let key = try registration("device", "1")
            #expect(try await fixture.registrations.register(key, record("aa")) == .new)
            #expect(try await fixture.registrations.register(key, record("aa")) == .renewed)
            #expect(try await fixture.registrations.register(key, record("bb", at: 1_741_190_531_001)) == .renewed)
            let devices = try await fixture.registrations.devices(of: [key.order])
            let newest = Registrations.Registered(
                device: key.device, registration: try record("bb", at: 1_741_190_531_001))
            #expect(devices == [[newest]])
            #expect(
                try await fixture.registrations.orders(of: key.device, type: key.order.orderType) == [key.order.order])
        }
    }

    /// The digest of `device`. Source: printf device | sha256sum
    private static let digest = "263a4dbe41488fb87214b0032339dbb9"

    @Test func registrationKeysAndValuesHaveTheExpectedFormat() async throws {
        try await StoreFixture.with { fixture in
            let key = try registration("device", "1")
            let stamp = RegistrationStamp(offset: 4, epochMilliseconds: 1_741_190_531_000)
            _ = try await fixture.registrations.register(key, record("aa"), at: stamp)
            let names = (
                order: "waybill:1:devices:{\(orderType)/1}", device: "waybill:1:listed:{\(Self.digest)/\(orderType)}"
            )
            #expect(try await fixture.raw("TYPE", names.order).text == "hash")
            #expect(try await fixture.raw("TYPE", names.device).text == "set")
            #expect(try await fixture.raw("SMEMBERS", names.device).array?.map(\.text) == ["1"])
            #expect(try await fixture.raw("HLEN", names.order).integer == 1)
            let value = try #require(try await fixture.raw("HGET", names.order, "device").bytes)
            #expect(try value == record("aa").encoded)
            #expect(try JSON(parsing: value).object?["pushToken"]?.string == "aa")
            let stamps = try await fixture.raw("HGET", "waybill:1:devices-stamps:{\(orderType)/1}", "device")
            #expect(stamps.text == "4:1741190531000")
            let since = try await fixture.raw("HGET", "waybill:1:listed-stamps:{\(Self.digest)/\(orderType)}", "1").text
            #expect(since?.hasPrefix("4:1741190531000:") == true)
            #expect(try await fixture.registrations.registration(key) == record("aa"))
            #expect(try await fixture.registrations.registration(registration("other", "1")) == nil)
        }
    }

    @Test(arguments: ["a/{b}c", "}", "{", "}x", "{}", " /", "\u{FC}"])
    func keysUsedByOneScriptShareAHashTag(device: String) throws {
        let key = try registration(device, "1")
        let tag = DeviceTag(key.device, key.order.orderType)
        for names in [
            [
                StoreKeys.devices(key.order), StoreKeys.stamps(key.order), StoreKeys.ended(key.order),
                StoreKeys.admitted(key.order),
            ],
            [StoreKeys.listed(tag), StoreKeys.stamps(tag), StoreKeys.ended(tag)],
        ] {
            #expect(Set(names).count == names.count)
            #expect(names.allSatisfy { !$0.contains("\(device)/") })
            // Source: Redis cluster specification, "Hash tags": between the first { and the first } after it.
            let tags = names.map { $0.drop { $0 != "{" }.dropFirst().prefix { $0 != "}" } }
            #expect(Set(tags).count == 1)
            #expect(tags.first?.isEmpty == false)
        }
    }

    /// As an older version or another program would leave them.
    @Test func aRegistrationWithoutStampsIsOlderThanAnyRequest() async throws {
        try await StoreFixture.with { fixture in
            let key = try registration("device", "1")
            let type = key.order.orderType
            let ancient = RegistrationStamp(offset: 0, epochMilliseconds: 0)
            func seed() async throws {
                let json = String(decoding: try record("aa").encoded, as: UTF8.self)
                _ = try await fixture.raw("HSET", StoreKeys.devices(key.order), "device", json)
                _ = try await fixture.raw("SADD", StoreKeys.listed(DeviceTag(key.device, type)), "1")
            }
            _ = try await fixture.write(version("1", 1))
            try await seed()
            #expect(try await fixture.registrations.devices(of: [key.order])[0].map(\.registration) == [record("aa")])
            #expect(try await fixture.registrations.orders(of: key.device, type: type) == [key.order.order])
            let tag = try #require(try await fixture.changes(key.device)).tag
            #expect(try await fixture.changes(key.device, tag) == nil, "its registration is older than any tag")
            #expect(try await fixture.registrations.register(key, record("bb"), at: ancient) == .renewed)
            #expect(try await fixture.registrations.registration(key) == record("bb"))
            try await fixture.registrations.unregister(key)
            for end in [ancient, nil] {
                try await seed()
                try await fixture.registrations.unregister(key, at: end)
                #expect(try await fixture.registrations.devices(of: [key.order]) == [[]])
                #expect(try await fixture.registrations.orders(of: key.device, type: type).isEmpty)
            }
            try await seed()
            #expect(try await !fixture.registrations.retire(key, record("aa", at: 1)))
            #expect(try await !fixture.registrations.retire(key, record("bb")))
            #expect(try await fixture.registrations.retire(key, record("aa")))
            #expect(try await fixture.registrations.orders(of: key.device, type: type).isEmpty)
        }
    }

    @Test func aMalformedRecordIsNotRetired() async throws {
        try await StoreFixture.with { fixture in
            let key = try registration("device", "1")
            let nested = String(repeating: "[", count: 5000)
            for text in ["", "junk", "1", "null", "[]", "{}", #"{"pushToken":"aa","registered":null}"#, nested] {
                _ = try await fixture.raw("HSET", StoreKeys.devices(key.order), "device", text)
                #expect(try await !fixture.registrations.retire(key, record("aa")))
                #expect(try await fixture.registrations.registration(key) == nil)
                #expect(try await fixture.raw("HEXISTS", StoreKeys.devices(key.order), "device").integer == 1)
            }
        }
    }

    @Test func onlyTheRegistrationThatWasReadIsRetired() async throws {
        try await StoreFixture.with { fixture in
            let key = try registration("device", "1")
            _ = try await fixture.registrations.register(key, record("aa", at: 1))
            _ = try await fixture.registrations.register(key, record("aa", at: 2))
            #expect(try await !fixture.registrations.retire(key, record("aa", at: 1)), "it was renewed")
            #expect(try await fixture.registrations.orders(of: key.device, type: key.order.orderType).count == 1)
            #expect(try await fixture.registrations.retire(key, record("aa", at: 2)))
            #expect(try await !fixture.registrations.retire(key, record("aa", at: 2)))
            #expect(try await fixture.registrations.devices(of: [key.order]) == [[]])
            #expect(try await fixture.registrations.orders(of: key.device, type: key.order.orderType).isEmpty)
        }
    }

    @Test func unregisteringTwiceIsAccepted() async throws {
        try await StoreFixture.with { fixture in
            let key = try registration("device", "1")
            _ = try await fixture.registrations.register(key, record("aa"))
            _ = try await fixture.registrations.register(registration("device", "2"), record("aa"))
            for _ in 0..<2 { try await fixture.registrations.unregister(key) }
            #expect(
                try await fixture.registrations.orders(of: key.device, type: key.order.orderType).map(\.rawValue) == [
                    "2"
                ]
            )
            #expect(try await fixture.registrations.devices(of: [key.order]) == [[]])
        }
    }

    @Test func devicesAreReturnedInTheOrderOfTheRequestedKeys() async throws {
        try await StoreFixture.with { fixture in
            for device in ["a", "b/with {braces} and ü", "c"] {
                _ = try await fixture.registrations.register(registration(device, "1"), record("aa"))
            }
            _ = try await fixture.registrations.register(registration("a", "2"), record("cc"))
            let devices = try await fixture.registrations.devices(of: [key("2"), key("none"), key("1")])
            #expect(
                devices.map { $0.map(\.device.rawValue).sorted() } == [["a"], [], ["a", "b/with {braces} and ü", "c"]])
            #expect(try await fixture.registrations.devices(of: []).isEmpty)
        }
    }

    @Test func unreadableRegistrationsAndDamagedKeysAreSkipped() async throws {
        try await StoreFixture.with { fixture in
            _ = try await fixture.registrations.register(registration("a", "1"), record("aa"))
            _ = try await fixture.raw("HSET", StoreKeys.devices(try key("1")), "b", "not a record")
            _ = try await fixture.raw("SET", StoreKeys.devices(try key("2")), "a string")
            let devices = try await fixture.registrations.devices(of: [key("1"), key("2")])
            #expect(devices.map { $0.map(\.device.rawValue) } == [["a"], []])
        }
    }

    @Test func modificationTimesAreReadFromTheOrders() async throws {
        try await StoreFixture.with { fixture in
            _ = try await fixture.write(version("1", 1))
            #expect(try await fixture.registrations.modified([key("none"), key("1")]) == [nil, 1_741_190_532])
        }
    }
}
