import Kafka
import Model
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Gateway

/// A registration whose order is removed, or whose Redis fails, between its record in Kafka and Redis. Serialized: each
/// test has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct RemovalRaceTests {
    typealias Fixture = GatewayFixture
    private static let body = #"{"pushToken":"aa11"}"#

    private func records(_ fixture: Fixture, _ count: Int) async throws -> [KafkaRecord] {
        try await fixture.broker.records(count, of: "waybill.registrations")
    }

    private func keys(_ fixture: Fixture, _ pattern: String) async throws -> [String] {
        let reply = try await fixture.redis.send(RedisCommand("KEYS", .string(pattern)))
        return (reply.array ?? []).compactMap(\.text)
    }

    @Test func aRegistrationBehindARemovalEnds() async throws {
        try await Fixture.with { fixture in
            // Kafka acknowledges the record once the order is removed. On a busy machine that is too late at times.
            try fixture.broker.setDelay(milliseconds: 500)
            for attempt in 0..<20 {
                let (order, device) = ("o\(attempt)", "device-\(attempt)")
                try await fixture.put(order)
                async let answer = fixture.once(
                    "POST", fixture.registration(device, order), token: Fixture.ownToken, body: Self.body)
                try await eventually("admitted") {
                    try await !self.keys(fixture, "waybill:1:devices-admitted:*/\(order)}").isEmpty
                }
                try await fixture.put(order, version: 2, isRemoved: true)
                guard try await answer.status == 401 else { continue }
                let admin = try KafkaAdmin(KafkaConfiguration(bootstrap: fixture.broker.bootstrap))
                let count = try await admin.endOffsets("waybill.registrations").values.reduce(0, +)
                await admin.close()
                let records = try await self.records(fixture, Int(count)).filter { record in
                    String(decoding: record.key ?? [], as: UTF8.self).hasPrefix("\(device)/")
                }
                #expect(records.map { $0.value == nil } == [false, true], "it has its end")
                let key = RegistrationKey(device: try DeviceIdentifier(device), order: try Fixture.key(order))
                let registrations = Registrations(redis: fixture.redis)
                #expect(try await registrations.registration(key) == nil)
                #expect(try await registrations.orders(of: key.device, type: key.order.orderType).isEmpty)
                return
            }
            Issue.record("each registration was taken")
        }
    }

    @Test func aRegistrationThatRedisDoesNotTakeEnds() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            // Redis has something else where the device's orders belong.
            let path = fixture.registration("device", "1")
            #expect(try await fixture.once("POST", path, token: Fixture.ownToken, body: Self.body).status == 201)
            let listed = try #require(try await self.keys(fixture, "waybill:1:listed:*").first)
            _ = try await fixture.redis.send(RedisCommand("SET", .string(listed), "something else"))
            let body = #"{"pushToken":"bb22"}"#
            #expect(try await fixture.once("POST", path, token: Fixture.ownToken, body: body).status == 503)
            let records = try await self.records(fixture, 3)
            #expect(records.map { $0.value == nil } == [false, false, true], "Kafka says what the device heard")
            // It tries again.
            _ = try await fixture.redis.send(RedisCommand("DEL", .string(listed)))
            let again = try await fixture.once("POST", path, token: Fixture.ownToken, body: body).status
            #expect(again == 200 || again == 201)
            #expect(try await self.records(fixture, 4).last?.value != nil)
        }
    }
}
