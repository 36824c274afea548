import Model
import TestKit
import Testing

@testable import Store

/// One after the other: each has a server of its own.
@Suite(.serialized) struct RegistrationsTests {
    @Test func aSecondRegistrationReplacesThePushTokenAndSaysSo() async throws {
        try await StoreBench.with { bench in
            let key = try registration("device", "1")
            #expect(try await !bench.registrations.register(key, record("aa")))
            #expect(try await bench.registrations.register(key, record("aa")))
            #expect(try await bench.registrations.register(key, record("bb", at: 1_741_190_531_001)))
            let devices = try await bench.registrations.devices(of: [key.order])
            let newest = Registrations.Registered(device: key.device, registration: try record("bb", at: 1_741_190_531_001))
            #expect(devices == [[newest]])
            #expect(try await bench.registrations.orders(of: key.device, type: key.order.orderType) == [key.order.order])
        }
    }

    @Test func onlyTheRegistrationThatWasReadIsRetired() async throws {
        try await StoreBench.with { bench in
            let key = try registration("device", "1")
            _ = try await bench.registrations.register(key, record("aa", at: 1))
            _ = try await bench.registrations.register(key, record("aa", at: 2))
            #expect(try await !bench.registrations.retire(key, record("aa", at: 1)), "it was renewed")
            #expect(try await bench.registrations.orders(of: key.device, type: key.order.orderType).count == 1)
            #expect(try await bench.registrations.retire(key, record("aa", at: 2)))
            #expect(try await !bench.registrations.retire(key, record("aa", at: 2)))
            #expect(try await bench.registrations.devices(of: [key.order]) == [[]])
            #expect(try await bench.registrations.orders(of: key.device, type: key.order.orderType).isEmpty)
        }
    }

    @Test func unregisteringAgainIsNoError() async throws {
        try await StoreBench.with { bench in
            let key = try registration("device", "1")
            _ = try await bench.registrations.register(key, record("aa"))
            _ = try await bench.registrations.register(registration("device", "2"), record("aa"))
            for _ in 0..<2 { try await bench.registrations.unregister(key) }
            #expect(try await bench.registrations.orders(of: key.device, type: key.order.orderType).map(\.rawValue) == ["2"])
            #expect(try await bench.registrations.devices(of: [key.order]) == [[]])
        }
    }

    @Test func devicesAreGivenPerOrderInTheOrderOfTheKeys() async throws {
        try await StoreBench.with { bench in
            for device in ["a", "b/with {braces} and ü", "c"] {
                _ = try await bench.registrations.register(registration(device, "1"), record("aa"))
            }
            _ = try await bench.registrations.register(registration("a", "2"), record("cc"))
            let devices = try await bench.registrations.devices(of: [key("2"), key("none"), key("1")])
            #expect(devices.map { $0.map(\.device.rawValue).sorted() } == [["a"], [], ["a", "b/with {braces} and ü", "c"]])
            #expect(try await bench.registrations.devices(of: []).isEmpty)
        }
    }

    @Test func anEntryThatCannotBeReadIsLeftOutAndADamagedKeyStopsNobody() async throws {
        try await StoreBench.with { bench in
            _ = try await bench.registrations.register(registration("a", "1"), record("aa"))
            _ = try await bench.raw("HSET", StoreKeys.devices(try key("1")), "b", "not a record")
            _ = try await bench.raw("SET", StoreKeys.devices(try key("2")), "a string")
            let devices = try await bench.registrations.devices(of: [key("1"), key("2")])
            #expect(devices.map { $0.map(\.device.rawValue) } == [["a"], []])
        }
    }

    @Test func modificationTimesAreThoseOfTheOrders() async throws {
        try await StoreBench.with { bench in
            _ = try await bench.write(version("1", 1))
            #expect(try await bench.registrations.modified([key("none"), key("1")]) == [nil, 1_741_190_532])
        }
    }
}
