import Cryptography
import Foundation
import Model
import NIOHTTP1
import TestKit
import TestTraits
import Testing

@testable import Devkit

/// The fakes of a shop's service and of a payment provider.
@Suite(.server) struct ShopFakeTests {
    private static let secret = "0123456789abcdef"

    private static func request(
        _ method: HTTPMethod, _ port: Int, _ path: String, body: JSON? = nil, key: String? = nil,
        secret: String = Self.secret, secondsAgo: Int64 = 0
    ) -> HTTPRequest {
        let time = Int64(Date().timeIntervalSince1970) - secondsAgo
        let bytes = body?.serialized ?? []
        let signature = hex(
            HMACSHA256.authenticate(
                Array("\(time).\(method.rawValue).\(path).".utf8) + bytes, key: Array(secret.utf8)))
        var request = HTTPRequest(method: method, url: "http://127.0.0.1:\(port)\(path)", body: bytes)
        request.headers = [("waybill-signature", "t=\(time),v1=\(signature)"), ("content-type", "application/json")]
        if let key { request.headers.append(("idempotency-key", key)) }
        return request
    }

    private static func payment(_ token: String, basket: String = "b1") -> JSON {
        ["basketIdentifier": .string(basket), "payment": ["token": ["transactionIdentifier": .string(token)]]]
    }

    private func shop() -> ShopFake {
        ShopFake(
            secret: Self.secret, baskets: ["b1"], paymentRequest: ["total": ["label": "Shop", "amount": "1.00"]],
            order: ["status": "open"], slowness: .milliseconds(200))
    }

