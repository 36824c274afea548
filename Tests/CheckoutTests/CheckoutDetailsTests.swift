import Foundation
import Kafka
import Model
import TestKit
import TestTraits
import Testing
import Tokens

@testable import Checkout

/// Order details, grants and links, with the real process. Serialized: each test has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct CheckoutDetailsTests {
    typealias Fixture = CheckoutFixture

    static let document =
        #"{"createdAt":"2026-01-02T03:04:05Z","merchant":{"merchantIdentifier":"m","displayName":"Shop","#
        + #""url":"https://shop.example.com","logo":"logo.png"},"orderManagementURL":"https://shop.example.com/1","status":"open"}"#

    static let ownToken = #""authenticationToken":"a-token-of-the-shop","createdAt""#

    @Test func detailsAreMintedAsTheOfflineFormulaSays() async throws {
        try await Fixture.with { fixture in
            let path = "/v1/checkout/order-details"
            let body = #"{"orderTypeIdentifier":"\#(Fixture.orderType)","orderIdentifier":"1234"}"#
            let answer = try await fixture.call("POST", path, body: body)
            #expect(answer.status == 200)
            #expect(answer["cache-control"] == "no-store")
            #expect(answer["x-request-id"] != nil)
            let token = fixture.secrets.token(for: try Fixture.orderKey("1234")).rawValue
            let details: JSON = [
                "orderTypeIdentifier": .string(Fixture.orderType), "orderIdentifier": "1234",
                "webServiceURL": "https://wallet.example/apple", "authenticationToken": .string(token),
            ]
            #expect(answer.json == ["orderDetails": details, "published": false])
            #expect(try await fixture.call("POST", path, body: body).body == answer.body, "the same again")
            // The type may be omitted, since the key implies it; the identifier is then generated.
            let random = try await fixture.call("POST", path, body: "{}").json.object?["orderDetails"]?.object
            let identifier = try #require(random?["orderIdentifier"]?.string)
            #expect(identifier.utf8.count == 22)
            #expect(random?["orderTypeIdentifier"]?.string == Fixture.orderType)
            #expect(try await fixture.published() == 0)
            for headers in [
                ["Authorization: Basic \(Data("\(Fixture.key):".utf8).base64EncodedString())"],
                ["X-Api-Key: \(Fixture.key)"],
                ["Authorization: bearer \(Fixture.key)", "X-Api-Key: \(Fixture.key)"],
            ] {
                #expect(try await fixture.once("POST", path, headers, body: body).status == 200)
            }
        }
    }

    @Test func aRefusedDetailsRequestNamesTheReason() async throws {
        try await Fixture.with { fixture in
            let path = "/v1/checkout/order-details"
            let unknown = try await fixture.call("POST", path, key: "sk_test_nobody", body: "{}")
            let missing = try await fixture.once("POST", path, body: "{}")
            for answer in [unknown, missing] {
                #expect(answer.status == 401)
                #expect(answer.code == "key_refused")
                #expect(answer["www-authenticate"] == "Basic realm=\"waybill\"")
            }
            func refusal(_ headers: [String] = [], key: String = Fixture.key, body: String) async throws -> String {
                let answer = try await fixture.call("POST", path, headers, key: key, body: body)
                return "\(answer.status) \(answer.code ?? "")"
            }
            #expect(try await refusal(["X-Api-Key: other"], body: "{}") == "400 malformed_request")
            #expect(try await refusal(key: "sk_test_links-only", body: "{}") == "403 scope_missing")
            #expect(try await refusal(["Content-Type: text/plain"], body: "{}") == "415 unsupported_media_type")
            let rows = [
                ("{", "400 malformed_body"), ("[]", "400 malformed_body"), (#"{"a":1,"a":2}"#, "400 malformed_body"),
                (#"{"orderIdentifer":"1"}"#, "400 invalid_parameter"),
                (#"{"orderIdentifier":1}"#, "400 invalid_parameter"),
                (#"{"orderIdentifier":"a:b"}"#, "422 order_details_refused"),
                (#"{"orderIdentifier":""}"#, "422 order_details_refused"),
                (#"{"orderTypeIdentifier":"nonsense"}"#, "404 not_found"),
                (#"{"orderTypeIdentifier":"\#(Fixture.otherType)"}"#, "403 scope_missing"),
                (#"{"orderIdentifier":"1","order":{}}"#, "422 order_invalid"),
                (#"{"orderIdentifier":"1","order":[]}"#, "400 invalid_parameter"),
                ("[\(repeatElement("1", count: JSON.entryLimit).joined(separator: ","))]", "413 body_too_large"),
            ]
            for (body, expected) in rows { #expect(try await refusal(body: body) == expected, "\(body)") }
            #expect(try await fixture.published() == 0)
            let get = try await fixture.call("GET", path)
            #expect(get.status == 405)
            #expect(get["allow"] == "POST")
            #expect(get.code == "method_not_allowed")
            #expect(try await fixture.call("OPTIONS", path).status == 405)
            #expect(try await fixture.call("POST", "/v1/checkout/nothing", body: "{}").code == "not_found")
            #expect(try await fixture.call("POST", "/v1/orders/\(Fixture.orderType)/1", body: "{}").status == 404)
        }
    }

    @Test func anIncludedOrderIsPublishedBeforeTheAnswer() async throws {
        try await Fixture.with { fixture in
            let path = "/v1/checkout/order-details"
            let body = #"{"orderIdentifier":"1234","order":\#(Self.document)}"#
            let answer = try await fixture.call("POST", path, body: body)
            #expect(answer.status == 200)
            #expect(answer.json.object?["published"] == true)
            #expect(try await fixture.published() == 1, "acknowledged before the answer")
            let token = fixture.secrets.token(for: try Fixture.orderKey("1234")).rawValue
            let owning = try await fixture.call(
                "POST", path, body: body.replacing("\"createdAt\"", with: Self.ownToken).replacing("1234", with: "2"))
            #expect(
                owning.json.object?["orderDetails"]?.object?["authenticationToken"]?.string == "a-token-of-the-shop")
            let records = try await fixture.changes(2)
            for (record, expected) in zip(records, [token, "a-token-of-the-shop"]) {
                let change = try OrderChange.decode(
                    key: record.key, value: record.value, headers: record.headers.map { ($0.name, $0.value) })
                guard case .replaced(let document) = change.kind else { throw CancellationError() }
                #expect(document.members["authenticationToken"]?.string == expected)
                #expect(change.source == "waybill-checkout/shop/backend")
            }
        }
    }

    @Test func anIdempotencyKeyAlwaysMintsTheSameOrder() async throws {
        var options = Fixture.Options()
        options.hasRedis = true
        try await Fixture.with(options) { fixture in
            func mint(_ key: String?, _ body: String = "{}") async throws -> RawConnection.Response {
                try await fixture.call(
                    "POST", "/v1/checkout/order-details", key.map { ["Idempotency-Key: \($0)"] } ?? [], body: body)
            }
            let first = try await mint("basket-7")
            #expect(first.status == 200)
            #expect(first.json.object?["published"] == false)
            #expect(try await mint("basket-7").text == first.text)
            #expect(try await mint("basket-8").text != first.text)
            #expect(try await mint(nil).text != first.text)
            let document = Self.document.replacing("\"createdAt\"", with: Self.ownToken)
            for _ in 0..<2 {
                let details = try await mint("basket-9", #"{"order":\#(document)}"#).json.object?["orderDetails"]
                #expect(details?.object?["authenticationToken"] == "a-token-of-the-shop")
            }
            #expect(try await fixture.published() == 1)
            let invalid = try await mint("two words")
            #expect(invalid.status == 400)
            #expect(invalid.code == "invalid_parameter")
        }
    }

    @Test func anIncludedOrderIsRefusedWithoutKafka() async throws {
        var options = Fixture.Options()
        options.hasKafka = false
        try await Fixture.with(options) { fixture in
            let body = #"{"orderIdentifier":"1234","order":\#(Self.document)}"#
            let answer = try await fixture.call("POST", "/v1/checkout/order-details", body: body)
            #expect(answer.status == 503)
            #expect(answer.code == "unavailable")
            #expect(answer["retry-after"] == "5")
            #expect(!answer.text.contains("authenticationToken"))
            let plain = #"{"orderIdentifier":"1234"}"#
            #expect(try await fixture.call("POST", "/v1/checkout/order-details", body: plain).status == 200)
        }
    }

    @Test func aGrantOpensItsOrderToPagesOfItsOriginAlone() async throws {
        try await Fixture.with { fixture in
            let body = #"{"orderIdentifier":"7","origin":"\#(Fixture.origin)","seconds":60}"#
            let granted = try await fixture.call("POST", "/v1/checkout/grants", body: body)
            let grant = try #require(granted.json.object?["grant"]?.string)
            let redeem = { (grant: String, origin: String?) in
                try await fixture.once(
                    "POST", "/applepay/order-details", origin.map { ["Origin: \($0)"] } ?? [],
                    body: #"{"grant":"\#(grant)"}"#)
            }
            let answer = try await redeem(grant, Fixture.origin)
            #expect(answer.status == 200)
            #expect(answer["access-control-allow-origin"] == Fixture.origin)
            #expect(answer["vary"] == "Origin")
            #expect(answer["access-control-allow-credentials"] == nil)
            let token = fixture.secrets.token(for: try Fixture.orderKey("7")).rawValue
            #expect(answer.json.object?["orderDetails"]?.object?["authenticationToken"]?.string == token)
            let elsewhere = try await redeem(grant, "https://other.example.com:8443")
            #expect(elsewhere.status == 403)
            #expect(elsewhere.code == "grant_refused")
            #expect(elsewhere["access-control-allow-origin"] == "https://other.example.com:8443")
            for origin in [nil, "null", "https://evil.example", "http://shop.example.com", Fixture.origin + ":8443"] {
                let refused = try await redeem(grant, origin)
                #expect(refused.status == 403, "\(origin ?? "none")")
                #expect(refused.code == "origin_refused", "\(origin ?? "none")")
                #expect(refused["access-control-allow-origin"] == nil)
            }
            #expect(try await redeem("x" + grant, Fixture.origin).code == "grant_refused")
            let stranger = #"{"orderIdentifier":"7","origin":"https://evil.example"}"#
            #expect(try await fixture.call("POST", "/v1/checkout/grants", body: stranger).code == "invalid_parameter")
            let preflight = try await fixture.once(
                "OPTIONS", "/applepay/order-details",
                ["Origin: \(Fixture.origin)", "Access-Control-Request-Method: POST"])
            #expect(preflight.status == 204)
            #expect(preflight["access-control-allow-methods"] == "POST, OPTIONS")
            #expect(preflight["access-control-max-age"] == "7200")
            #expect(try await fixture.once("OPTIONS", "/applepay/order-details").status == 403)
        }
    }

    @Test func aMintedLinkHasTheGatewaysSignature() async throws {
        try await Fixture.with { fixture in
            let body = #"{"orderIdentifier":"7","seconds":90}"#
            let answer = try await fixture.call("POST", "/v1/checkout/links", key: "sk_test_links-only", body: body)
            let url = try #require(answer.json.object?["url"]?.string)
            let expires = try #require(answer.json.object?["expires"]?.integer)
            let link = PackageLink(key: try Fixture.orderKey("7"), expiresEpochSeconds: expires)
            #expect(
                url
                    == "https://wallet.example/apple/v1/orders/\(Fixture.orderType)/7/package?expires=\(expires)&signature="
                    + link.signature(fixture.secrets))
            #expect(abs(expires - Int64(Date().timeIntervalSince1970) - 90) <= 20)
            let long = #"{"orderIdentifier":"7","seconds":86401}"#
            #expect(try await fixture.call("POST", "/v1/checkout/links", body: long).code == "invalid_parameter")
        }
    }

    @Test func aLinkForAMailIsBoundToTheOrdersToken() async throws {
        var options = Fixture.Options()
        options.hasRedis = true
        try await Fixture.with(options) { fixture in
            func mail(_ body: String) async throws -> RawConnection.Response {
                try await fixture.call("POST", "/v1/checkout/links", key: "sk_test_links-only", body: body)
            }
            let derived = fixture.secrets.token(for: try Fixture.orderKey("7"))
            // Before the order, with the token that it will have; then with the one that it has.
            for token in [derived, try AuthenticationToken("a-token-of-its-own-7")] {
                if token != derived { try await fixture.put("7", ["orderNumber": "7"], token: token.rawValue) }
                let answer = try await mail(#"{"orderIdentifier":"7","purpose":"mail","language":"de"}"#)
                #expect(answer.status == 200, "\(answer.text)")
                let url = try #require(answer.json.object?["url"]?.string)
                let expires = try #require(answer.json.object?["expires"]?.integer)
                let signature = MailLink(key: try Fixture.orderKey("7"), expiresEpochSeconds: expires).signature(token)
                let base = "https://wallet.example/apple/v1/orders/\(Fixture.orderType)/7/mail"
                #expect(url == "\(base)?expires=\(expires)&signature=\(signature)&language=de")
                #expect(abs(expires - Int64(Date().timeIntervalSince1970) - 60 * 86_400) <= 20)
            }
            for body in [
                #"{"orderIdentifier":"7","purpose":"letter"}"#,
                #"{"orderIdentifier":"7","purpose":"mail","seconds":5184001}"#,
                #"{"orderIdentifier":"7","purpose":"mail","language":"\"><b>"}"#,
                #"{"orderIdentifier":"7","language":"de"}"#,
            ] { #expect(try await mail(body).code == "invalid_parameter", "\(body)") }
        }
    }

    @Test func aLinkForAMailComesWithTheOrderAsStructuredData() async throws {
        var options = Fixture.Options()
        options.hasRedis = true
        try await Fixture.with(options) { fixture in
            let path = "Shared/Model/Schemas/examples/01-shipping-multi-fulfillment.order.json"
            let file = Array(try Data(contentsOf: Repository.root.appending(path: path)))
            let example = try #require(try JSON(parsing: file).object)
            let body: JSON = ["orderIdentifier": "7", "purpose": "mail", "order": .object(example)]
            let answer = try await fixture.call(
                "POST", "/v1/checkout/links", body: String(decoding: body.serialized, as: UTF8.self))
            #expect(answer.status == 200, "\(answer.text)")
            let parts = try #require(answer.json.object?["structuredData"]?.array).compactMap(\.object)
            let order = try #require(parts.first)
            #expect(order["@context"] == "https://schema.org")
            #expect(order["@type"] == "Order")
            #expect(order["orderNumber"] == example["orderNumber"])
            #expect(order["merchant"]?.object?["name"]?.string?.isEmpty == false)
            #expect(order["acceptedOffer"]?.array?.count == example["lineItems"]?.array?.count)
            let parcels = parts.dropFirst()
            #expect(parcels.count == 2)
            #expect(parcels.allSatisfy { $0["@type"] == "ParcelDelivery" })
            #expect(parcels.allSatisfy { $0["partOfOrder"]?.object?["orderNumber"] == example["orderNumber"] })
            // Names, addresses and contacts of customers do not belong there.
            for word in ["recipient", "customer", "deliveryAddress", "@gmail", "emailAddress"] {
                #expect(!answer.text.contains(word), "\(word)")
            }
        }
    }

    @Test(arguments: [
        ([], "OrderProcessing"), (["open", "onTheWay"], "OrderInTransit"), (["onTheWay", "issue"], "OrderProblem"),
        (["readyForPickup"], "OrderPickupAvailable"),
    ])
    func theStatusOfStructuredDataFollowsTheFulfillments(_ statuses: [String], _ expected: String) throws {
        let fulfillments = statuses.map { JSON.object(["fulfillmentType": "pickup", "status": .string($0)]) }
        for (status, expected) in [
            ("open", expected), ("cancelled", "OrderCancelled"), ("completed", "OrderDelivered"),
        ] {
            let markup = OrderMarkup(["status": .string(status), "fulfillments": .array(fulfillments)], merchant: nil)
            #expect(markup.json.object?["orderStatus"]?.string == "https://schema.org/\(expected)")
        }
    }

    @Test func theCheckoutRoleReportsReadinessAndMetrics() async throws {
        var options = Fixture.Options()
        options.environment = ["WAYBILL_ADOPTION": "on"]
        try await Fixture.with(options) { fixture in
            _ = try await fixture.call("POST", "/v1/checkout/order-details", body: "{}")
            let deadline = ContinuousClock.now + .seconds(20)
            var ready = try await RawConnection.once(
                port: fixture.operationsPort, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
            while ready.status != 200, ContinuousClock.now < deadline {
                try await Task.sleep(for: .milliseconds(100))
                ready = try await RawConnection.once(
                    port: fixture.operationsPort, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
            }
            #expect(ready.status == 200, "\(ready.text)")
            let metrics = try await RawConnection.once(
                port: fixture.operationsPort, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            #expect(metrics.text.contains("waybill_checkout_requests_total{"))
            #expect(metrics.text.contains("merchant=\"shop\""))
            #expect(
                metrics.text.contains(
                    "waybill_adoption_total{brand=\"\(Fixture.orderType)\",step=\"details\"} 1\n"))
        }
    }

    /// A browser adds the key that its user typed in to a form that any page sends.
    @Test func aPageOfAnotherSiteCannotUseAKey() async throws {
        try await Fixture.with { fixture in
            let path = "/v1/checkout/order-details"
            for (site, status) in [
                ("cross-site", 403), ("same-site", 403), ("same-origin", 403), ("x", 403), ("none", 200),
            ] {
                let answer = try await fixture.call(
                    "POST", path, ["Sec-Fetch-Site: \(site)"], body: #"{"orderIdentifier":"1"}"#)
                #expect(answer.status == status, "\(site)")
                #expect(answer.code == (status == 403 ? "origin_refused" : nil))
            }
        }
    }

    @Test func anOversizedBodyIsRefusedInTheCheckoutFormat() async throws {
        try await Fixture.with { fixture in
            let connection = try await RawConnection.open(port: fixture.port)
            try await connection.send(
                fixture.request(
                    "POST", "/v1/checkout/grants",
                    [
                        "Content-Length: 16385", "Content-Type: application/json",
                        "Authorization: Bearer \(Fixture.key)",
                    ]))
            let answer = try await connection.response()
            #expect(answer.status == 413)
            #expect(answer.code == "body_too_large")
            #expect(answer["x-request-id"] != nil)
            await connection.close()
            let large = "{\"orderIdentifier\":\"1\",\"order\":{\"x\":\"\(String(repeating: "y", count: 200_000))\"}}"
            #expect(try await fixture.call("POST", "/v1/checkout/order-details", body: large).code == "order_invalid")
        }
    }
}

/// The formula of grants, and the separation of grants, links and tokens.
@Suite struct DetailsGrantTests {
    static let origin = "https://shop.example.com"

    func secrets(_ text: String = "the first secret of the test\nthe second secret\n") throws -> TokenSecrets {
        try TokenSecrets(file: Array(text.utf8))
    }

    @Test func aGrantMatchesTheOneMadeByOpenSSL() throws {
        let key = try OrderKey("order.com.example.shop/1234")
        let grant = DetailsGrant(key: key, expiresEpochSeconds: 1_800_000_000, origin: Self.origin)
        // printf %s 'details:order.com.example.shop/1234:1800000000:https://shop.example.com' |
        //   openssl dgst -sha256 -hmac 'the first secret of the test'
        let message =
            "b3JkZXIuY29tLmV4YW1wbGUuc2hvcC8xMjM0OjE4MDAwMDAwMDA6aHR0cHM6"
            + "Ly9zaG9wLmV4YW1wbGUuY29t"
        let signature = "c1e940f98483fa0b6426b116c45dfddf17c3b70fabaa6ea4817220ed3d57e8bc"
        #expect(grant.text(try self.secrets()) == "\(message).\(signature)")
    }

    @Test func aGrantHoldsForItsOriginAndItsTimeUnderAnySecret() throws {
        let key = try OrderKey("order.com.example.shop/1234")
        let grant = DetailsGrant(key: key, expiresEpochSeconds: 1000, origin: Self.origin)
        let old = grant.text(try self.secrets("the second secret\n"))
        func verified(_ text: String, _ origin: String = Self.origin, _ now: Int64 = 900) throws -> DetailsGrant? {
            DetailsGrant(
                verifying: text, origin: origin, tokens: TokenAuthority(try self.secrets()), nowEpochSeconds: now)
        }
        #expect(try verified(old) == grant)
        #expect(try verified(old, "https://shop.example.com:8443") == nil)
        #expect(try verified(old, Self.origin, 1000) == nil, "expired")
        #expect(try verified(old, Self.origin, 1000 - 3601) == nil, "made for too long")
        #expect(try verified(grant.text(try self.secrets("a secret of somebody else\n"))) == nil)
        for text in ["", ".", "a.b", old + "0", "=" + old, old.replacing(".", with: ":")] {
            #expect(try verified(text) == nil, "\(text)")
        }
        // The signature of a link for the same key and time is not valid for a grant.
        let link = PackageLink(key: key, expiresEpochSeconds: 1000).signature(try self.secrets())
        #expect(try verified("\(old.prefix { $0 != "." }).\(link)") == nil)
    }
}
