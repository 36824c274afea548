import Foundation
import Kafka
import Model
import Redis
import TestKit
import TestTraits
import Testing

@testable import Checkout

/// Order changes by HTTP, with the real process. Serialized: each test has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct CheckoutChangesTests {
    typealias Fixture = CheckoutFixture

    static var document: JSONObject {
        get throws { try JSON(parsing: Array(CheckoutDetailsTests.document.utf8)).object ?? [:] }
    }

    static func order(_ order: String) -> String { "/v1/checkout/orders/\(Fixture.orderType)/\(order)" }

    @Test func eachChangeTypeIsPublishedThroughHTTP() async throws {
        var options = Fixture.Options()
        options.hasRedis = true
        try await Fixture.with(options) { fixture in
            try await fixture.put("1", try Self.document)
            let path = Self.order("1")
            let fulfillment = #"{"fulfillmentType":"shipping","status":"open"}"#
            let rows: [(String, String, String?, ChangeType)] = [
                ("PUT", path, CheckoutDetailsTests.document, .orderReplaced),
                ("PATCH", path, #"{"status":"completed"}"#, .orderPatched),
                ("POST", path + "/fulfillments/f%2F1", fulfillment, .fulfillmentUpdated),
                ("POST", path + "/returns/r1", #"{"status":"open"}"#, .returnUpdated),
                ("DELETE", path, nil, .orderRemoved),
                ("POST", path + "/merge", #"{"owns":["status"],"status":"completed"}"#, .orderMerged),
                ("POST", path + "/announce", nil, .orderAnnounced),
                ("POST", path + "/announce?silent=false", #"{"touch":true}"#, .orderAnnounced),
                ("PATCH", path + "?silent=true", #"{"status":"completed"}"#, .orderPatched),
            ]
            var identifiers: [String] = []
            for (index, (method, path, body, type)) in rows.enumerated() {
                let answer = try await fixture.call(method, path, body: body)
                #expect(answer.status == 202, "\(method) \(path): \(answer.text)")
                #expect(answer.json.object?["type"]?.string == type.rawValue)
                #expect(try await fixture.published() == Int64(index + 1), "acknowledged before the answer")
                identifiers.append(answer.json.object?["id"]?.string ?? "")
            }
            let changes = try await fixture.changes(rows.count).map { record in
                try OrderChange.decode(
                    key: record.key, value: record.value, headers: record.headers.map { ($0.name, $0.value) })
            }
            #expect(changes.map(\.id) == identifiers)
            #expect(changes[0].kind == .replaced(OrderDocument(members: try Self.document)), "no token of ours in it")
            #expect(changes[1].kind == .patched(["status": "completed"]))
            #expect(
                changes[2].kind
                    == .fulfillmentUpdated(
                        identifier: "f/1",
                        ["fulfillmentIdentifier": "f/1", "fulfillmentType": "shipping", "status": "open"]))
            #expect(changes[4].kind == .removed)
            #expect(changes[5].kind == .merged(["status": "completed"], owns: try OwnedPaths(["status"], path: "owns")))
            #expect(changes[6].kind == .announced(touch: false))
            #expect(changes[7].kind == .announced(touch: true))
            #expect(changes.map(\.isSilent) == Array(repeating: false, count: 8) + [true])
        }
    }

    @Test func aChangeThatWouldBecomeADeadLetterIsRefused() async throws {
        var options = Fixture.Options()
        options.hasRedis = true
        try await Fixture.with(options) { fixture in
            try await fixture.put("1", try Self.document)
            let wrong = CheckoutDetailsTests.document.replacing("\"open\"", with: "\"opened\"")
            let answer = try await fixture.call("PUT", Self.order("1"), body: wrong)
            #expect(answer.status == 422)
            #expect(answer.code == "order_invalid")
            let details = answer.json.object?["error"]?.object?["details"]?.array
            #expect(details?.first?.object?["path"]?.string == "$.status")
            #expect(try await fixture.call("PATCH", Self.order("1"), body: #"{"status":"opened"}"#).status == 422)
            #expect(try await fixture.call("PATCH", Self.order("2"), body: #"{"status":"open"}"#).status == 404)
            let other = #"{"fulfillmentIdentifier":"other"}"#
            #expect(try await fixture.call("POST", Self.order("1") + "/fulfillments/f", body: other).status == 400)
            #expect(try await fixture.call("DELETE", Self.order("1"), body: "{}").code == "malformed_body")
            #expect(
                try await fixture.call("PUT", Self.order("1"), key: "sk_test_links-only", body: wrong).code
                    == "scope_missing")
            let type = "/v1/checkout/orders/\(Fixture.otherType)/1"
            #expect(try await fixture.call("PUT", type, body: CheckoutDetailsTests.document).status == 403)
            let refusals: [(String, String?, Int)] = [
                ("/merge", #"{"owns":"status."}"#, 400), ("/merge", #"{"status":"opened"}"#, 422),
                ("/merge?silent=yes", "{}", 400), ("/announce", #"{"touch":1}"#, 400),
                ("/announce", #"{"more":1}"#, 400), ("/other", "{}", 404),
            ]
            for (path, body, status) in refusals {
                let answer = try await fixture.call("POST", Self.order("1") + path, body: body)
                #expect(answer.status == status, "\(path) \(answer.text)")
            }
            #expect(try await fixture.call("POST", Self.order("2") + "/announce").status == 404)
            let get = try await fixture.call("GET", Self.order("1"))
            #expect(get.status == 405)
            #expect(get["allow"] == "PUT, PATCH, DELETE")
            #expect(try await fixture.published() == 0)
        }
    }

    @Test func theTraceOfARequestGoesOnWithItsChange() async throws {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        try await Fixture.with { fixture in
            let long = String(repeating: "a", count: 600)
            let rows = [
                ["Traceparent: \(parent)", "Tracestate: a=1"], ["traceparent: \(parent)", "tracestate: \(long)"],
                ["traceparent: \(parent)", "traceparent: \(parent)"], ["traceparent: 00-0-0-01"], ["tracestate: a=1"],
            ]
            for headers in rows {
                let answer = try await fixture.call(
                    "PUT", Self.order("1"), headers, body: CheckoutDetailsTests.document)
                #expect(answer.status == 202, "no request is refused for its trace: \(answer.text)")
            }
            let traces = try await fixture.changes(rows.count).map { record in
                record.headers.filter { $0.name.hasPrefix("trace") }
            }
            let name = KafkaHeader(name: "traceparent", text: parent)
            #expect(traces == [[name, KafkaHeader(name: "tracestate", text: "a=1")], [name], [], [], []])
        }
    }

    @Test func aPatchWaitsForAnOrderThatIsNotYetInRedis() async throws {
        var options = Fixture.Options()
        options.hasRedis = true
        try await Fixture.with(options) { fixture in
            async let answer = fixture.call("PATCH", Self.order("1"), body: #"{"status":"completed"}"#)
            try await Task.sleep(for: .milliseconds(300))
            try await fixture.put("1", try Self.document)
            #expect(try await answer.status == 202)
        }
    }

    @Test func theIdempotencyKeyNamesTheEvent() async throws {
        try await Fixture.with { fixture in
            func identifier(_ method: String, _ path: String, _ body: String?) async throws -> String? {
                let answer = try await fixture.call(method, path, ["Idempotency-Key: a-key"], body: body)
                #expect(answer.status == 202, "also without Redis: \(answer.text)")
                return answer.json.object?["id"]?.string
            }
            let document = CheckoutDetailsTests.document
            let first = try await identifier("PUT", Self.order("1"), document)
            #expect(first?.hasPrefix("a-key/") == true)
            #expect(try await identifier("PUT", Self.order("1"), document) == first)
            let completed = document.replacing("\"open\"", with: "\"completed\"")
            #expect(try await identifier("PUT", Self.order("1"), completed) != first)
            #expect(try await identifier("DELETE", Self.order("1"), nil) != first)
            let bad = try await fixture.call(
                "PUT", Self.order("1"), ["Idempotency-Key: a b"], body: CheckoutDetailsTests.document)
            #expect(bad.code == "invalid_parameter")
            let patch = try await fixture.call("PATCH", Self.order("1"), body: "{}")
            #expect(patch.status == 503, "nothing is known of the order without Redis")
            #expect(patch["retry-after"] != nil, "nothing is known of the order without Redis")
        }
    }

    @Test func anotherChangeUnderTheSameKeyIsAConflict() async throws {
        var options = Fixture.Options()
        options.hasRedis = true
        try await Fixture.with(options) { fixture in
            try await fixture.put("1", try Self.document)
            func change(_ path: String, _ body: String) async throws -> RawConnection.Response {
                try await fixture.call("POST", Self.order("1") + path, ["Idempotency-Key: k"], body: body)
            }
            let open = #"{"fulfillmentType":"shipping","status":"open"}"#
            let first = try await change("/fulfillments/a", open)
            #expect(first.status == 202)
            #expect(try await change("/fulfillments/a", open).body == first.body)
            #expect(try await fixture.published() == 1)
            let other = open.replacing("open", with: "delivered")
            #expect(try await change("/fulfillments/a", other).code == "idempotency_conflict")
            #expect(try await change("/fulfillments/a?silent=true", open).code == "idempotency_conflict")
            let elsewhere = try await change("/fulfillments/b", open)
            #expect(elsewhere.status == 202, "another path is another request")
            #expect(elsewhere.json.object?["id"]?.string != first.json.object?["id"]?.string)
            #expect(try await fixture.published() == 2)
        }
    }

    /// A checkout reads no records: it asks a packager to read a cold order back.
    @Test func aChangeOfAColdOrderIsTakenOnceThatIsWarm() async throws {
        var options = Fixture.Options()
        options.hasRedis = true
        try await Fixture.with(options) { fixture in
            try await fixture.put("1", try Self.document)
            let order = try Fixture.orderKey("1").description
            let key = RedisArgument.string("waybill:1:order:{\(order)}")
            let fields: [RedisArgument] = ["document", "sources", "recent"]
            let redis = try #require(fixture.redis)
            func patch() async throws -> RawConnection.Response {
                try await fixture.call("PATCH", Self.order("1"), body: #"{"status":"completed"}"#)
            }
            try await Fixture.withClient(redis) { client in
                let warm = try await client.send(RedisCommand(["HMGET", key] + fields)).array ?? []
                _ = try await client.send(RedisCommand("HSET", key, "record", "0:1:100:00000000:ended"))
                _ = try await client.send(RedisCommand(["HDEL", key] + fields))
                let answer = try await patch()
                #expect(answer.status == 503, "\(answer.text)")
                #expect(answer["retry-after"] == "1")
                #expect(try await fixture.published() == 0)
                try await eventually("it is asked for") {
                    let asked = try await client.send(RedisCommand("ZRANGE", "waybill:1:{requests}", "0", "-1"))
                    return asked.array?.map(\.text) == [order]
                }
                let values = zip(fields, warm).flatMap { [$0, RedisArgument.bytes($1.bytes ?? [])] }
                _ = try await client.send(RedisCommand(["HSET", key] + values))
                #expect(try await patch().status == 202)
            }
        }
    }
}
