import Kafka
import Model
import Store
import TestKit
import TestTraits
import Testing

@testable import Gateway

/// Registrations of made-up devices. Serialized: each test has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct DeviceLimitTests {
    typealias Fixture = GatewayFixture

    private func written(_ fixture: Fixture) async throws -> Int64 {
        let admin = try KafkaAdmin(KafkaConfiguration(bootstrap: fixture.broker.bootstrap))
        let count = try await admin.endOffsets("waybill.registrations").values.reduce(0, +)
        await admin.close()
        return count
    }

    private func register(
        _ fixture: Fixture, _ device: String, token: String = "aa11"
    ) async throws -> RawConnection.Response {
        try await fixture.once(
            "POST", fixture.registration(device, "1"), token: Fixture.ownToken, body: "{\"pushToken\":\"\(token)\"}")
    }

    private func unregister(_ fixture: Fixture, _ device: String) async throws -> RawConnection.Response {
        try await fixture.once("DELETE", fixture.registration(device, "1"), token: Fixture.ownToken)
    }

    @Test func anExcessRegistrationIsRefusedBeforeItReachesKafka() async throws {
        try await Fixture.with(.init(deviceLimit: 3)) { fixture in
            try await fixture.put("1")
            for number in 0..<3 { #expect(try await self.register(fixture, "d\(number)").status == 201) }
            #expect(try await self.written(fixture) == 3)
            for number in 3..<6 {
                let answer = try await self.register(fixture, "d\(number)")
                #expect(answer.status == 429)
                #expect(answer["retry-after"] == "3600")
                #expect(try JSON(parsing: answer.body).object?["error"] != nil)
            }
            #expect(try await self.written(fixture) == 3)
            #expect(fixture.metricsText.contains(#"waybill_registrations_refused_total{reason="devices"} 3"#))
            // A registered device can always repeat its registration, without a record, and unregister.
            for _ in 0..<5 { #expect(try await self.register(fixture, "d0").status == 200) }
            #expect(try await self.written(fixture) == 3)
            #expect(try await self.unregister(fixture, "d0").status == 200)
            #expect(try await self.written(fixture) == 4)
            // There is room, but not for a fourth new device this hour; a made-up end would be a record as well.
            for answer in [try await self.register(fixture, "d9"), try await self.unregister(fixture, "d9")] {
                #expect(answer.status == 429)
                #expect((1...1200).contains(answer["retry-after"].flatMap { Int($0) } ?? 0))
            }
            #expect(try await self.written(fixture) == 4)
            #expect(fixture.metricsText.contains(#"waybill_registrations_refused_total{reason="rate"} 2"#))
        }
    }

    @Test func anotherPushTokenCountsAsANewDevice() async throws {
        try await Fixture.with(.init(deviceLimit: 5)) { fixture in
            try await fixture.put("1")
            #expect(try await self.register(fixture, "d0").status == 201)
            var statuses: [Int] = []
            for number in 0..<8 {
                statuses.append(try await self.register(fixture, "d0", token: "b\(number)").status)
            }
            #expect(statuses == [200, 200, 200, 200, 429, 429, 429, 429])
            #expect(try await self.written(fixture) == 5)
            #expect(fixture.metricsText.contains(#"waybill_registrations_refused_total{reason="rate"} 4"#))
            #expect(try await self.register(fixture, "d0", token: "b3").status == 200, "the token that it has")
            #expect(try await self.unregister(fixture, "d0").status == 200)
            #expect(try await self.written(fixture) == 6)
        }
    }

    /// A device's push token ended, and its registration was removed with it.
    @Test func whatWasRetiredIsRegisteredAgain() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            #expect(try await self.register(fixture, "d").status == 201)
            let registrations = Registrations(redis: fixture.redis)
            let key = RegistrationKey(device: try DeviceIdentifier("d"), order: try Fixture.key("1"))
            let standing = try #require(try await registrations.registration(key))
            #expect(try await registrations.retire(key, standing))
            #expect(try await self.register(fixture, "d").status == 201)
            #expect(try await self.written(fixture) == 2)
        }
    }

    @Test func unregisteringAnUnknownDeviceSucceedsUpToTheLimit() async throws {
        try await Fixture.with(.init(deviceLimit: 3)) { fixture in
            try await fixture.put("1")
            for number in 0..<3 { #expect(try await self.unregister(fixture, "d\(number)").status == 200) }
            #expect(try await self.unregister(fixture, "d3").status == 429)
            #expect(try await self.written(fixture) == 3)
        }
    }

    @Test(arguments: ["%7D", "%7B", "%7Dx", "%7B%7D"])
    func aDeviceNamedWithBracesWorksOnACluster(device: String) async throws {
        try await Fixture.with(.init(isCluster: true)) { fixture in
            try await fixture.put("1")
            #expect(try await self.register(fixture, device).status == 201)
            #expect(try await self.register(fixture, device).status == 200)
            let list = try await fixture.once("GET", fixture.list(device))
            #expect(list.status == 200)
            #expect(list.text.contains(#"["1"]"#))
            #expect(try await self.unregister(fixture, device).status == 200)
            #expect(try await fixture.once("GET", fixture.list(device)).status == 204)
        }
    }
}
