import Kafka
import Model
import NIOCore
import Store
import TestKit
import TestTraits
import Testing

@testable import Gateway

/// Registrations of devices. Serialized: each test has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct RegistrationTests {
    typealias Fixture = GatewayFixture

    func registered(_ fixture: Fixture, _ order: String) async throws -> [String] {
        try await Registrations(redis: fixture.redis).devices(of: [Fixture.key(order)])[0]
            .map { "\($0.device.rawValue)=\($0.registration.pushToken.rawValue)" }
    }

    @Test func aRegistrationIs201Then200AndIsInKafkaBeforeTheAnswer() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            let admin = try KafkaAdmin(KafkaConfiguration(bootstrap: fixture.broker.bootstrap))
            func written() async throws -> Int64 {
                try await admin.endOffsets("waybill.registrations").values.reduce(0, +)
            }
            let path = fixture.registration("device%2F1", "1")
            let first = try await fixture.once("POST", path, token: Fixture.ownToken, body: #"{"pushToken":"aa11"}"#)
            #expect(first.status == 201)
            #expect(first.body.isEmpty)
            #expect(first["content-length"] == "0")
            #expect(try await written() == 1)
            #expect(
                try await fixture.once("POST", path, token: Fixture.ownToken, body: #"{"pushToken":"aa11"}"#).status
                    == 200)
            #expect(
                try await fixture.once("POST", path, token: Fixture.ownToken, body: #"{"pushToken":"bb22"}"#).status
                    == 200)
            #expect(try await self.registered(fixture, "1") == ["device/1=bb22"])
            #expect(try await written() == 2, "what repeats the first leaves no record")
            for _ in 0..<2 {
                #expect(try await fixture.once("DELETE", path, token: Fixture.ownToken).status == 200)
                #expect(try await self.registered(fixture, "1").isEmpty)
            }
            await admin.close()

            let consumer = try KafkaConsumer(
                KafkaConfiguration(bootstrap: fixture.broker.bootstrap, properties: KafkaBroker.quick), group: "g",
                topics: ["waybill.registrations"])
            var records: [KafkaRecord] = []
            let deadline = ContinuousClock.now + .seconds(30)
            while records.count < 4 {
                try #require(ContinuousClock.now < deadline)
                records += try await consumer.nextBatch(records: 10, bytes: 1 << 20, wait: .milliseconds(300))
            }
            await consumer.close()
            #expect(
                records.map { String(decoding: $0.key ?? [], as: UTF8.self) }
                    == Array(repeating: "device/1/\(Fixture.orderType)/1", count: 4))
            let tokens = try records.map { try $0.value.map { try RegistrationRecord.decode($0).pushToken.rawValue } }
            #expect(tokens == ["aa11", "bb22", nil, nil])
        }
    }

    @Test func aRegistrationNeedsTheTokenAndAValidBody() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            let path = fixture.registration("device", "1")
            let body = #"{"pushToken":"aa11"}"#
            let refused = [
                try await fixture.once("POST", path, body: body),
                try await fixture.once("POST", path, token: "not-the-token-of-it", body: body),
                try await fixture.once(
                    "POST", fixture.registration("device", "2"), token: Fixture.ownToken, body: body),
                try await fixture.once("DELETE", path, token: "not-the-token-of-it"),
                try await fixture.once("DELETE", path),
            ]
            #expect(refused.map(\.status) == [401, 401, 401, 401, 401])
            #expect(Set(refused.map(\.body)).count == 1)
            for body in ["", "{", "{}", #"{"pushToken":"zz"}"#, "[]"] {
                let answer = try await fixture.once("POST", path, token: Fixture.ownToken, body: body)
                #expect(answer.status == 400)
                #expect(try JSON(parsing: answer.body).object?["error"] != nil)
            }
            #expect(try await self.registered(fixture, "1").isEmpty)
        }
    }

    @Test func theListSaysWhatChangedSinceItsTag() async throws {
        try await Fixture.with { fixture in
            for order in ["b", "a"] {
                try await fixture.put(order)
                let path = fixture.registration("device", order)
                #expect(
                    try await fixture.once("POST", path, token: Fixture.ownToken, body: #"{"pushToken":"aa"}"#).status
                        == 201)
            }
            func list(_ tag: String?) async throws -> (status: Int, orders: [String], tag: String) {
                let answer = try await fixture.once("GET", fixture.list("device", tag))
                if answer.status == 204 {
                    #expect(answer.body.isEmpty)
                    #expect(answer["content-length"] == nil)
                    return (204, [], "")
                }
                #expect(answer["content-type"] == "application/json")
                let object = try #require(try JSON(parsing: answer.body).object)
                #expect(object.members.map(\.name) == ["lastModified", "orderIdentifiers"])
                return (
                    answer.status, object["orderIdentifiers"]?.array?.compactMap(\.string) ?? [],
                    object["lastModified"]?.string ?? ""
                )
            }
            let all = try await list(nil)
            #expect(all.status == 200)
            #expect(all.orders == ["a", "b"])
            #expect(!all.tag.isEmpty)
            for tag in ["", "junk", "%ZZ"] { #expect(try await list(tag).orders == ["a", "b"]) }
            #expect(try await list(all.tag).status == 204)
            try await fixture.put("b", version: 2)
            let next = try await list(all.tag)
            #expect(next.orders == ["b"])
            #expect(next.tag != all.tag)
            #expect(try await list(next.tag).status == 204)
            #expect(try await list("").orders == ["a", "b"])
            #expect(try await fixture.once("GET", fixture.list("stranger")).status == 204)
            #expect(try await fixture.once("GET", "/v1/devices/d/registrations/order.com.other").status == 404)

            try await fixture.connected { connection in
                let head = try await connection.exchange(fixture.request("HEAD", fixture.list("device")))
                #expect(head.status == 200)
                #expect((head["content-length"].flatMap { Int($0) } ?? 0) > 10)
                let none = try await connection.exchange(fixture.request("HEAD", fixture.list("device", next.tag)))
                #expect(none.status == 204)
                #expect(try await connection.exchange(fixture.request("POST", "/v1/log", body: "[]")).status == 200)
            }
        }
    }

    @Test func aRegistrationWithoutKafkaGets503AndIsNotStored() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            try fixture.broker.setDown()
            let path = fixture.registration("device", "1")
            for (method, body) in [("POST", #"{"pushToken":"aa"}"#), ("DELETE", nil)] {
                let answer = try await fixture.once(method, path, token: Fixture.ownToken, body: body)
                #expect(answer.status == 503)
                #expect(answer["retry-after"] == "5")
            }
            #expect(try await self.registered(fixture, "1").isEmpty)
            #expect(try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken).status == 200)
            try fixture.broker.setUp()
            let deadline = ContinuousClock.now + .seconds(20)
            while try await fixture.once("POST", path, token: Fixture.ownToken, body: #"{"pushToken":"aa"}"#).status
                != 201
            {
                try #require(ContinuousClock.now < deadline)
            }
        }
    }

    @Test func devicesMayLogInBothShapes() async throws {
        try await Fixture.with { fixture in
            for body in [#"{"logs":["a","b\nc"]}"#, #"["a"]"#, "[]"] {
                let answer = try await fixture.once("POST", "/apple/v1/log", body: body)
                #expect(answer.status == 200)
            }
            for body in ["", "junk", #"{"logs":1}"#, "{}"] {
                let answer = try await fixture.once("POST", "/apple/v1/log", body: body)
                #expect(answer.status == 400)
            }
            #expect(fixture.metricsText.contains("waybill_device_log_messages_total 3"))
            #expect(fixture.metricsText.contains("waybill_responses_total{endpoint=\"log\",status=\"200\"} 3"))
        }
    }
}
