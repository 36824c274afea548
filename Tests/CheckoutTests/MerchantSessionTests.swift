import Cryptography
import Fetch
import Foundation
import Model
import NIOCore
import TestKit
import TestTraits
import Testing

@testable import Checkout
@testable import HTTPServer

/// Merchant sessions of the real process, against a server that requires a client certificate.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct MerchantSessionTests {
    typealias Fixture = CheckoutFixture
    static let merchant = "merchant.com.example.shop"
    static let production = "https://apple-pay-gateway.apple.com/paymentservices/startSession"
    static let sandbox = "https://apple-pay-gateway-cert.apple.com/paymentservices/paymentSession"

    /// - Parameter days: the number of days for which the identity certificate is valid.
    static func options(
        _ apple: AppleSessions, _ members: JSONObject = [:], days: Int = 60
    ) throws -> Fixture.Options {
        let digest = SHA256.hex(Array(Self.merchant.utf8))
        let identity = try AppleSessions.identity(Self.merchant, extension: digest, days: days, named: "shop")
        var options = Fixture.Options()
        options.environment = apple.environment
        options.files = [
            ("merchants/shop/identity.pem", identity.certificate), ("merchants/shop/key.pem", identity.key),
            ("merchants/shop/association.txt", Array("7B2270\r\n".utf8)),
        ]
        options.merchant = [
            "certificate": "identity.pem", "key": "key.pem",
            "origins": [Fixture.origin: ["association": "association.txt", "frames": ["outer.example.com"]]],
        ]
        // Null takes a member away from those of all merchants in these tests.
        for member in members.members { options.merchant[member.name] = member.value }
        return options
    }

    static func with(
        _ members: JSONObject = [:], days: Int = 60,
        _ body: @escaping @Sendable (Fixture, AppleSessions) async throws -> Void
    ) async throws {
        let apple = try await AppleSessions.start()
        do {
            try await Fixture.with(try Self.options(apple, members, days: days)) { try await body($0, apple) }
        } catch {
            await apple.stop()
            throw error
        }
        await apple.stop()
    }

    static func validate(
        _ fixture: Fixture, _ body: String, origin: String = Fixture.origin
    ) async throws -> RawConnection.Response {
        try await fixture.once("POST", "/applepay/validate", ["Origin: \(origin)"], body: body)
    }

    @Test func anExpiringCertificateAndAWorldReadableKeyAreLogged() async throws {
        try await Self.with(days: 9) { fixture, _ in
            try await fixture.child.line { $0.contains("certificate expires soon") && $0.contains(#""days":"8""#) }
            try await fixture.child.line { $0.contains("key.pem: every user of this machine can read this secret") }
            let metrics = try await RawConnection.once(
                port: fixture.operationsPort, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            let line = metrics.text.split(separator: "\n").first {
                $0.hasPrefix("waybill_certificate_expiry_timestamp_seconds{owner=\"merchant shop\",")
            }
            let end = line?.split(separator: " ").last.flatMap { Double($0) } ?? 0
            let days = (end - Date().timeIntervalSince1970) / 86_400
            #expect(days > 8.9)
            #expect(days <= 9)
            #expect(metrics.text.contains("waybill_reload_ok{file=\"merchants\"} 1.0\n"))
            // Every metric has its help.
            let lines = metrics.text.split(separator: "\n")
            #expect(lines.count { $0.hasPrefix("# HELP ") } == lines.count { $0.hasPrefix("# TYPE ") })
        }
    }

    @Test func aMerchantOfAPlatformGetsSessionsUnderItsRegisteredName() async throws {
        let partner: JSONObject = ["partnerInternalMerchantIdentifier": "platform-shop-42"]
        try await Self.with(partner) { fixture, apple in
            let answer = try await Self.validate(fixture, #"{"validationURL":"\#(Self.production)"}"#)
            #expect(answer.status == 200, "\(answer.text)")
            let request = try #require(apple.seen.first)
            #expect(request.body.object?["merchantIdentifier"] == "platform-shop-42")
            #expect(request.client == Self.merchant, "the certificate is the platform's")
        }
    }

    @Test func theValidationURLChoosesTheMerchantSessionHost() async throws {
        try await Self.with(["environments": ["production", "sandbox"]]) { fixture, apple in
            for url in [Self.production, Self.sandbox] {
                let answer = try await Self.validate(fixture, #"{"validationURL":"\#(url)"}"#)
                #expect(answer.status == 200, "\(answer.text)")
                #expect(answer.text == #"{"epochTimestamp": 1, "merchantSessionIdentifier": "SSH", "nonce": "n"}"#)
                #expect(answer["content-type"] == "application/json")
                #expect(answer["cache-control"] == "no-store")
                #expect(answer["access-control-allow-origin"] == Fixture.origin)
            }
            let embedded = #"{"validationUrl":"\#(Self.production)","domain":"outer.example.com"}"#
            #expect(try await Self.validate(fixture, embedded).status == 200)
            // A session of the wrong environment is dropped by the browser without a reason.
            let unnamed = try await Self.validate(fixture, "{}")
            #expect(unnamed.status == 400)
            #expect(unnamed.code == "missing_parameter")
            #expect(unnamed.json.object?["error"]?.object?["param"] == "validationURL")
            try await fixture.child.line { $0.contains("the page names no host") && $0.contains(#""merchant":"shop""#) }
            let seen = apple.seen
            #expect(seen.map(\.serverName) == ["", "-cert", ""].map { "apple-pay-gateway\($0).apple.com" })
            #expect(seen.map(\.host) == seen.map(\.serverName))
            #expect(seen.allSatisfy { $0.path == "/paymentservices/paymentSession" })
            #expect(seen.allSatisfy { $0.method == "POST" })
            #expect(seen.allSatisfy { $0.client == Self.merchant })
            #expect(seen.allSatisfy { $0.contentType == "application/json" })
            let contexts = ["shop.example.com", "shop.example.com", "outer.example.com"]
            for (request, context) in zip(seen, contexts) {
                #expect(
                    request.body == [
                        "merchantIdentifier": .string(Self.merchant), "displayName": "Example Shop",
                        "initiative": "web", "initiativeContext": .string(context),
                    ])
            }
            #expect(apple.connections == 2, "a connection for each host, kept")
        }
    }

    /// Each environment alone is a fallback for a page that names no host; older hosts are a merchant's choice.
    @Test func olderHostsAreAcceptedForAMerchantThatWantsThem() async throws {
        let members: JSONObject = ["legacyHosts": true, "regions": ["global", "cn"]]
        let names = ["apple-pay-gateway-nc-pod5", "apple-pay-gateway-pr-pod1-dr", "cn-apple-pay-gateway-sh-pod1-dr"]
            .map { "\($0).apple.com" }
        try await Self.with(members) { fixture, apple in
            for name in names {
                let body = #"{"validationURL":"https://\#(name)/paymentservices/startSession"}"#
                let answer = try await Self.validate(fixture, body)
                #expect(answer.status == 200, "\(name)")
            }
            let unnamed = try await Self.validate(fixture, "{}")
            #expect(unnamed.status == 200)
            #expect(apple.seen.map(\.serverName) == names + ["apple-pay-gateway.apple.com"])
        }
    }

    @Test func theSandboxAloneIsTheHostOfAPageThatNamesNone() async throws {
        try await Self.with(["environments": ["sandbox"], "merchantIdentifier": .null]) { fixture, apple in
            let answer = try await Self.validate(fixture, "{}")
            #expect(answer.status == 200, "\(answer.text)")
            #expect(apple.seen.map(\.serverName) == ["apple-pay-gateway-cert.apple.com"])
            let identifiers = apple.seen.map { $0.body.object?["merchantIdentifier"]?.string }
            #expect(identifiers == [Self.merchant], "read from the certificate")
        }
    }

    @Test func aForbiddenSessionIsRefusedBeforeAnyConnection() async throws {
        try await Self.with { fixture, apple in
            let hostile = "https://apple-pay-gateway.apple.com.evil.example/paymentservices/startSession"
            let rows: [(String, String)] = [
                (#"{"validationURL":"\#(hostile)"}"#, "400 validation_url_refused"),
                (#"{"validationURL":"\#(Self.sandbox)"}"#, "403 capability_required"),
                (#"{"validationURL":"https://cn-apple-pay-gateway.apple.com/x"}"#, "403 capability_required"),
                (#"{"validationURL":"https://apple-pay-gateway-nc-pod1.apple.com/x"}"#, "403 capability_required"),
                (#"{"validationURL":1}"#, "400 invalid_parameter"),
                (#"{"domain":"evil.example"}"#, "400 invalid_parameter"),
                (#"{"host":"x"}"#, "400 invalid_parameter"),
            ]
            for (body, expected) in rows {
                let answer = try await Self.validate(fixture, body)
                #expect("\(answer.status) \(answer.code ?? "")" == expected, "\(body)")
                #expect(!answer.text.contains("evil"), "nothing of the input comes back")
            }
            #expect(try await Self.validate(fixture, "{}", origin: "https://evil.example").code == "origin_refused")
            #expect(apple.connections == 0)
        }
    }

    @Test func eachAppleFailureGetsItsErrorCode() async throws {
        try await Self.with { fixture, apple in
            let rows = [
                ("refuse", "502 merchant_session_refused"), ("fail", "502 upstream_unavailable"),
                ("page", "502 upstream_invalid"), ("huge", "502 upstream_invalid"),
                ("redirect", "502 merchant_session_refused"), ("cut", "502 upstream_unavailable"),
            ]
            for (mood, expected) in rows {
                try apple.turn(mood)
                let answer = try await Self.validate(fixture, "{}")
                #expect("\(answer.status) \(answer.code ?? "")" == expected, "\(mood)")
                #expect(!answer.text.contains("registered"), "nothing of Apple's error goes to a page")
            }
            #expect(apple.seen.allSatisfy { $0.path == "/paymentservices/paymentSession" }, "no redirect is followed")
            _ = try await fixture.child.line {
                $0.contains("cannot get a merchant session") && $0.contains("not registered")
            }
            await apple.stop()
            #expect(try await Self.validate(fixture, "{}").code == "upstream_unavailable")
        }
    }

    @Test func tooManyMerchantSessionRequestsGet429() async throws {
        try await Self.with { fixture, _ in
            // Refused requests count for nobody: neither for the client nor for the page's customers.
            let hostile = #"{"validationURL":"https://apple-pay-gateway.apple.com.evil.example/x"}"#
            for _ in 0..<60 { #expect(try await Self.validate(fixture, hostile).status == 400) }
            // Ten of its own, and five spare ones of the page, which come back five times a second.
            for _ in 0..<15 { #expect(try await Self.validate(fixture, "{}").status == 200) }
            var answer = try await Self.validate(fixture, "{}")
            for _ in 0..<1000 where answer.status == 200 { answer = try await Self.validate(fixture, "{}") }
            #expect(answer.status == 429)
            #expect(answer.code == "rate_limited")
            let seconds = try #require(answer["retry-after"].flatMap { Int($0) })
            #expect((1...6).contains(seconds))
        }
    }

    @Test func theAssociationFileIsServedByHost() async throws {
        try await Self.with { fixture, _ in
            let path = "/.well-known/apple-developer-merchantid-domain-association"
            for path in [path, path + ".txt"] {
                for method in ["GET", "HEAD"] {
                    let connection = try await RawConnection.open(port: fixture.port)
                    let answer = try await connection.exchange(
                        fixture.request(method, path, ["Host: Shop.example.com:443"]))
                    await connection.close()
                    #expect(answer.status == 200)
                    #expect(answer["content-type"] == "text/plain")
                    #expect(answer["content-length"] == "8")
                    #expect(answer["cache-control"] == "max-age=300")
                    #expect(answer["x-content-type-options"] == "nosniff")
                    #expect(answer.text == (method == "GET" ? "7B2270\r\n" : ""))
                }
                #expect(try await fixture.once("GET", path, ["Host: other.example.com"]).status == 404)
            }
            let root = try await fixture.once("GET", "/", ["Host: shop.example.com"])
            #expect(root.status == 200)
            #expect(root["x-content-type-options"] == "nosniff")
            #expect(try await fixture.once("GET", "/", ["Host: elsewhere.example"]).status == 404)
            #expect(try await fixture.once("POST", path, ["Host: shop.example.com"]).status == 405)
        }
    }

    @Test func pageFilesAreServedToEveryOrigin() async throws {
        try await Self.with { fixture, _ in
            for (path, type) in [
                ("waybill.mjs", "text/javascript"), ("waybill.js", "text/javascript"), ("waybill.css", "text/css"),
            ] {
                let answer = try await fixture.once("GET", "/applepay/\(path)", ["Origin: https://anybody.example"])
                #expect(answer.status == 200)
                #expect(answer["content-type"]?.hasPrefix(type) == true)
                #expect(answer["access-control-allow-origin"] == "*")
                #expect(answer["cross-origin-resource-policy"] == "cross-origin")
                let tag = try #require(answer["etag"])
                let again = try await fixture.once("GET", "/applepay/\(path)", ["If-None-Match: \(tag)"])
                #expect(again.status == 304)
                #expect(again.body.isEmpty)
                let digest = tag.replacing("\"", with: "")
                let named = try await fixture.once("GET", "/applepay/\(path)?v=\(digest)")
                #expect(named["cache-control"]?.contains("immutable") == true)
            }
            #expect(try await fixture.once("GET", "/applepay/polyfill.js").status == 404, "only in development")
        }
    }
}

/// The decisions about hosts, and about certificates when a merchant is loaded.
@Suite struct MerchantSessionRulesTests {
    static let host = "apple-pay-gateway.apple.com"

    @Test(arguments: [
        "https://\(host)/paymentservices/startSession", "https://\(host)", "https://\(host)/", "https://\(host):443/x",
        "HTTPS://\(host)/x", "https://Apple-Pay-Gateway.APPLE.com/x", "https://\(host)/../..//%2e/anything",
    ])
    func aListedHostIsAccepted(_ url: String) {
        #expect(AppleHost(validationURL: url)?.name == Self.host)
    }

    static let hostile = [
        "", " ", "https://", "https:///", "https://\(host)\u{0}", " https://\(host)/", "https://\(host)/ ",
        "http://\(host)/x", "ftp://\(host)/x", "//\(host)/x", "\(host)/x", "https:\(host)/x", "https:/\(host)/x",
        "https:\\\\\(host)/x", "https://\(host)\\@evil.example/x", "https://evil.example\\\(host)/x",
        "https://\(host).evil.example/x", "https://evil.example/\(host)", "https://evil-\(host)/x",
        "https://\(host)evil.example/x", "https://\(host)./x", "https://.\(host)/x", "https://x.\(host)/x",
        "https://user@\(host)/x", "https://user:password@\(host)/x", "https://\(host)@evil.example/x",
        "https://\(host):443@evil.example/x", "https://\(host)%40evil.example/x", "https://evil.example#@\(host)/x",
        "https://evil.example?@\(host)/x", "https://\(host)?x=y", "https://\(host)/x?y", "https://\(host)/x#y",
        "https://\(host)#", "https://\(host):80/x", "https://\(host):4430/x", "https://\(host):/x",
        "https://\(host):0443/x", "https://\(host):443:443/x", "https://\(host):444/x", "https://\(host):-443/x",
        "https://apple-pay-gateway%2eapple.com/x", "https://apple-pay-gateway%2Eapple%2Ecom/x",
        "https://apple-pay-gateway.apple.com%00.evil.example/x", "https://apple-pay-gateway。apple.com/x",
        "https://аpple-pay-gateway.apple.com/x", "https://apple-pay-gateway.apple.cοm/x",
        "https://xn--pple-pay-gateway-xxx.apple.com/x", "https://apple-pay-gateway.apple.com\t/x",
        "https://apple-pay-\tgateway.apple.com/x", "https://apple-pay-gateway.apple.com\r\nHost: evil.example/x",
        "https://apple-pay-gateway.apple.com\n/x", "https://[::1]/x", "https://[::ffff:17.0.0.1]/x",
        "https://127.0.0.1/x", "https://17.32.214.7/x", "https://2130706433/x", "https://0x7f.1/x",
        "https://localhost/x",
        "https://apple.com/x", "https://www.apple.com/x", "https://gateway.apple.com/x",
        "https://apple-pay-gateway-nc-pod6.apple.com/x", "https://apple-pay-gateway-nc-pod0.apple.com/x",
        "https://apple-pay-gateway-nc-pod6-dr.apple.com/x", "https://cn-apple-pay-gateway-sh-pod4-dr.apple.com/x",
        "https://apple-pay-gateway-dr.apple.com/x", "https://apple-pay-gateway-nc-pod1-dr-dr.apple.com/x",
        "https://apple-pay-gateway-nc-pod10.apple.com/x", "https://cn-apple-pay-gateway-xx-pod1.apple.com/x",
        "file:///etc/passwd", "javascript:alert(1)", "gopher://\(host)/x", "https://*.apple.com/x",
        "https://\(String(repeating: "a", count: 5000)).apple.com/x",
    ]

    @Test(arguments: hostile) func aHostileURLIsRefused(_ url: String) { #expect(AppleHost(validationURL: url) == nil) }

    @Test func theListHasEachOlderHostTwice() {
        let older = AppleHost.all.values.filter(\.isLegacy)
        #expect(older.count == 2 * (5 + 5 + 3 + 3))
        #expect(older.count { $0.name.hasSuffix("-dr.apple.com") } == 16)
        #expect(older.allSatisfy { $0.environment == .production })
        #expect(older.count { $0.region == .china } == 12)
    }

    @Test func theIdentifierIsReadFromTheCertificate() throws {
        let merchant = "merchant.com.example.read"
        let digest = SHA256.hex(Array(merchant.utf8))
        func read(_ identity: (certificate: [UInt8], key: [UInt8]), as given: String? = nil) throws -> String {
            try MerchantIdentity(
                certificatePEM: identity.certificate, keyPEM: identity.key, merchantIdentifier: given,
                nowEpochSeconds: Int64(Date().timeIntervalSince1970)
            ).merchantIdentifier
        }
        let whole = try AppleSessions.identity(merchant, extension: digest.uppercased(), named: "read-whole")
        let bare = try AppleSessions.identity(merchant, named: "read-bare")
        let hashed = try AppleSessions.identity(nil, extension: digest.uppercased(), named: "read-hashed")
        let plain = try AppleSessions.identity(nil, extension: merchant, named: "read-plain")
        for identity in [whole, bare, plain] { #expect(try read(identity) == merchant) }
        #expect(try read(hashed) == digest.uppercased(), "Apple takes the digest as well")
        for identity in [whole, bare, hashed, plain] {
            #expect(try read(identity, as: merchant) == merchant)
            #expect(throws: MerchantError.self) { try read(identity, as: "merchant.com.example.other") }
        }
        let contradiction = try AppleSessions.identity(
            merchant, extension: "merchant.com.example.other", named: "read-contradiction")
        #expect(throws: MerchantError.self) { try read(contradiction) }
        for named in [nil, "pass.com.example"] {
            let nobody = try AppleSessions.identity(named, named: "read-nobody")
            let error = #expect(throws: MerchantError.self) { try read(nobody) }
            #expect(error?.description.contains("give merchantIdentifier") == true)
        }
        #expect(MerchantIdentity.digest(of: merchant) == digest)
        #expect(MerchantIdentity.digest(of: digest.uppercased()) == digest)
    }

    static func load(_ certificate: [UInt8], _ key: [UInt8], as merchant: String) -> String? {
        do {
            _ = try MerchantIdentity(
                certificatePEM: certificate, keyPEM: key, merchantIdentifier: merchant,
                nowEpochSeconds: Int64(Date().timeIntervalSince1970))
            return nil
        } catch {
            return "\(error)"
        }
    }

    @Test func theIdentityCertificateMustBeTheMerchants() throws {
        let merchant = "merchant.com.example.rules"
        let digest = SHA256.hex(Array(merchant.utf8))
        let long =
            "merchant.com.example." + String(repeating: "a", count: 40) + "." + String(repeating: "b", count: 120)
        let plain = try AppleSessions.identity(merchant, extension: merchant, named: "plain")
        let hashed = try AppleSessions.identity(merchant, extension: digest, named: "hashed")
        let bare = try AppleSessions.identity(merchant, named: "bare")
        for made in [plain, hashed, bare] { #expect(Self.load(made.certificate, made.key, as: merchant) == nil) }
        let other = try AppleSessions.identity(merchant, extension: "merchant.com.example.other", named: "other")
        let refusal = Self.load(other.certificate, other.key, as: merchant)
        #expect(refusal?.contains("merchant.com.example.other") == true)
        #expect(refusal?.contains(digest) == true)
        let lengthy = try AppleSessions.identity(merchant, extension: long, named: "lengthy")
        #expect(
            Self.load(lengthy.certificate, lengthy.key, as: merchant)?.contains(long) == true, "a length of two bytes")
        #expect(Self.load(plain.certificate, plain.key, as: "merchant.com.x")?.contains("UID") == true)
        #expect(Self.load(plain.certificate, hashed.key, as: merchant)?.contains("does not belong") == true)
        #expect(Self.load(plain.certificate, [], as: merchant)?.contains("not a PEM key") == true)
        #expect(Self.load([], plain.key, as: merchant)?.contains("$.certificate") == true)
        let ended = try AppleSessions.identity(merchant, days: -1, named: "ended")
        #expect(Self.load(ended.certificate, ended.key, as: merchant)?.contains("expired") == true)
    }

    /// A request that is refused takes no session from the page's customers, but there is an end to them.
    @Test func allRequestsForSessionsHaveALimitOfTheirOwn() throws {
        let rates = SessionRates(SessionRates.Limits.of(client: 1).times(SessionRates.attemptFactor))
        let origin = try #require(PageOrigin("https://shop.example.com"))
        let client = ClientAddress(try #require(IPAddress("192.0.2.1")))
        let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)
        // Ten for its session, and a tenth of the page's rate is spare.
        for _ in 0..<10 + 50 { #expect(rates.admit(client, origin, at: start) == nil) }
        #expect(rates.admit(client, origin, at: start) == 6)
        let next = start + .milliseconds(20)
        #expect(rates.admit(client, origin, at: next) == nil, "one of the spare ones")
        #expect(rates.admit(client, origin, at: next) == 6)
        #expect(rates.admit(client, origin, at: start + .seconds(6)) == nil, "one of its own")
    }

    @Test func oneNetworkDoesNotTakeTheRateOfAPage() throws {
        let rates = SessionRates()
        let origin = try #require(PageOrigin("https://shop.example.com"))
        let other = try #require(PageOrigin("https://other.example.com"))
        func client(_ text: String) throws -> ClientAddress { ClientAddress(try #require(IPAddress(text))) }
        let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)
        // A /48 has 65,536 of the /64 that count as one client: 50 a second are asked for, each from another one.
        var admitted = 0
        for number in 0..<3000 {
            let at = start + .milliseconds(20) * number
            if try rates.admit(client("2001:db8:1:\(String(number, radix: 16))::1"), origin, at: at) == nil {
                admitted += 1
            }
        }
        let spare = 5 + 5 * 60
        #expect(
            (100 + 99...100 + 99 + spare).contains(admitted), "100 at once, 100 a minute, and spare ones: \(admitted)")
        let now = start + .seconds(60)
        #expect(try rates.admit(client("2001:db8:2::1"), origin, at: now) == nil, "a customer elsewhere")
        #expect(try rates.admit(client("2001:db8:1:ffff::1"), other, at: now) == nil, "another page")
    }

    @Test func customersBehindOneAddressShareSpareSessions() throws {
        let rates = SessionRates()
        let origin = try #require(PageOrigin("https://shop.example.com"))
        func client(_ text: String) throws -> ClientAddress { ClientAddress(try #require(IPAddress(text))) }
        let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)
        // The customers of a mall: one a second, for five minutes.
        for second in 0..<300 {
            #expect(try rates.admit(client("192.0.2.1"), origin, at: start + .seconds(Int64(second))) == nil)
        }
        // A flood from one address takes its share and the spare sessions; everybody else finds the page open.
        let flood = start + .hours(1)
        var taken = 0
        for number in 0..<10_000 {
            let at = flood + .milliseconds(Int64(number))
            if try rates.admit(client("192.0.2.1"), origin, at: at) == nil { taken += 1 }
            guard number % 50 == 0 else { continue }
            let other = "198.51.\(number / 2560).\(number / 10 % 256)"
            #expect(try rates.admit(client(other), origin, at: at) == nil, "a customer elsewhere")
        }
        #expect((60...67).contains(taken), "11 of its own, 5 and 5 a second of the page: \(taken)")
    }

    @Test func aClientWithoutASessionGoesFirst() throws {
        let rates = SessionRates(.init(perClient: 10, clientInterval: .seconds(6), perOrigin: 10))
        let origin = try #require(PageOrigin("https://shop.example.com"))
        func admit(_ number: Int) throws -> Int64? {
            rates.admit(
                ClientAddress(try #require(IPAddress("192.0.\(number).1"))), origin,
                at: .uptimeNanoseconds(1_000_000_000_000))
        }
        for number in 1..<6 { #expect(try admit(number) == nil) }
        #expect(try admit(1) == nil, "half of the rate is free")
        #expect(try admit(2) == 1, "it had one already")
        for number in 6..<10 { #expect(try admit(number) == nil) }
        #expect(try admit(10) == 1, "nothing is left")
    }

    @Test func sessionsAreBoundedByClientAndByOrigin() throws {
        let rates = SessionRates(.init(perClient: 3, clientInterval: .seconds(6), perOrigin: 5))
        let origin = try #require(PageOrigin("https://shop.example.com"))
        func client(_ number: Int) throws -> ClientAddress {
            ClientAddress(try #require(IPAddress("192.0.2.\(number)")))
        }
        let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)
        for _ in 0..<3 { #expect(try rates.admit(client(1), origin, at: start) == nil) }
        #expect(try rates.admit(client(1), origin, at: start) == 6)
        #expect(try rates.admit(client(1), origin, at: start + .seconds(6)) == nil)
        for number in 2..<7 { #expect(try rates.admit(client(number), origin, at: start + .seconds(10)) == nil) }
        #expect(try rates.admit(client(9), origin, at: start + .seconds(10)) == 1)
        #expect(try rates.admit(client(9), origin, at: start + .milliseconds(10_200)) == nil)
    }
}
