import Cryptography
import Foundation
import Model
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Gateway

/// The routes of the compatible dialect. Serialized: each test has its own servers.
@Suite(.serialized, .timeLimit(.minutes(2))) struct CompatibilityTests {
    typealias Fixture = GatewayFixture

    static var options: Fixture.Options {
        var options = Fixture.Options()
        options.isCompatible = true
        return options
    }

    static let path = "/apple/v1/packages/\(Fixture.orderType)/1"

    @Test(.server) func compatibilityEndpointsAreOffByDefault() async throws {
        try await Fixture.with { fixture in
            let package = try await fixture.once("GET", Self.path, token: Fixture.ownToken)
            #expect(package.status == 404)
            #expect(try await fixture.once("POST", "/apple/v1/push", token: Fixture.ownToken, body: "{}").status == 404)
        }
    }

    @Test(.server) func anOrderComesAsJSONOrAsAPackage() async throws {
        try await Fixture.with(Self.options) { fixture in
            try await fixture.put("1")
            for headers in [
                ["Authorization: AppleOrder \(Fixture.ownToken)"], ["Authorization: Bearer \(Fixture.ownToken)"],
            ] {
                let answer = try await fixture.once("GET", Self.path, headers)
                #expect(answer.status == 200, "\(answer.text)")
                #expect(answer["content-type"] == "application/json", "\(answer.text)")
                #expect(answer["vary"] == "Authorization, Accept")
                #expect(answer["cache-control"] == "private, no-cache")
                let order = try JSON(parsing: answer.body).object?["order"]?.object
                #expect(order?["orderIdentifier"] == "1")
                #expect(order?["updatedAt"] == "1994-11-06T08:49:37Z")
                let tag = try #require(answer["etag"])
                // A part of the view is the brand's, which changes without a version of the order.
                #expect(tag == "\"json-\(SHA256.hex(answer.body).prefix(32))\"")
                #expect(answer["last-modified"] == nil)
                for known in [tag, "W/\(tag)", "\"x\", \(tag)", "*"] {
                    let again = try await fixture.once("GET", Self.path, headers + ["If-None-Match: \(known)"])
                    #expect(again.status == 304, "\(known)")
                    #expect(again["etag"] == tag)
                }
                #expect(try await fixture.once("GET", Self.path, headers + ["If-None-Match: \"x\""]).status == 200)
                let package = try await fixture.once(
                    "GET", Self.path, headers + ["Accept: application/vnd.apple.finance.order"])
                #expect(package.status == 200)
                #expect(package.body == Fixture.package)
            }
            let wrong = try await fixture.once("GET", Self.path, ["Authorization: Bearer nobody-s-token-here"])
            let unknown = try await fixture.once(
                "GET", Self.path.replacing("/1", with: "/2"), ["Authorization: Bearer nobody-s-token-here"])
            #expect(wrong.status == 401)
            #expect(unknown.status == 401)
            #expect(wrong.body == unknown.body)
            #expect(try await fixture.once("POST", Self.path, token: Fixture.ownToken).status == 405)
        }
    }

    /// An answer is made of one state of the order, read behind its token, and one check of the view covers both.
    @Test(.server) func theViewOfAnOrderIsReadOnce() async throws {
        try await Fixture.with(Self.options) { fixture in
            try await fixture.put("1")
            func reads() async throws -> Int {
                let text = try await fixture.redis.send(RedisCommand("INFO", "commandstats")).text ?? ""
                return text.split(whereSeparator: \.isNewline).reduce(0) { sum, line in
                    let names = ["hmget"]
                    guard names.contains(where: { line.hasPrefix("cmdstat_\($0):calls=") }) else { return sum }
                    return sum + (Int(line.drop { $0 != "=" }.dropFirst().prefix { $0.isNumber }) ?? 0)
                }
            }
            #expect(try await fixture.once("GET", Self.path, token: Fixture.ownToken).status == 200)
            let before = try await reads()
            for _ in 0..<5 { #expect(try await fixture.once("GET", Self.path, token: Fixture.ownToken).status == 200) }
            let after = try await reads()
            #expect(after - before == 10, "\(after - before)")
        }
    }

    /// A wrong token costs no more than for an unknown order: the document is not read, which here could not be.
    @Test(.server) func theViewOfAnOrderIsReadForARightTokenOnly() async throws {
        try await Fixture.with(Self.options) { fixture in
            try await fixture.put("1")
            let order = RedisArgument.string("waybill:1:order:{\(try Fixture.key("1"))}")
            for field in ["document"] {
                _ = try await fixture.redis.send(RedisCommand("HSET", order, .string(field), "no document"))
            }
            let wrong = try await fixture.once("GET", Self.path, ["Authorization: Bearer nobody-s-token-here"])
            #expect(wrong.status == 401)
            let right = try await fixture.once("GET", Self.path, token: Fixture.ownToken)
            #expect(right.status >= 500, "the document is read")
        }
    }

    @Test(.server) func aPushTokenIsRegisteredForTheOrderOfItsToken() async throws {
        try await Fixture.with(Self.options) { fixture in
            try await fixture.put("1")
            let path = "/apple/v1/push"
            func push(_ body: String, token: String = Fixture.ownToken) async throws -> Int {
                try await fixture.once("POST", path, token: token, body: body).status
            }
            #expect(try await push(#"{"pushToken":"aa11"}"#) == 401, "nobody knows whose token it is")
            try await TokenIndex(redis: fixture.redis).remember(
                try AuthenticationToken(Fixture.ownToken), of: try Fixture.key("1"))
            #expect(try await push(#"{"pushToken":"aa11"}"#) == 201)
            #expect(try await push(#"{"pushToken":"aa11"}"#) == 200)
            let named =
                #"{"push_token":"x","pushToken":"bb22","order_type_identifier":"\#(Fixture.orderType)","#
                + #""orderIdentifier":"1","deviceIdentifier":"mine"}"#
            #expect(try await push(named) == 201)
            #expect(try await push(#"{"pushToken":"abc123devicepushtoken"}"#) == 400, "not hexadecimal")
            #expect(try await push(named, token: "a-token-of-somebody") == 401)
            let devices = try await Registrations(redis: fixture.redis).devices(of: [try Fixture.key("1")])[0]
            #expect(Set(devices.map(\.device.rawValue)) == ["mine", "compat-" + Self.digest("aa11")])
        }
    }

    static func digest(_ text: String) -> String {
        SHA256.digest(Array(text.utf8)).prefix(16).map { String(format: "%02x", $0) }.joined()
    }

    @Test func theOrderViewUsesPaymentProviderTerms() throws {
        let order: JSON = [
            "orderIdentifier": "1", "orderTypeIdentifier": "order.com.x", "updatedAt": "2026-01-01T00:00:00Z",
            "status": "open",
            "merchant": ["merchantIdentifier": "m", "displayName": "Shop", "url": "https://x", "logo": "l"],
            "lineItems": [
                [
                    "title": "Lamp", "subtitle": "red", "sku": "7", "quantity": 2,
                    "price": ["amount": "1.50", "currency": "EUR"],
                ]
            ],
            "payment": ["total": ["amount": "3.00", "currency": "EUR"]],
            "fulfillments": [
                [
                    "fulfillmentIdentifier": "a", "status": "onTheWay", "trackingNumber": "T",
                    "trackingURL": "https://t",
                ],
                ["fulfillmentIdentifier": "b", "status": "delivered"],
            ],
        ]
        #expect(
            OrderView(order.object ?? [:]).json == [
                "order": [
                    "orderIdentifier": "1", "orderTypeIdentifier": "order.com.x", "updatedAt": "2026-01-01T00:00:00Z",
                    "status": "in_progress", "statusDescription": "",
                    "merchant": ["merchantIdentifier": "m", "displayName": "Shop", "url": "https://x"],
                    "lineItems": [
                        ["label": "Lamp (red)", "sku": "7", "quantity": 2, "price": "1.50", "currencyCode": "EUR"]
                    ],
                    "total": ["label": "Total", "price": "3.00", "currencyCode": "EUR"],
                    "fulfillments": [
                        [
                            "fulfillmentIdentifier": "a", "status": "in_progress", "statusDescription": "",
                            "trackingNumber": "T", "trackingUrl": "https://t",
                        ],
                        [
                            "fulfillmentIdentifier": "b", "status": "fulfilled", "statusDescription": "",
                            "trackingNumber": "", "trackingUrl": "",
                        ],
                    ],
                ]
            ])
        let rows: [(JSONObject, String)] = [
            (["status": "cancelled"], "cancelled"), (["status": "completed"], "fulfilled"),
            (["status": "open"], "open"),
            (["status": "open", "fulfillments": [["status": "open"]]], "open"),
            (["status": "open", "fulfillments": [["status": "open"], ["status": "issue"]]], "in_progress"),
        ]
        for (order, status) in rows {
            #expect(OrderView(order).json.object?["order"]?.object?["status"]?.string == status)
        }
    }
}
