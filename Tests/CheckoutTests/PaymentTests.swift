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

/// Metadata, baskets, addresses and payments, with the real process and a fake shop.
@Suite(.server, .serialized, .timeLimit(.minutes(4))) struct PaymentTests {
    typealias Fixture = CheckoutFixture
    static let secret = "a secret of the shop and of us"
    static let marker = Fixture.marker

    static let request: JSON = [
        "total": ["label": "Example Shop", "amount": "19.90"],
        "lineItems": [["label": "Lamp", "amount": "19.90"]],
        "requiredShippingContactFields": ["postalAddress", "email"],
    ]

    static func with(
        takesPayments: Bool = true, environment: [String: String] = [:],
        _ body: @escaping @Sendable (Fixture, ShopServer) async throws -> Void
    ) async throws {
        let shop = try await ShopServer.start()
        let identity = try AppleSessions.identity("merchant.com.example.shop", named: "payments")
        var options = Fixture.Options()
        options.hasRedis = true
        options.environment = environment
        options.files = [
            ("merchants/shop/shop.pem", shop.rootPEM), ("merchants/shop/secret", Array("\(Self.secret)\n".utf8)),
            ("merchants/shop/identity.pem", identity.certificate), ("merchants/shop/key.pem", identity.key),
        ]
        options.merchant = [
            "certificate": "identity.pem", "key": "key.pem",
            "payment": [
                "countryCode": "GB", "currencyCode": "GBP", "supportedNetworks": ["visa", "masterCard"],
                "merchantCapabilities": ["supports3DS"],
                "touchIcons": [["sizes": "120x120", "href": "https://shop.example.com/touch.png"]],
            ],
            "upstream": [
                "url": .string("\(shop.url)/applepay"), "secret": "secret", "addresses": ["127.0.0.1"],
                "roots": "shop.pem", "takesPayments": .bool(takesPayments),
            ],
        ]
        do {
            try await Fixture.with(options) { try await body($0, shop) }
        } catch {
            await shop.stop()
            throw error
        }
        await shop.stop()
    }

    /// A client's requests beyond its share never reach the shop; those of another client do.
    /// Beyond its own share, a client has only the spare requests of the page: one in ten.
    @Test func requestsOfOneClientAreLimited() async throws {
        try await Self.with(environment: [
            "WAYBILL_MERCHANT_SESSIONS_PER_CLIENT": "1", "WAYBILL_TRUSTED_PROXIES": "127.0.0.1",
        ]) { fixture, _ in
            func pay(_ client: String) async throws -> RawConnection.Response {
                try await Self.page(
                    fixture, "POST", "/applepay/payment", ["X-Forwarded-For: \(client)"], body: "{}")
            }
            let start = ContinuousClock.now
            var (admitted, last) = (0, try await pay("198.51.100.1"))
            while last.status == 400, admitted < 1000 {
                admitted += 1
                last = try await pay("198.51.100.1")
            }
            let seconds = (ContinuousClock.now - start) / .seconds(1)
            #expect(admitted >= 18, "three of its own, and fifteen spare ones, even with an invalid body")
            #expect(Double(admitted) <= 19 + 15.05 * seconds, "the allowance grows meanwhile")
            #expect(last.status == 429)
            #expect(last.code == "rate_limited")
            #expect(last["retry-after"].flatMap { Int($0) } != nil)
            #expect(last["access-control-allow-origin"] == Fixture.origin)
            #expect(try await pay("198.51.100.2").status == 400, "another client")
        }
    }

    static func page(
        _ fixture: Fixture, _ method: String, _ path: String, _ headers: [String] = [], body: String? = nil,
        origin: String = Fixture.origin
    ) async throws -> RawConnection.Response {
        try await fixture.once(method, path, ["Origin: \(origin)"] + headers, body: body)
    }

    static func payment(_ transaction: String = "transaction-1") -> String {
        let payment: JSON = [
            "basketIdentifier": "b1",
            "payment": [
                "token": [
                    "transactionIdentifier": .string(transaction),
                    "paymentData": ["data": .string(Self.marker), "version": "EC_v1"],
                ],
                "shippingContact": ["givenName": .string(Self.marker), "postalCode": .string(Fixture.postalCode)],
            ],
        ]
        return payment.text
    }

    @Test func metadataDescribesTheMerchantToItsOriginOnly() async throws {
        try await Self.with { fixture, _ in
            let answer = try await Self.page(fixture, "GET", "/applepay/metadata")
            #expect(answer.status == 200)
            #expect(answer["access-control-allow-origin"] == Fixture.origin)
            #expect(answer["cache-control"] == "private, max-age=60")
            #expect(answer["vary"] == "Origin, Referer, Host")
            #expect(
                answer.json == [
                    "enabled": true, "merchantIdentifier": "merchant.com.example.shop", "displayName": "Example Shop",
                    "environments": ["production"], "countryCode": "GB", "currencyCode": "GBP",
                    "supportedNetworks": ["visa", "masterCard"], "merchantCapabilities": ["supports3DS"],
                    "touchIcons": [["sizes": "120x120", "href": "https://shop.example.com/touch.png"]],
                    "orderTracking": true, "routes": ["basket": true, "payment": true],
                    "stylesheet": "/applepay/waybill.css",
                ])
            let stranger = try await Self.page(fixture, "GET", "/applepay/metadata", origin: "https://evil.example")
            #expect(stranger.json == ["enabled": false])
            #expect(stranger["access-control-allow-origin"] == nil)
            #expect(stranger["cache-control"] == "private, max-age=60")
            #expect(stranger["vary"] == "Origin, Referer, Host", "a shared cache must not give it to others")
            for headers in [["Referer: https://shop.example.com/basket?x=1"], ["Host: shop.example.com"]] {
                let answer = try await fixture.once("GET", "/applepay/metadata", headers)
                #expect(answer.json.object?["enabled"] == true, "\(headers)")
            }
        }
    }

    @Test func aBasketIsFilledInAndChecked() async throws {
        try await Self.with { fixture, shop in
            let body: JSON = ["basketIdentifier": "b1", "version": 7, "paymentRequest": Self.request, "secret": "x"]
            try shop.answer("/applepay/baskets/b1", 200, body.text)
            let answer = try await Self.page(fixture, "GET", "/applepay/basket/b1", ["Waybill-Basket-Token: t1"])
            #expect(answer.status == 200, "\(answer.text)")
            #expect(answer["cache-control"] == "no-store", "\(answer.text)")
            let request = answer.json.object?["paymentRequest"]?.object
            #expect(request?["countryCode"] == "GB")
            #expect(request?["supportedNetworks"] == ["visa", "masterCard"])
            #expect(answer.json.object?["version"] == 7)
            #expect(answer.json.object?["secret"] == nil)
            let seen = try #require(shop.seen.first)
            #expect(seen.method == "GET")
            #expect(seen.headers["waybill-basket-token"] == "t1")
            #expect(seen.headers["waybill-merchant"] == "shop")
            #expect(seen.headers["waybill-origin"] == Fixture.origin)
            #expect(seen.headers["cookie"] == nil)
            #expect(seen.headers["x-request-id"] == answer["x-request-id"])
            try Self.checkSignature(seen)
            let wrong = JSON.object(["paymentRequest": ["total": ["label": "x", "amount": "free"]]]).text
            try shop.answer("/applepay/baskets/b1", 200, wrong)
            let invalid = try await Self.page(fixture, "GET", "/applepay/basket/b1")
            #expect(invalid.status == 502)
            #expect(invalid.code == "upstream_invalid")
            #expect(!invalid.text.contains("amount"))
            let line = try await fixture.child.line { $0.contains("$.total.amount") }
            #expect(line.contains("$.total.amount must be an amount in a string"), "\(line)")
            #expect(!line.contains("free"), "no value")
            #expect(try await Self.page(fixture, "GET", "/applepay/basket/b2").status == 404)
            #expect(try await Self.page(fixture, "GET", "/applepay/basket/..").status == 404)
            #expect(try await fixture.once("GET", "/applepay/basket/b1").code == "origin_refused")
            try shop.answer("/applepay/baskets/b1", 0, "")
            #expect(try await Self.page(fixture, "GET", "/applepay/basket/b1").code == "upstream_timeout")
        }
    }

    /// A shop may know members that this release does not; a person hears of each once.
    @Test func membersThatAreNotKnownArePassedOnAndNamedOnce() async throws {
        try await Self.with { fixture, shop in
            func ask(_ members: JSONObject) async throws -> RawConnection.Response {
                let request = JSON.object((Self.request.object ?? [:]).merging(members))
                try shop.answer("/applepay/baskets/b1", 200, JSON.object(["paymentRequest": request]).text)
                return try await Self.page(fixture, "GET", "/applepay/basket/b1")
            }
            let known: JSONObject = [
                "merchantCategoryCode": "5999", "features": ["splitPayment"],
                "merchantCapabilities": ["supports3DS", "supportsInstantFundsOut"],
                "disbursementRequest": ["requiredRecipientContactFields": ["email"]],
            ]
            let silent = try await ask(known)
            #expect(silent.status == 200, "\(silent.text)")
            let unknown = known.merging([
                "futureMember": .string(Self.marker), "lineItems": [["label": "x", "amount": "1.00", "colour": 1]],
                "applePayLaterAvailability": "available",
            ])
            for _ in 0..<3 {
                let answer = try await ask(unknown)
                #expect(answer.status == 200, "\(answer.text)")
                for (name, value) in unknown.members.map({ ($0.name, $0.value) }) {
                    #expect(answer.json.object?["paymentRequest"]?.object?[name] == value)
                }
            }
            for _ in 0..<2 { _ = try await ask(unknown.merging(["another": true])) }
            _ = try await fixture.child.line { $0.contains("$.another is not a member") }
            let lines = fixture.child.output.split(separator: "\n").filter { $0.contains("may be wrong") }
            #expect(lines.count == 2, "\(lines)")
            for part in [
                "$.futureMember is not a member of a payment request", "$.lineItems[].colour is not a member of a line",
                "$.applePayLaterAvailability is deprecated",
            ] { #expect(lines.first?.contains(part) == true, "\(lines)") }
            let wrong = try await ask(["merchantCategoryCode": "59", "futureMember": 1])
            #expect(wrong.code == "upstream_invalid")
            let reason = try await fixture.child.line { $0.contains("$.merchantCategoryCode") }
            #expect(reason.contains("must be a merchant category code of four digits"))
            #expect(!reason.contains("futureMember"))
            try shop.answer(
                "/applepay/baskets/b1/validatepostalcode", 200, #"{"newTotal":{"label":"S","amount":"1.00"}}"#)
            let postal = try await Self.page(fixture, "POST", "/applepay/basket/b1/validatepostalcode", body: "{}")
            #expect(postal.code == "upstream_invalid")
            _ = try await fixture.child.line { $0.contains("$.deliverable must be true or false") }
        }
    }

    @Test func adviceIsBoundedForAMerchant() {
        let advice = GivenAdvice()
        func violations(_ range: Range<Int>) -> [Violation] {
            range.map { Violation(path: "$.items[\($0 % 3)].member\($0)", message: "is not a member of it") }
        }
        #expect(advice.news(violations(0..<15), of: "a").count == 15)
        #expect(advice.news(violations(0..<15), of: "a").isEmpty)
        #expect(advice.news(violations(15..<40), of: "a").count == GivenAdvice.limit - 15)
        #expect(advice.news(violations(0..<1), of: "b") == ["$.items[].member0 is not a member of it"])
    }

    /// Checks the signature as a shop does.
    static func checkSignature(_ seen: ShopServer.Seen) throws {
        let header = try #require(seen.headers["waybill-signature"])
        let parts = header.split(separator: ",").map { $0.split(separator: "=")[1] }
        let message = "\(parts[0]).\(seen.method).\(seen.path).\(seen.body)"
        let code = HMACSHA256.authenticate(Array(message.utf8), key: Array(Self.secret.utf8))
        #expect(code.map { String(format: "%02x", $0) }.joined() == parts[1])
        #expect(abs(Double(parts[0])! - Date().timeIntervalSince1970) < 300)
    }

    @Test func onlyCountryAndPostalCodeAreSentToTheShop() async throws {
        try await Self.with { fixture, shop in
            let path = "/applepay/basket/b1/validatepostalcode"
            let answer: JSON = [
                "deliverable": false, "newTotal": ["label": "Example Shop", "amount": "24.90"],
                "errors": [
                    ["code": "addressUnserviceable", "contactField": "postalCode", "message": "Not there."],
                    ["code": "hacked", "contactField": "script"],
                ],
            ]
            try shop.answer("/applepay/baskets/b1/validatepostalcode", 200, answer.text)
            let body = #"{"countryCode":"GB","postalCode":"EC4M 7RF","givenName":"\#(Self.marker)","phoneNumber":"1"}"#
            let made = try await Self.page(fixture, "POST", path, body: body)
            #expect(made.status == 200, "\(made.text)")
            #expect(
                made.json.object?["errors"] == [
                    ["code": "addressUnserviceable", "contactField": "postalCode", "message": "Not there."],
                    ["code": "unknown"],
                ])
            let seen = try #require(shop.seen.first)
            #expect(seen.body == #"{"countryCode":"GB","postalCode":"EC4M 7RF"}"#)
            try Self.checkSignature(seen)
            try shop.answer("/applepay/baskets/b1/validatepostalcode", 200, #"{"deliverable":true}"#)
            #expect(try await Self.page(fixture, "POST", path, body: body).code == "upstream_invalid", "no new total")
        }
    }

    @Test func aPaymentGoesThroughAndItsOrderIsPublishedBeforeTheAnswer() async throws {
        try await Self.with { fixture, shop in
            let success =
                #"{"status":"success","orderIdentifier":"o-1","guestToken":"g","#
                + #""redirectURL":"https://shop.example.com/thanks","order":\#(CheckoutDetailsTests.document)}"#
            try shop.answer("/applepay/payments", 200, success)
            let answer = try await Self.page(fixture, "POST", "/applepay/payment", body: Self.payment())
            let token = fixture.secrets.token(for: try Fixture.orderKey("o-1")).rawValue
            #expect(
                answer.json == [
                    "status": "success", "orderIdentifier": "o-1", "guestToken": "g",
                    "redirectURL": "https://shop.example.com/thanks",
                    "orderDetails": [
                        "orderTypeIdentifier": .string(Fixture.orderType), "orderIdentifier": "o-1",
                        "webServiceURL": "https://wallet.example/apple", "authenticationToken": .string(token),
                    ],
                ], "\(answer.text)")
            #expect(try await fixture.published() == 1)
            let seen = try #require(shop.seen.first)
            #expect(seen.body == Self.payment())
            #expect(seen.headers["idempotency-key"] == "transaction-1")
            try Self.checkSignature(seen)
            let elsewhere = success.replacing("shop.example.com/thanks", with: "evil.example/x")
                .replacing("\"status\":\"open\"", with: "\"status\":\"teleported\"")
            try shop.answer("/applepay/payments", 200, elsewhere)
            let untracked = try await Self.page(fixture, "POST", "/applepay/payment", body: Self.payment("2"))
            #expect(
                untracked.json == ["status": "success", "orderIdentifier": "o-1", "guestToken": "g"],
                "an order that is not valid costs the tracking, not the payment")
            try shop.answer(
                "/applepay/payments", 200, #"{"status":"failure","code":"declined","errors":[{"code":"x"}],"more":1}"#)
            let declined = try await Self.page(fixture, "POST", "/applepay/payment", body: Self.payment("3"))
            #expect(declined.json == ["status": "failure", "code": "declined", "errors": [["code": "unknown"]]])
        }
    }

    @Test func aFailedPaymentSaysIfItsOutcomeIsUnknown() async throws {
        try await Self.with { fixture, shop in
            func pay() async throws -> String {
                let answer = try await Self.page(fixture, "POST", "/applepay/payment", body: Self.payment())
                return "\(answer.status) \(answer.code ?? "")"
            }
            try shop.answer("/applepay/payments", 0, "")
            #expect(try await pay() == "504 outcome_unknown", "reset after the body")
            #expect(shop.seen.count == 1, "nothing is sent twice")
            for (status, body) in [(500, "{}"), (200, "<html>"), (200, "{}"), (302, "{}")] {
                try shop.answer("/applepay/payments", status, body)
                #expect(try await pay() == "504 outcome_unknown", "\(status) \(body)")
            }
            await shop.stop()
            #expect(try await pay() == "502 upstream_unavailable", "refused before the first byte")
            for body in [
                #"{"basketIdentifier":"b1"}"#, Self.payment("a b"), Self.payment().replacing("\"b1\"", with: "\"..\""),
            ] {
                #expect(try await Self.page(fixture, "POST", "/applepay/payment", body: body).status == 400)
            }
        }
        try await Self.with(takesPayments: false) { fixture, shop in
            let answer = try await Self.page(fixture, "POST", "/applepay/payment", body: Self.payment())
            #expect(answer.status == 404)
            #expect(shop.seen.isEmpty)
        }
    }

    @Test func paymentTokensAndContactsAreNeitherLoggedNorStored() async throws {
        try await Self.with { fixture, shop in
            let success = #"{"status":"success","orderIdentifier":"o-1","order":\#(CheckoutDetailsTests.document)}"#
            let answers = [
                (200, success), (200, #"{"status":"failure","code":"\#(Self.marker)"}"#), (500, Self.marker),
                (0, ""), (200, "\(Self.marker){"),
            ]
            var came: [String] = []
            for (index, (status, body)) in answers.enumerated() {
                try shop.answer("/applepay/payments", status, body)
                let payment = Self.payment("t\(index)")
                came.append(try await Self.page(fixture, "POST", "/applepay/payment", body: payment).text)
            }
            let broken = [
                Self.payment().dropLast(3).description, "[\(Self.payment())]", Self.payment() + Self.payment(),
                Self.payment().replacing("\"transactionIdentifier\"", with: "\"\(Self.marker)\""),
                Self.payment().replacing("\"payment\"", with: "\"\(Self.marker)\""),
            ]
            for body in broken {
                came.append(try await Self.page(fixture, "POST", "/applepay/payment", body: body).text)
                came.append(
                    try await Self.page(fixture, "POST", "/applepay/payment", ["Content-Type: text/plain"], body: body)
                        .text)
            }
            // The shop's own error code is meant for the page.
            came.remove(at: 1)
            #expect(came.count > 13)
            #expect(fixture.child.output.contains("payment"))
            for text in came { #expect(Fixture.traces(in: text) == []) }
            #expect(try await fixture.published() == 1)
        }
    }
}
