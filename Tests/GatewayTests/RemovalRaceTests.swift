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
            try await fixture.put("1")
            // Kafka takes the record once the order is removed.
            try fixture.broker.setDown()
            async let answer = fixture.once(
                "POST", fixture.registration("device", "1"), token: Fixture.ownToken, body: Self.body)
            try await eventually("admitted") {
                try await !self.keys(fixture, "waybill:1:devices-admitted:*").isEmpty
            }
            try await fixture.put("1", version: 2, isRemoved: true)
            try fixture.broker.setUp()
            #expect(try await answer.status == 401)
            let records = try await self.records(fixture, 2)
            #expect(records.map { $0.value == nil } == [false, true], "it has its end")
            #expect(records.map(\.key) == [records[0].key, records[0].key])
            for pattern in ["waybill:1:devices:*", "waybill:1:devices-stamps:*", "waybill:1:listed:*"] {
                #expect(try await self.keys(fixture, pattern) == [])
            }
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
