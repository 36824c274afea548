import Kafka
import Model
import NIOCore
import Store
import TestKit
import TestTraits
import Testing

@testable import Gateway

/// One after the other: each has servers of its own.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct RegistrationTests {
    typealias Fixture = GatewayFixture

    func registered(_ bench: Fixture, _ order: String) async throws -> [String] {
        try await Registrations(redis: bench.redis).devices(of: [Fixture.key(order)])[0]
            .map { "\($0.device.rawValue)=\($0.registration.pushToken.rawValue)" }
    }

    @Test func aRegistrationIs201Then200AndIsInKafkaBeforeTheAnswer() async throws {
        try await Fixture.with { bench in
            try await bench.put("1")
            let admin = try KafkaAdmin(KafkaConfiguration(bootstrap: bench.broker.bootstrap))
            func written() async throws -> Int64 {
                try await admin.endOffsets("waybill.registrations").values.reduce(0, +)
            }
            let path = bench.registration("device%2F1", "1")
            let first = try await bench.once("POST", path, token: Fixture.ownToken, body: #"{"pushToken":"aa11"}"#)
            #expect(first.status == 201)
            #expect(first.body.isEmpty)
            #expect(first["content-length"] == "0")
            #expect(try await written() == 1)
            #expect(
                try await bench.once("POST", path, token: Fixture.ownToken, body: #"{"pushToken":"aa11"}"#).status
                    == 200)
            #expect(
                try await bench.once("POST", path, token: Fixture.ownToken, body: #"{"pushToken":"bb22"}"#).status
                    == 200)
            #expect(try await self.registered(bench, "1") == ["device/1=bb22"])
            #expect(try await written() == 3)
            for _ in 0..<2 {
                #expect(try await bench.once("DELETE", path, token: Fixture.ownToken).status == 200)
                #expect(try await self.registered(bench, "1").isEmpty)
            }
            await admin.close()

            let consumer = try KafkaConsumer(
                KafkaConfiguration(bootstrap: bench.broker.bootstrap, properties: KafkaBroker.quick), group: "g",
                topics: ["waybill.registrations"])
            var records: [KafkaRecord] = []
            let deadline = ContinuousClock.now + .seconds(30)
            while records.count < 5 {
                try #require(ContinuousClock.now < deadline)
                records += try await consumer.nextBatch(records: 10, bytes: 1 << 20, wait: .milliseconds(300))
            }
            await consumer.close()
            #expect(
                records.map { String(decoding: $0.key ?? [], as: UTF8.self) }
                    == Array(repeating: "device/1/\(Fixture.orderType)/1", count: 5))
            let tokens = try records.map { try $0.value.map { try RegistrationRecord.decode($0).pushToken.rawValue } }
            #expect(tokens == ["aa11", "aa11", "bb22", nil, nil])
        }
    }

    @Test func nobodyRegistersWithoutTheTokenOrWithABrokenBody() async throws {
        try await Fixture.with { bench in
            try await bench.put("1")
            let path = bench.registration("device", "1")
            let body = #"{"pushToken":"aa11"}"#
            let refused = [
                try await bench.once("POST", path, body: body),
                try await bench.once("POST", path, token: "not-the-token-of-it", body: body),
                try await bench.once("POST", bench.registration("device", "2"), token: Fixture.ownToken, body: body),
                try await bench.once("DELETE", path, token: "not-the-token-of-it"),
                try await bench.once("DELETE", path),
            ]
            #expect(refused.map(\.status) == [401, 401, 401, 401, 401])
            #expect(Set(refused.map(\.body)).count == 1)
            for body in ["", "{", "{}", #"{"pushToken":"zz"}"#, "[]"] {
                let answer = try await bench.once("POST", path, token: Fixture.ownToken, body: body)
                #expect(answer.status == 400)
                #expect(try JSON(parsing: answer.body).object?["error"] != nil)
            }
            #expect(try await self.registered(bench, "1").isEmpty)
        }
    }

    @Test func theListSaysWhatChangedSinceItsTag() async throws {
        try await Fixture.with { bench in
            for order in ["b", "a"] {
                try await bench.put(order)
                let path = bench.registration("device", order)
                #expect(
                    try await bench.once("POST", path, token: Fixture.ownToken, body: #"{"pushToken":"aa"}"#).status
                        == 201)
            }
            func list(_ tag: String?) async throws -> (status: Int, orders: [String], tag: String) {
                let answer = try await bench.once("GET", bench.list("device", tag))
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
            try await bench.put("b", version: 2)
            let next = try await list(all.tag)
            #expect(next.orders == ["b"])
            #expect(next.tag != all.tag)
            #expect(try await list(next.tag).status == 204)
            #expect(try await list("").orders == ["a", "b"])
            #expect(try await bench.once("GET", bench.list("stranger")).status == 204)
            #expect(try await bench.once("GET", "/v1/devices/d/registrations/order.com.other").status == 404)

            try await bench.connected { connection in
                let head = try await connection.exchange(bench.request("HEAD", bench.list("device")))
                #expect(head.status == 200)
                #expect((head["content-length"].flatMap { Int($0) } ?? 0) > 10)
                let none = try await connection.exchange(bench.request("HEAD", bench.list("device", next.tag)))
                #expect(none.status == 204)
                #expect(try await connection.exchange(bench.request("POST", "/v1/log", body: "[]")).status == 200)
            }
        }
    }

    @Test func withoutKafkaARegistrationIs503AndDoesNotStand() async throws {
        try await Fixture.with { bench in
            try await bench.put("1")
            try bench.broker.setDown()
            let path = bench.registration("device", "1")
            for (method, body) in [("POST", #"{"pushToken":"aa"}"#), ("DELETE", nil)] {
                let answer = try await bench.once(method, path, token: Fixture.ownToken, body: body)
                #expect(answer.status == 503)
                #expect(answer["retry-after"] == "5")
            }
            #expect(try await self.registered(bench, "1").isEmpty)
            #expect(try await bench.once("GET", bench.package("1"), token: Fixture.ownToken).status == 200)
            try bench.broker.setUp()
            let deadline = ContinuousClock.now + .seconds(20)
            while try await bench.once("POST", path, token: Fixture.ownToken, body: #"{"pushToken":"aa"}"#).status
                != 201
            {
                try #require(ContinuousClock.now < deadline)
            }
        }
    }

    @Test func devicesMayLogInBothShapes() async throws {
        try await Fixture.with { bench in
            for body in [#"{"logs":["a","b\nc"]}"#, #"["a"]"#, "[]"] {
                let answer = try await bench.once("POST", "/apple/v1/log", body: body)
                #expect(answer.status == 200)
            }
            for body in ["", "junk", #"{"logs":1}"#, "{}"] {
                let answer = try await bench.once("POST", "/apple/v1/log", body: body)
                #expect(answer.status == 400)
            }
            #expect(bench.metricsText.contains("waybill_device_log_messages_total 3"))
            #expect(bench.metricsText.contains("waybill_responses_total{endpoint=\"log\",status=\"200\"} 3"))
        }
    }
}
