import Cryptography
import Foundation
import Kafka
import Model
import Redis
import TestKit
import TestTraits
import Testing
import Tokens

@testable import Checkout

/// The dialect of payment providers, with the real process. Serialized: each test has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(4))) struct ConfirmTests {
    typealias Fixture = CheckoutFixture
    static let path = "/v1/payment_intents/pi_123/confirm"
    static let form = "Content-Type: application/x-www-form-urlencoded"

    static var options: Fixture.Options {
        var options = Fixture.Options()
        options.hasRedis = true
        return options
    }

    static func details(_ more: String = "") -> String {
        "payment_method=\(Fixture.marker)&apple_pay_order_details[order_type_identifier]=\(Fixture.orderType)"
            + "&apple_pay_order_details[order_identifier]=1234" + more
    }

    @Test func aConfirmRequestIsAnsweredWithTheOrderDetails() async throws {
        try await Fixture.with(Self.options) { fixture in
            let token = fixture.secrets.token(for: try Fixture.orderKey("1234")).rawValue
            // The body that curl sends with -u "$key:" -d "…" and all four members.
            let body = Self.details(
                "&apple_pay_order_details[web_service_url]=https%3A%2F%2Fwallet.example%2Fapple%2F"
                    + "&apple_pay_order_details[authentication_token]=\(token)")
            let basic = "Authorization: Basic \(Data("\(Fixture.key):".utf8).base64EncodedString())"
            let answer = try await fixture.once("POST", Self.path, [basic, Self.form], body: body)
            let snake: JSON = [
                "order_type_identifier": .string(Fixture.orderType), "order_identifier": "1234",
                "web_service_url": "https://wallet.example/apple", "authentication_token": .string(token),
            ]
            let camel: JSON = [
                "orderTypeIdentifier": .string(Fixture.orderType), "orderIdentifier": "1234",
                "webServiceURL": "https://wallet.example/apple", "authenticationToken": .string(token),
            ]
            #expect(
                answer.json == [
                    "id": "pi_123", "object": "payment_intent", "forwarded": false, "apple_pay_order_details": snake,
                    "order_details": camel,
                ])
            let json = JSON.object(["payment_method": .string(Fixture.marker), "applePayOrderDetails": camel])
            let other = try await fixture.call("POST", Self.path, body: json.text)
            #expect(other.json == answer.json, "\(other.text)")
            let bare = try await fixture.call("POST", Self.path, [Self.form], body: "payment_method=\(Fixture.marker)")
            #expect(bare.json == ["id": "pi_123", "object": "payment_intent", "forwarded": false])
        }
    }

    @Test func wrongDetailsAreRefusedWithTheirParameter() async throws {
        try await Fixture.with(Self.options) { fixture in
            let document = try #require(try JSON(parsing: Array(CheckoutDetailsTests.document.utf8)).object)
            try await fixture.put("own", document, token: "a-token-of-the-shop")
            func refusal(_ body: String) async throws -> String {
                let answer = try await fixture.call("POST", Self.path, [Self.form], body: body)
                return
                    "\(answer.status) \(answer.json.object?["error"]?.object?["param"]?.string ?? "") \(answer.code ?? "")"
            }
            let name = "apple_pay_order_details"
            #expect(
                try await refusal(Self.details("&\(name)[authentication_token]=tok_abc123"))
                    == "422 \(name)[authentication_token] order_details_refused", "ten characters")
            #expect(
                try await refusal(Self.details("&\(name)[authentication_token]=tok_of_somebody_else"))
                    == "422 \(name)[authentication_token] order_details_refused")
            #expect(
                try await refusal(Self.details("&\(name)[web_service_url]=https://other.example"))
                    == "422 \(name)[web_service_url] order_details_refused")
            #expect(
                try await refusal(Self.details("&\(name)[orderIdentifier]=1"))
                    == "400 \(name) invalid_parameter", "two spellings")
            #expect(
                try await refusal("\(name)[order_identifier]=1")
                    == "400 \(name)[order_type_identifier] missing_parameter")
            #expect(try await refusal("\(name)=1") == "400 \(name) invalid_parameter")
            #expect(try await refusal("a=1&a=2") == "400  malformed_body")
            let owned = Self.details("&\(name)[authentication_token]=a-token-of-the-shop").replacing(
                "1234", with: "own")
            let answer = try await fixture.call("POST", Self.path, [Self.form], body: owned)
            #expect(answer.status == 200, "the token of the order that stands: \(answer.text)")
            #expect(try await fixture.call("POST", Self.path, ["Content-Type: text/plain"], body: "a=1").status == 415)
            #expect(
                try await fixture.call("POST", "/v1/payment_intents/a%20b/confirm", [Self.form], body: "a=1").status
                    == 404)
        }
    }

    @Test func anIdempotencyKeyRepeatsTheAnswerAndStoresNoToken() async throws {
        try await Fixture.with(Self.options) { fixture in
            let headers = [Self.form, "Idempotency-Key: key-1"]
            let first = try await fixture.call("POST", Self.path, headers, body: Self.details())
            let again = try await fixture.call("POST", Self.path, headers, body: Self.details())
            #expect(first.status == 200)
            #expect(again.body == first.body)
            let other = try await fixture.call("POST", Self.path, headers, body: Self.details("&x=1"))
            #expect(other.status == 409)
            #expect(other.code == "idempotency_conflict")
            let elsewhere = try await fixture.call(
                "POST", "/v1/payment_intents/pi_2/confirm", headers, body: Self.details("&x=1"))
            #expect(elsewhere.status == 200, "another path is another request")
            let token = fixture.secrets.token(for: try Fixture.orderKey("1234")).rawValue
            let redis = try #require(fixture.redis)
            try await Fixture.withClient(redis) { redis in
                _ = try await redis.send(RedisCommand("CONFIG", "SET", "rdbcompression", "no"))
                let keys = try await redis.send(RedisCommand("KEYS", "*")).array ?? []
                #expect(keys.contains { $0.text?.hasPrefix("waybill:1:idempotency:") == true })
                for key in keys.compactMap(\.text) {
                    #expect(!key.contains(token))
                    let value = try await redis.send(RedisCommand("DUMP", .string(key)))
                    #expect(value.text?.contains(token) != true, "\(key)")
                }
            }
            // An order sent with the details is published once, however often the request is repeated.
            let order = #"{"order":\#(CheckoutDetailsTests.document)}"#
            let paths = ["Idempotency-Key: key-2"]
            let minted = try await fixture.call("POST", "/v1/checkout/order-details", paths, body: order)
            let repeated = try await fixture.call("POST", "/v1/checkout/order-details", paths, body: order)
            #expect(minted.status == 200)
            #expect(repeated.body == minted.body)
            #expect(try await fixture.published() == 1)
        }
    }

    @Test func anIdempotencyKeyIsRefusedWithoutRedis() async throws {
        try await Fixture.with { fixture in
            let answer = try await fixture.call(
                "POST", Self.path, [Self.form, "Idempotency-Key: k"], body: Self.details())
            #expect(answer.status == 503)
            #expect(answer.code == "unavailable")
            #expect(try await fixture.call("POST", Self.path, [Self.form], body: Self.details()).status == 200)
        }
    }

    @Test func aForwardedRequestGoesWithoutTheDetails() async throws {
        try await Self.withProvider { fixture, provider in
            func confirm(_ headers: [String] = [Self.form]) async throws -> RawConnection.Response {
                try await fixture.call("POST", Self.path, headers, body: Self.details("&amount=1%2B1"))
            }
            try provider.answer(Self.path, 200, #"{"id":"pi_123","status":"succeeded"}"#)
            let good = try await confirm([Self.form, "Idempotency-Key: k1"])
            #expect(good.status == 200)
            #expect(good.json.object?["status"]?.string == "succeeded")
            #expect(good.json.object?["order_details"]?.object?["orderIdentifier"]?.string == "1234")
            let again = try await confirm([Self.form, "Idempotency-Key: k1"])
            #expect(again.body == good.body)
            #expect(provider.seen.count == 1)
            let seen = try #require(provider.seen.first)
            #expect(seen.body == "payment_method=\(Fixture.marker)&amount=1%2B1")
            #expect(seen.method == "POST")
            #expect(seen.headers["authorization"] == "Basic c2tfdGVzdF9wcm92aWRlcjo=")
            #expect(seen.headers["content-type"] == "application/x-www-form-urlencoded")
            #expect(seen.headers["idempotency-key"] == "k1")
            try provider.answer(Self.path, 402, #"{"error":{"code":"card_declined"}}"#)
            let declined = try await confirm()
            #expect(declined.status == 402)
            #expect(declined.text == #"{"error":{"code":"card_declined"}}"#)
            try provider.answer(Self.path, 200, "<p>paid</p>", type: "text/html")
            let page = try await confirm()
            #expect(page.text == "<p>paid</p>")
            #expect(page["content-type"] == "text/html")
            let header = try #require(page["waybill-order-details"])
            let details = try #require(Base64URL.decode(Array(header.utf8)))
            #expect(try JSON(parsing: details).object?["orderIdentifier"]?.string == "1234")
            try provider.answer(Self.path, 0, "")
            let lost = try await confirm()
            #expect(lost.status == 504)
            #expect(lost.code == "outcome_unknown")
            let wrong = try await fixture.call(
                "POST", Self.path, [Self.form],
                body: Self.details("&apple_pay_order_details[authentication_token]=x"))
            #expect(wrong.status == 422)
            #expect(provider.seen.count == 4, "checked before anything is sent, and nothing sent twice")
            await provider.stop()
            let refused = try await confirm()
            #expect(refused.status == 502)
            #expect(refused.code == "upstream_unavailable")
        }
    }

    /// Runs a test with a payment provider to which `confirm` is forwarded.
    static func withProvider(_ body: @escaping @Sendable (Fixture, ShopServer) async throws -> Void) async throws {
        let provider = try await ShopServer.start()
        var options = Self.options
        options.files = [
            ("merchants/shop/provider.pem", provider.rootPEM),
            ("merchants/shop/provider-key", Array("Basic c2tfdGVzdF9wcm92aWRlcjo=\n".utf8)),
        ]
        options.merchant = [
            "confirm": [
                "mode": "forward", "url": .string("\(provider.url)/v1/payment_intents/{id}/confirm"),
                "authorization": "provider-key", "addresses": ["127.0.0.1"], "roots": "provider.pem",
            ]
        ]
        do {
            try await Fixture.with(options) { try await body($0, provider) }
        } catch {
            await provider.stop()
            throw error
        }
        await provider.stop()
    }

    @Test func anUnknownOutcomeStaysUnderItsKey() async throws {
        try await Self.withProvider { fixture, provider in
            func confirm(_ key: String, _ more: String = "") async throws -> RawConnection.Response {
                try await fixture.call(
                    "POST", Self.path, [Self.form, "Idempotency-Key: \(key)"], body: Self.details(more))
            }
            // The connection is closed after the body was read.
            try provider.answer(Self.path, 0, "")
            for _ in 0..<2 {
                let lost = try await confirm("k1")
                #expect(lost.status == 504)
                #expect(lost.code == "outcome_unknown")
            }
            #expect(provider.seen.count == 1)
            #expect(try await confirm("k1", "&x=1").code == "idempotency_conflict")
            try provider.answer(Self.path, 502, "<p>bad gateway</p>", type: "text/html")
            #expect(try await confirm("k2").text == "<p>bad gateway</p>")
            #expect(try await confirm("k2").code == "outcome_unknown")
            #expect(provider.seen.count == 2)
            try provider.answer(Self.path, 200, #"{"status":"succeeded"}"#)
            #expect(try await confirm("k1").code == "outcome_unknown")
            #expect(try await confirm("k3").status == 200, "a new key")
            #expect(provider.seen.count == 3)
            await provider.stop()
            for _ in 0..<2 {
                #expect(try await confirm("k4").code == "upstream_unavailable", "nothing was sent: the key is free")
            }
        }
    }

    /// A provider that is busy, wants the request later or does not know us has decided nothing.
    @Test func aRefusalThatDecidesNothingLeavesTheKeyFree() async throws {
        try await Self.withProvider { fixture, provider in
            func confirm(_ key: Int) async throws -> Int {
                try await fixture.call(
                    "POST", Self.path, [Self.form, "Idempotency-Key: k\(key)"], body: Self.details()
                ).status
            }
            for status in [401, 403, 408, 409, 425, 429, 402, 400, 404, 422] {
                let isFinal = [402, 400, 404, 422].contains(status)
                try provider.answer(Self.path, status, #"{"error":{}}"#)
                #expect(try await confirm(status) == status)
                let seen = provider.seen.count
                try provider.answer(Self.path, 200, #"{"status":"succeeded"}"#)
                #expect(try await confirm(status) == (isFinal ? status : 200))
                #expect(try await confirm(status) == (isFinal ? status : 200))
                #expect(provider.seen.count == seen + (isFinal ? 0 : 1), "\(status)")
                #expect(provider.seen.last?.headers["idempotency-key"] == "k\(status)")
            }
        }
    }

    @Test func anAnswerIsNotReadableInRedis() async throws {
        try await Self.withProvider { fixture, provider in
            let billing = #"{"status":"succeeded","billing_details":{"postal_code":"\#(Fixture.postalCode)"}}"#
            try provider.answer(Self.path, 200, billing)
            func confirm() async throws -> RawConnection.Response {
                try await fixture.call(
                    "POST", Self.path, [Self.form, "Idempotency-Key: k1"], body: Self.details())
            }
            let first = try await confirm()
            #expect(first.text.contains(Fixture.postalCode))
            #expect(try await confirm().body == first.body)
            #expect(provider.seen.count == 1)
        }
    }

    @Test func anIdentifierThatIsMadeUpFollowsFromTheKey() async throws {
        try await Fixture.with(Self.options) { fixture in
            func identifier(_ key: String) async throws -> String {
                let answer = try await fixture.call(
                    "POST", "/v1/checkout/order-details", ["Idempotency-Key: \(key)"], body: "{}")
                let details = answer.json.object?["orderDetails"]?.object
                return try #require(details?["orderIdentifier"]?.string, "\(answer.text)")
            }
            let first = try await identifier("k1")
            #expect(try await identifier("k2") != first)
            let redis = try #require(fixture.redis)
            try await Fixture.withClient(redis) { _ = try await $0.send(RedisCommand("FLUSHALL")) }
            #expect(try await identifier("k1") == first)
        }
    }

    @Test func notifyPublishesTheIncludedChange() async throws {
        try await Fixture.with(Self.options) { fixture in
            let document = try #require(try JSON(parsing: Array(CheckoutDetailsTests.document.utf8)).object)
            try await fixture.put("1", document)
            let path = "/v1/apple_pay/order_tracking/notify"
            func notify(_ members: JSONObject) async throws -> RawConnection.Response {
                let base: JSONObject = [
                    "order_identifier": "1", "order_type_identifier": .string(Fixture.orderType),
                ]
                return try await fixture.call("POST", path, body: JSON.object(base.merging(members)).text)
            }
            #expect(try await notify(["order": .object(document)]).status == 202)
            #expect(try await notify(["patch": ["status": "completed"]]).status == 202)
            let part: JSON = ["fulfillmentIdentifier": "f", "fulfillmentType": "shipping", "status": "open"]
            #expect(try await notify(["fulfillment": part]).status == 202)
            #expect(try await notify(["patch": ["status": "teleported"]]).code == "order_invalid")
            #expect(try await notify(["patch": [:], "order": [:]]).code == "invalid_parameter")
            #expect(try await notify(["order_identifier": "2"]).status == 404)
            #expect(try await notify([:]).json.object?["version"] == 1)
            #expect(try await notify(["touch": true]).status == 202)
            let types = try await fixture.changes(5).map { record in
                try OrderChange.decode(
                    key: record.key, value: record.value, headers: record.headers.map { ($0.name, $0.value) })
            }
            #expect(types.map(\.key.order.rawValue) == ["1", "1", "1", "1", "1"])
            #expect(types.suffix(2).map(\.kind) == [.announced(touch: false), .announced(touch: true)])
        }
    }
}