    @Test func theShopFakeFailsAsConfigured() async throws {
        let shop = self.shop()
        let port = try await shop.start()
        let http = try HTTPClient(deadline: .answer)
        shop.conduct.fail(.broken)
        #expect(try await http.send(Self.request(.GET, port, "/baskets/b1")).status == 500)
        shop.conduct.fail(.slow)
        let start = ContinuousClock.now
        #expect(try await http.send(Self.request(.GET, port, "/baskets/b1")).status == 200)
        #expect(.now - start >= .milliseconds(200))
        shop.conduct.fail(.silent)
        await #expect {
            _ = try await http.send(Self.request(.GET, port, "/baskets/b1"), within: .seconds(2))
        } throws: { ($0 as? ToolError)?.code == .timeout }
        shop.conduct.fail(.invalidBasket)
        let basket = try await http.send(Self.request(.GET, port, "/baskets/b1"))
        let request = try JSON(parsing: basket.body).object?["paymentRequest"] ?? .null
        #expect(!PaymentRequestValidator.violations(in: request).isEmpty)
        shop.conduct.fail(.invalidOrder)
        let paid = try await http.send(Self.request(.POST, port, "/payments", body: Self.payment("t9"), key: "t9"))
        #expect(try JSON(parsing: paid.body).object?["order"]?.object?["status"] == "teleported")
        #expect(try await http.send(Self.request(.GET, port, "/baskets/b1")).status == 200)
        await http.close()
        await shop.stop()
    }

    @Test func aBasketOfAFileIsAnsweredAsItIs() async throws {
        let directory = try TemporaryDirectory("baskets")
        let file = try directory.write(
            "basket.json", #"{"version":14,"paymentRequest":{"total":{"label":"S","amount":"2.00"},"x":1}}"#)
        let answers = try FakesCommand.answers(["b2=\(file)"])
        #expect(throws: (any Error).self) { try FakesCommand.answers(["b2"]) }
        #expect(throws: (any Error).self) { try FakesCommand.answers(["b2=\(file).json"]) }
        let shop = ShopFake(
            secret: Self.secret, baskets: ["b1"], answers: answers, paymentRequest: [:], order: [:])
        let port = try await shop.start()
        let http = try HTTPClient(deadline: .answer)
        let basket = try JSON(parsing: try await http.send(Self.request(.GET, port, "/baskets/b2")).body)
        #expect(
            basket == [
                "version": 14, "basketIdentifier": "b2",
                "paymentRequest": ["total": ["label": "S", "amount": "2.00"], "x": 1],
            ])
        let price = try await http.send(Self.request(.POST, port, "/baskets/b2/validatepostalcode", body: [:]))
        #expect(try JSON(parsing: price.body).object?["newTotal"]?.object?["amount"] == "2.00")
        await http.close()
        await shop.stop()
    }

    @Test func theProviderFakeFailsAsConfigured() async throws {
        let provider = ProviderFake(key: "sk_test_1")
        let port = try await provider.start()
        let http = try HTTPClient(deadline: .answer)
        var request = HTTPRequest(
            method: .POST, url: "http://127.0.0.1:\(port)/v1/payment_intents/pi_1/confirm",
            body: Array(#"{"payment_method":"pm_1"}"#.utf8))
        request.headers = [("content-type", "application/json"), ("authorization", "Bearer sk_test_1")]
        for (fault, status) in [(ProviderFake.Fault.broken, 500), (.declined, 402), (.html, 200)] {
            provider.conduct.fail(fault)
            let answer = try await http.send(request)
            #expect(answer.status == status)
            #expect((answer.header("content-type") == "text/html") == (fault == .html))
        }
        provider.conduct.fail(.reset)
        await #expect(throws: ToolError.self) { _ = try await http.send(request) }
        provider.conduct.fail(.silent)
        await #expect { _ = try await http.send(request, within: .seconds(2)) } throws: {
            ($0 as? ToolError)?.code == .timeout
        }
        // A request that a busy machine has not read in time has left it to the next one.
        provider.conduct.fail(nil)
        #expect(try await http.send(request).status == 200)
        await http.close()
        await provider.stop()
    }

    @Test func onlyARecentSignedRequestIsAccepted() async throws {
        let shop = self.shop()
        let port = try await shop.start()
        let http = try HTTPClient(deadline: .answer)
        #expect(try await http.send(Self.request(.GET, port, "/baskets/b1")).status == 200)
        #expect(try await http.send(Self.request(.GET, port, "/baskets/b2")).status == 404)
        #expect(try await http.send(Self.request(.GET, port, "/baskets/b1", secret: "another")).status == 401)
        #expect(try await http.send(Self.request(.GET, port, "/baskets/b1", secondsAgo: 301)).status == 401)
        #expect(try await http.send(HTTPRequest(url: "http://127.0.0.1:\(port)/baskets/b1")).status == 401)
        let contact: JSON = ["countryCode": "US", "postalCode": "95014", "givenName": "Jane"]
        let path = "/baskets/b1/validatepostalcode"
        #expect(try await http.send(Self.request(.POST, port, path, body: contact)).status == 400)
        await http.close()
        await shop.stop()
    }

    @Test func aPaymentIsMadeOnce() async throws {
        let shop = self.shop()
        let port = try await shop.start()
        let http = try HTTPClient(deadline: .answer)
        let request = Self.request(.POST, port, "/payments", body: Self.payment("t1"), key: "t1")
        let first = try await http.send(request)
        #expect(first.status == 200)
        // The same request gets the same answer; the token with another body, or without its key, is refused.
        #expect(try await http.send(request).body == first.body)
        var other = Self.payment("t1").object ?? JSONObject()
        other["basketToken"] = "x"
        #expect(
            try await http.send(Self.request(.POST, port, "/payments", body: .object(other), key: "t1")).status == 409)
        #expect(try await http.send(Self.request(.POST, port, "/payments", body: Self.payment("t2"))).status == 400)
        shop.conduct.fail(.decline)
        let declined = try await http.send(Self.request(.POST, port, "/payments", body: Self.payment("t3"), key: "t3"))
        #expect(try JSON(parsing: declined.body).object?["status"]?.string == "failure")
        shop.conduct.fail(.reset)
        await #expect(throws: ToolError.self) {
            _ = try await http.send(Self.request(.POST, port, "/payments", body: Self.payment("t4"), key: "t4"))
        }
        await http.close()
        await shop.stop()
    }

    @Test(arguments: [
        ("application/json", #"{"payment_method":"pm_1"}"#, 200),
        ("application/x-www-form-urlencoded", "payment_method=pm_1&metadata[a]=b", 200),
        ("application/json", #"{"payment_method":"pm_1","apple_pay_order_details":{}}"#, 400),
        (
            "application/x-www-form-urlencoded",
            "payment_method=pm_1&apple_pay_order_details%5Border_identifier%5D=1", 400
        ),
        ("application/json", "{}", 400), ("text/plain", "payment_method=pm_1", 400),
    ])
    func theProviderNoticesOrderDetailsThatLeak(type: String, body: String, status: Int) async throws {
        let provider = ProviderFake(key: "sk_test_1")
        let port = try await provider.start()
        let http = try HTTPClient(deadline: .answer)
        var request = HTTPRequest(
            method: .POST, url: "http://127.0.0.1:\(port)/v1/payment_intents/pi_1/confirm", body: Array(body.utf8))
        request.headers = [
            ("content-type", type), ("authorization", "Basic " + Data("sk_test_1:".utf8).base64EncodedString()),
        ]
        #expect(try await http.send(request).status == status)
        request.headers[1] = ("authorization", "Bearer sk_test_2")
        #expect(try await http.send(request).status == 401)
        await http.close()
        await provider.stop()
    }
}
