import Cryptography
import Foundation
import Kafka
import Model
import TestKit
import TestTraits
import Testing

@testable import Checkout

/// Webhooks: signed events of other systems, with the real process. Serialized: each test has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct CheckoutSourcesTests {
    typealias Fixture = CheckoutFixture

    /// The spacing and the last line feed are part of what is signed.
    static let event =
        ##"{"id":820982911946154508,"name":"#1001","order":{"id":"A-7"},"total_price":"199.00"}"## + "\n"

    // Made with Python's hmac, of `event`; the first one also with `openssl dgst -sha256 -hmac … -binary | base64`.
    static let shopify = "SDS0e3pk9f8H9sEzjAS+AyJ5Ouwvbtm4vsgZkyeHnyg="
    static let shopifyFormer = "HboVqGa+MVtwnc/+wEo5dMQG3kIEjNvMJFhoe+KgMiQ="
    static let stripe = "a1733ce46a98eae14dadd95709f51b409014607a150953c53308c909d129fc61"
    static let stripeTime: Int64 = 1_767_323_045
    static let adyen = "dJ+qtK7/+qlNLr9jVAokGiy8Zv2TOzJllq7KUmouYH8="

    static let stripeSecret = "whsec_0123456789abcdef0123456789ab"

    static var options: Fixture.Options {
        func webhook(_ scheme: String, _ topic: String, _ key: String? = nil) -> JSON {
            var members: JSONObject = [
                "signature": .string(scheme), "topic": .string(topic), "secret": .string("\(scheme).secret"),
            ]
            if let key { members["key"] = .string(key) }
            return .object(members)
        }
        var options = Fixture.Options()
        options.merchant["webhooks"] = [
            "orders": webhook("shopify", "shopify.orders", "id"),
            "charges": webhook("stripe", "stripe.charges", "order.id"),
            "transfers": webhook("adyen", "adyen.transfers"),
            "payments": webhook("basic", "adyen.payments", "notificationItems.0.NotificationRequestItem.pspReference"),
        ]
        options.files = [
            ("shopify", "shpss_0123456789abcdef0123456789ab\nshpss_the-former-secret-of-shop\n"),
            ("stripe", Self.stripeSecret + "\n"),
            ("adyen", "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056\n"),
            ("basic", "adyen:correct horse battery staple\nadyen:former horse battery\n"),
        ].map { ("merchants/shop/\($0.0).secret", Array($0.1.utf8)) }
        return options
    }

    static func with(
        redis hasRedis: Bool = false, _ body: @escaping @Sendable (Fixture) async throws -> Void
    ) async throws {
        var options = Self.options
        options.hasRedis = hasRedis
        try await Fixture.with(options) { fixture in
            for topic in ["shopify.orders", "stripe.charges", "adyen.transfers", "adyen.payments"] {
                try fixture.broker.create(.init(topic, partitions: 1))
            }
            try await body(fixture)
        }
    }

    static func send(
        _ fixture: Fixture, _ source: String, _ signature: String?, body: String = Self.event
    ) async throws -> RawConnection.Response {
        try await fixture.once(
            "POST", "/v1/checkout/sources/\(source)",
            ["Content-Type: application/json; charset=utf-8"] + (signature.map { [$0] } ?? []), body: body)
    }

    /// A signature of Stripe as of a time.
    static func signed(_ seconds: Int64) -> String {
        let code = HMACSHA256.authenticate(Array("\(seconds).\(Self.event)".utf8), key: Array(Self.stripeSecret.utf8))
        return "Stripe-Signature: t=\(seconds),v1=\(String(decoding: Hexadecimal.digits(code), as: UTF8.self)),v0=00"
    }

    static var now: Int64 { Int64(Date().timeIntervalSince1970) }

    @Test func eventsOfEachSchemeAreWrittenUnchangedBeforeTheAnswer() async throws {
        try await Self.with { fixture in
            let rows: [(source: String, signature: String, topic: String, key: String?)] = [
                (
                    "orders", "X-Shopify-Hmac-Sha256: \(Self.shopify)\r\nwaybill-merchant: other\r\nwaybill-purged: 1",
                    "shopify.orders", "820982911946154508"
                ),
                ("charges", Self.signed(Self.now), "stripe.charges", "A-7"),
                ("transfers", "HmacSignature: \(Self.adyen)", "adyen.transfers", nil),
            ]
            for row in rows {
                let answer = try await Self.send(fixture, row.source, row.signature)
                #expect(answer.status == 202, "\(row.source): \(answer.text)")
                #expect(try await fixture.published(topic: row.topic) == 1, "acknowledged before the answer")
                let record = try #require(try await fixture.changes(1, topic: row.topic).first)
                #expect(record.value == Array(Self.event.utf8))
                #expect(record.key == row.key.map { Array($0.utf8) })
                #expect(
                    record.headers == [
                        KafkaHeader(name: "content-type", text: "application/json; charset=utf-8"),
                        KafkaHeader(name: "waybill-merchant", text: "shop"),
                    ])
            }
            let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
            let former = try await Self.send(
                fixture, "orders", "X-Shopify-Hmac-Sha256: \(Self.shopifyFormer)\r\ntraceparent: \(parent)")
            #expect(former.status == 202, "the second line of the file")
            let traced = try await fixture.changes(2, topic: "shopify.orders").last
            #expect(traced?.headers.last == KafkaHeader(name: "traceparent", text: parent))
            #expect(try await fixture.published() == 0, "no change of an order")
        }
    }

    /// A standard webhook of Adyen signs eight members of each item: its request has a password.
    @Test func eventsOfASenderWithAPasswordAreTaken() async throws {
        try await Self.with(redis: true) { fixture in
            let event =
                #"{"live": "true", "notificationItems": [{"NotificationRequestItem": {"eventCode": "CAPTURE", "#
                + #""pspReference": "8835511210681324", "merchantReference": "A-7"}}]}"#
            func basic(_ text: String) -> String { "Authorization: Basic \(Data(text.utf8).base64EncodedString())" }
            let password = "adyen:correct horse battery staple"
            let rows: [(source: String, field: String?, status: Int)] = [
                ("payments", basic(password), 202), ("payments", basic(password), 202),
                ("payments", basic("adyen:former horse battery"), 202),
                ("payments", basic("adyen:wrong horse battery staple"), 401), ("payments", basic(""), 401),
                ("payments", "Authorization: Bearer \(password)", 401), ("payments", nil, 401),
                ("payments", "Authorization: Basic *", 401), ("orders", basic(password), 401),
            ]
            for row in rows {
                let answer = try await Self.send(fixture, row.source, row.field, body: event)
                #expect(answer.status == row.status, "\(row.source) \(row.field ?? "")")
            }
            let records = try await fixture.changes(2, topic: "adyen.payments")
            #expect(records.map(\.key) == [Array("8835511210681324".utf8), Array("8835511210681324".utf8)])
            #expect(try await fixture.published(topic: "adyen.payments") == 2, "one for each password, once")
        }
    }

    @Test func whatIsNotSignedOrNotKnownIsRefused() async throws {
        try await Self.with { fixture in
            let header = "X-Shopify-Hmac-Sha256: \(Self.shopify)"
            let rows: [(source: String, signature: String?, body: String, status: Int, code: String)] = [
                ("orders", header, Self.event.replacing("199.00", with: "1.00"), 401, "signature_refused"),
                ("orders", header, Self.event.replacing("\n", with: ""), 401, "signature_refused"),
                ("orders", nil, Self.event, 401, "signature_refused"),
                ("orders", "X-Shopify-Hmac-Sha256: ", Self.event, 401, "signature_refused"),
                ("orders", "HmacSignature: \(Self.shopify)", Self.event, 401, "signature_refused"),
                ("orders", "\(header)\r\n\(header)", Self.event, 401, "signature_refused"),
                ("transfers", "HmacSignature: \(Self.shopify)", Self.event, 401, "signature_refused"),
                ("charges", Self.signed(Self.now - 310), Self.event, 401, "signature_refused"),
                ("charges", Self.signed(Self.now + 310), Self.event, 401, "signature_refused"),
                ("charges", "Stripe-Signature: t=-9223372036854775808,v1=00", Self.event, 401, "signature_refused"),
                ("other", header, Self.event, 404, "not_found"), ("a%2Fb", header, Self.event, 404, "not_found"),
            ]
            for row in rows {
                let answer = try await Self.send(fixture, row.source, row.signature, body: row.body)
                #expect(answer.status == row.status, "\(row.source) \(row.signature ?? "")")
                #expect(answer.code == row.code)
                #expect((answer["www-authenticate"] != nil) == (row.status == 401))
            }
            let get = try await fixture.once("GET", "/v1/checkout/sources/orders")
            #expect(get.status == 405)
            #expect(get["allow"] == "POST")
            for topic in ["shopify.orders", "stripe.charges", "adyen.transfers", "adyen.payments"] {
                #expect(try await fixture.published(topic: topic) == 0)
            }
        }
    }

    /// The refusal is known from the head: a body that comes with it is not kept.
    @Test func aBodyOfARefusalIsNotAwaited() async throws {
        try await Self.with { fixture in
            let signature = "X-Shopify-Hmac-Sha256: \(Self.shopify)\r\n"
            let rows = [
                ("orders", "", 200_000, 401), ("other", "", 200_000, 404), ("orders", signature, 1_048_577, 413),
            ]
            for (source, signature, length, status) in rows {
                let connection = try await RawConnection.open(port: fixture.port)
                let answer = try await connection.exchange(
                    "POST /v1/checkout/sources/\(source) HTTP/1.1\r\nHost: a\r\n\(signature)"
                        + "Content-Length: \(length)\r\n\r\n")
                #expect(answer.status == status)
                #expect(answer["connection"] == "close")
                await connection.close()
            }
        }
    }

    /// An operator sees which webhook loses orders, before its sender gives up.
    @Test func aBodyThatIsTooLargeIsCountedAndLoggedOnce() async throws {
        var options = Self.options
        options.merchant["webhooks"] = [
            "orders": [
                "signature": "shopify", "topic": "shopify.orders", "secret": "shopify.secret", "bodyLimit": 20_000,
            ]
        ]
        try await Fixture.with(options) { fixture in
            func metrics() async throws -> String {
                try await RawConnection.once(
                    port: fixture.operationsPort, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                ).text
            }
            let counter = #"waybill_webhook_events_total{source="orders",outcome="body_too_large"}"#
            try await eventually("its first growth is seen") { try await metrics().contains(counter + " 0\n") }
            for _ in 0..<3 {
                let answer = try await Self.send(
                    fixture, "orders", "X-Shopify-Hmac-Sha256: \(Self.shopify)",
                    body: String(repeating: " ", count: 20_001))
                #expect(answer.status == 413)
                #expect(answer.code == "body_too_large")
            }
            let text = try await metrics()
            #expect(text.contains(counter + " 3\n"))
            #expect(
                text.contains(
                    #"waybill_checkout_requests_total{route="sources",merchant="shop",outcome="refused"} 3"#))
            try await fixture.child.line {
                $0.contains("request refused before its body was read") && $0.contains(#""route":"sources/orders""#)
                    && $0.contains(#""merchant":"shop""#) && $0.contains("the body may have 20000 bytes at most")
            }
            let lines = fixture.child.output.split(separator: "\n")
            #expect(lines.count { $0.contains("before its body was read") } == 1, "the others are counted for a while")
        }
    }

    /// Shopify repeats each line of an order in its fulfillments.
    @Test func anEventOfHalfAMegabyteIsTaken() async throws {
        try await Self.with { fixture in
            let body = #"{"id":7,"line_items":""# + String(repeating: "x", count: 500_000) + #""}"#
            let code = HMACSHA256.authenticate(Array(body.utf8), key: Array("shpss_0123456789abcdef0123456789ab".utf8))
            let signature = "X-Shopify-Hmac-Sha256: \(Data(code).base64EncodedString())"
            #expect(try await Self.send(fixture, "orders", signature, body: body).status == 202)
            let records = try await fixture.changes(1, topic: "shopify.orders")
            #expect(records.first?.value == Array(body.utf8))
            #expect(records.first?.key == Array("7".utf8))
        }
    }

    /// The memory of a body that arrives is a power of two: that of the largest fits the budget of its address.
    @Test(arguments: ["http/1.1", "h2"]) func theLargestBodyThatMayBeConfiguredIsTaken(_ version: String) async throws {
        let most = Webhook.bodyLimits.upperBound
        let certificates = try TLSSupport.made.get().first
        var options = Self.options
        options.environment = [
            "WAYBILL_TLS_CERTIFICATE": certificates.serverCertificate, "WAYBILL_TLS_KEY": certificates.serverKey,
        ]
        options.merchant["webhooks"] = [
            "orders": [
                "signature": "shopify", "topic": "shopify.orders", "secret": "shopify.secret",
                "bodyLimit": .integer(Int64(most)),
            ]
        ]
        try await Fixture.with(options) { fixture in
            try fixture.broker.create(.init("shopify.orders", partitions: 1))
            let body = [UInt8](repeating: 32, count: most)
            let code = HMACSHA256.authenticate(body, key: Array("shpss_0123456789abcdef0123456789ab".utf8))
            let signature = Data(code).base64EncodedString()
            let (path, field) = ("/v1/checkout/sources/orders", "x-shopify-hmac-sha256")
            let connection = try await RawConnection.open(port: fixture.port, tls: TLSSupport.client([version]))
            if version == "h2" {
                let wire = HTTP2Wire(connection)
                try await wire.start()
                let head = try wire.block(HTTP2Wire.fields("POST", path, [(field, signature)]))
                try await connection.send(
                    HTTP2Wire.bytes(HTTP2Wire.headers, flags: HTTP2Wire.endHeaders, stream: 1, head))
                try await wire.send(body: most, of: 32, on: 1, isComplete: true)
                #expect(try await wire.response(1).status == 202)
            } else {
                let head = [
                    "POST \(path) HTTP/1.1", "Host: a", "\(field): \(signature)", "Content-Length: \(most)", "", "",
                ].joined(separator: "\r\n")
                try await connection.send(Array(head.utf8) + body)
                #expect(try await connection.response().status == 202)
            }
            await connection.close()
            #expect(try await fixture.published(topic: "shopify.orders") == 1)
        }
    }

    /// The bodies of events for which there is no place are not read.
    @Test func anEventBeyondTheShareIsRefusedFromItsHead() async throws {
        try await Self.with { fixture in
            let header = "X-Shopify-Hmac-Sha256: \(Self.shopify)"
            try fixture.broker.setDown()
            try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<WebhookEndpoint.limit / 2 {
                    group.addTask { try await Self.send(fixture, "orders", header).status }
                }
                var answer: RawConnection.Response?
                try await eventually("the source has its share") {
                    let connection = try await RawConnection.open(port: fixture.port)
                    answer = try await connection.exchange(
                        "POST /v1/checkout/sources/orders HTTP/1.1\r\nHost: a\r\n\(header)\r\n"
                            + "Expect: 100-continue\r\nContent-Length: 200000\r\n\r\n")
                    await connection.close()
                    return answer?.status == 503
                }
                #expect(answer?["retry-after"] == "1")
                #expect(answer?["connection"] == "close")
                for try await status in group { #expect(status == 503) }
            }
            try fixture.broker.setUp()
        }
    }

    @Test func anEventIsRefusedWhileKafkaIsAwayAndTakenAfterwards() async throws {
        try await Self.with { fixture in
            let header = "X-Shopify-Hmac-Sha256: \(Self.shopify)"
            try fixture.broker.setDown()
            let refused = try await Self.send(fixture, "orders", header)
            #expect(refused.status == 503)
            #expect(refused.code == "unavailable")
            #expect(refused["retry-after"] == "5")
            try fixture.broker.setUp()
            var status = 0
            // Each attempt waits for Kafka for 5 s.
            for _ in 0..<6 where status != 202 { status = try await Self.send(fixture, "orders", header).status }
            #expect(status == 202)
            #expect(try await fixture.published(topic: "shopify.orders") >= 1)
        }
    }

    /// A provider sends an event again whose answer it did not see, and others may send one that they have read.
    @Test func anAcceptedEventThatComesAgainIsNotWrittenAgain() async throws {
        try await Self.with(redis: true) { fixture in
            let header = "X-Shopify-Hmac-Sha256: \(Self.shopify)"
            try fixture.broker.setDown()
            #expect(try await Self.send(fixture, "orders", header).status == 503, "nothing is accepted yet")
            try fixture.broker.setUp()
            var status = 0
            for _ in 0..<6 where status != 202 { status = try await Self.send(fixture, "orders", header).status }
            #expect(status == 202, "the provider's next attempt")
            let count = try await fixture.published(topic: "shopify.orders")
            #expect(count >= 1)
            for _ in 0..<2 { #expect(try await Self.send(fixture, "orders", header).status == 202) }
            #expect(try await fixture.published(topic: "shopify.orders") == count)
            // The same event by another signature, source or time is another one.
            let former = "X-Shopify-Hmac-Sha256: \(Self.shopifyFormer)"
            #expect(try await Self.send(fixture, "orders", former).status == 202)
            #expect(try await fixture.published(topic: "shopify.orders") == count + 1)
            let now = Self.now
            for signature in [Self.signed(now), Self.signed(now), Self.signed(now - 1)] {
                #expect(try await Self.send(fixture, "charges", signature).status == 202)
            }
            #expect(try await fixture.published(topic: "stripe.charges") == 2)
            let metrics = try await RawConnection.once(
                port: fixture.operationsPort, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            #expect(
                metrics.text.contains(#"waybill_webhook_signatures_total{source="orders",outcome="repeated"} 2"#))
            #expect(
                metrics.text.contains(#"waybill_webhook_signatures_total{source="charges",outcome="repeated"} 1"#))
        }
    }

    @Test func withoutRedisEachEventIsTaken() async throws {
        try await Self.with { fixture in
            let header = "HmacSignature: \(Self.adyen)"
            for _ in 0..<2 { #expect(try await Self.send(fixture, "transfers", header).status == 202) }
            #expect(try await fixture.published(topic: "adyen.transfers") == 2)
            // It is left alone after a while: otherwise each of these waits 2 s for it.
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<CallBreaker.limit {
                    group.addTask { _ = try await Self.send(fixture, "transfers", header) }
                }
                try await group.waitForAll()
            }
            let start = ContinuousClock.now
            for _ in 0..<20 { #expect(try await Self.send(fixture, "transfers", header).status == 202) }
            #expect(ContinuousClock.now - start < .seconds(30))
            let metrics = try await RawConnection.once(
                port: fixture.operationsPort, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            #expect(
                metrics.text.contains(#"waybill_webhook_signatures_total{source="transfers",outcome="unchecked"} 32"#))
        }
    }

    /// While Kafka is away, those that were let in wait for 5 s; the others are refused at once.
    @Test func aSourceThatFloodsLeavesPlacesToOthers() async throws {
        try await Self.with { fixture in
            let header = "X-Shopify-Hmac-Sha256: \(Self.shopify)"
            try fixture.broker.setDown()
            let refusals = try await withThrowingTaskGroup(of: RawConnection.Response.self) { group in
                for _ in 0..<100 { group.addTask { try await Self.send(fixture, "orders", header) } }
                let first = try await group.next()
                #expect(first?.status == 503)
                #expect(first?["retry-after"] == "1", "one beyond the share is answered first")
                #expect(first?.text.contains("too many events of this source") == true)
                let other = try await Self.send(fixture, "transfers", "HmacSignature: \(Self.adyen)")
                #expect(other["retry-after"] == "5", "it was let in")
                var refusals = 1
                for try await answer in group where answer["retry-after"] == "1" { refusals += 1 }
                return refusals
            }
            #expect(refusals == 100 - WebhookEndpoint.limit / 2)
            try fixture.broker.setUp()
        }
    }

    @Test func theTimeOfASignatureOfStripeHasAWindow() {
        let webhook = Webhook(
            name: "charges", topic: "stripe.charges", scheme: .stripe, secrets: [Array(Self.stripeSecret.utf8)],
            key: [])
        func isSigned(_ signature: String, after seconds: Int64) -> Bool {
            webhook.code(of: Array(Self.event.utf8), by: signature, nowEpochSeconds: Self.stripeTime + seconds) != nil
        }
        let signature = "t=\(Self.stripeTime),v1=\(Self.stripe)"
        for seconds in [-300, 0, 300] as [Int64] { #expect(isSigned(signature, after: seconds)) }
        for seconds in [-301, 301] as [Int64] { #expect(!isSigned(signature, after: seconds)) }
        let wrong = String(repeating: "0", count: 64)
        #expect(isSigned("t=\(Self.stripeTime),v1=\(wrong),v1=\(Self.stripe),v0=\(wrong)", after: 0), "one of two")
        #expect(!isSigned("t=\(Self.stripeTime),v0=\(Self.stripe)", after: 0), "v0 is of no live event")
        #expect(!isSigned("t=\(Self.stripeTime + 1),v1=\(Self.stripe)", after: 0), "the time is signed too")
        #expect(!isSigned("v1=\(Self.stripe)", after: 0))
        #expect(!isSigned("", after: 0))
    }

    /// JavaScript and Python write half of a character where they cut a text.
    @Test func aTextCutInTheMiddleOfACharacterLeavesTheKey() {
        let webhook = Webhook(name: "a", topic: "a", scheme: .shopify, secrets: [], key: ["id"])
        let body = #"{"title":"Sticker set \ud83d","other":"\ude00 \ud83d\n","id":6120034418893}"#
        #expect(webhook.recordKey(of: Array(body.utf8)) == Array("6120034418893".utf8))
    }

    /// The key decides the partition, and so the sequence of an order's events.
    @Test(arguments: [
        #""id":2,"id":6120034418893"#, #""a":1,"a":2,"id":6120034418893"#, #""id":6120034418893,"a":fault"#,
        #""id":6120034418893,"a":\#(String(repeating: "[", count: 50_000))"#,
        #""a":[\#(String(repeating: "0,", count: 200_000))0],"id":6120034418893"#,
    ])
    func noFaultOfTheBodyCostsTheKey(_ members: String) {
        let webhook = Webhook(name: "a", topic: "a", scheme: .shopify, secrets: [], key: ["id"])
        #expect(webhook.recordKey(of: Array("{\(members)}".utf8)) == Array("6120034418893".utf8))
    }

    @Test func theKeyIsATextOrANumber() {
        func key(_ path: String) -> String? {
            let webhook = Webhook(
                name: "a", topic: "a", scheme: .shopify, secrets: [], key: path.split(separator: ".").map(String.init))
            return webhook.recordKey(of: Array(Self.event.utf8)).map { String(decoding: $0, as: UTF8.self) }
        }
        #expect(key("id") == "820982911946154508")
        #expect(key("order.id") == "A-7")
        for path in ["", "order", "none", "none.id", "id.id"] { #expect(key(path) == nil, "\(path)") }
    }
}
