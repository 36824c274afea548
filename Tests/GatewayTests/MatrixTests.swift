import Model
import TestKit
import TestTraits
import Testing

@testable import Gateway
@testable import HTTPServer

/// Wallet's protocol over the wire, case by case. Serialized: each test has its own servers.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct MatrixTests {
    typealias Fixture = GatewayFixture

    /// The order was modified at Sun, 06 Nov 1994 08:49:37 GMT; its tag is "tag-1".
    static let conditions: [(headers: [String], status: Int)] = [
        ([], 200),
        // The modification time in every date format.
        (["If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"], 304),
        (["If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT"], 304),
        (["If-Modified-Since: Sun Nov  6 08:49:37 1994"], 304),
        (["If-Modified-Since: Sun Nov 06 08:49:37 1994"], 304),
        (["If-Modified-Since: 784111777"], 304), (["If-Modified-Since: 784111777.999"], 304),
        (["if-modified-since:Sun, 06 Nov 1994 08:49:37 GMT"], 304),
        // Later and earlier times.
        (["If-Modified-Since: Sun, 06 Nov 1994 08:49:38 GMT"], 304),
        (["If-Modified-Since: Wednesday, 06-Nov-24 08:49:37 GMT"], 304),
        (["If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT"], 200),
        (["If-Modified-Since: Sunday, 06-Nov-93 08:49:37 GMT"], 200),
        (["If-Modified-Since: Sun Nov  6 08:49:36 1994"], 200),
        (["If-Modified-Since: 784111776.9"], 200), (["If-Modified-Since: 0"], 200),
        // No dates.
        (["If-Modified-Since: "], 200), (["If-Modified-Since: tomorrow"], 200), (["If-Modified-Since: -1"], 200),
        (["If-Modified-Since: 1e12"], 200), (["If-Modified-Since: 784111777000"], 304),
        (["If-Modified-Since: 1784111777000"], 200), (["If-Modified-Since: Sun, 06 Nov 1994 08:49:37 PST"], 200),
        (["If-Modified-Since: Sun, 31 Feb 1994 08:49:37 GMT"], 200),
        // Tags, compared weakly.
        (["If-None-Match: \"tag-1\""], 304), (["If-None-Match: W/\"tag-1\""], 304), (["If-None-Match: *"], 304),
        (["If-None-Match: \"x\", \"tag-1\""], 304), (["If-None-Match: \"x\",W/\"y\",\"tag-1\""], 304),
        (["If-None-Match: \"x\"", "If-None-Match: \"tag-1\""], 304),
        (["If-None-Match: \"x\""], 200), (["If-None-Match: tag-1"], 200), (["If-None-Match: \"TAG-1\""], 200),
        (["If-None-Match: "], 200), (["If-None-Match: w/\"tag-1\""], 200), (["If-None-Match: \"*\""], 200),
        // A tag takes precedence over a date.
        (["If-None-Match: \"x\"", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"], 200),
        (["If-None-Match: \"tag-1\"", "If-Modified-Since: 0"], 304),
    ]

    @Test func conditionalHeadersDecideBetween200And304() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            try await fixture.connected { connection in
                for (headers, status) in Self.conditions {
                    for method in ["GET", "HEAD"] {
                        let answer = try await connection.exchange(
                            fixture.request(method, fixture.package("1"), token: Fixture.ownToken, headers))
                        #expect(answer.status == status, "\(method) \(headers)")
                        #expect(answer.body == (method == "GET" && status == 200 ? Fixture.package : []))
                        #expect(answer["etag"] == "\"tag-1\"")
                        #expect(answer["vary"] == "Authorization")
                        #expect(answer["last-modified"] == "Sun, 06 Nov 1994 08:49:37 GMT")
                        #expect(answer["cache-control"] == "private, no-cache")
                        #expect(answer["content-length"] == (status == 200 ? "\(Fixture.package.count)" : nil))
                    }
                    let wrong = try await connection.exchange(
                        fixture.request("GET", fixture.package("1"), headers + ["Authorization: AppleOrder x"]))
                    #expect(wrong.status == 401 || wrong.status == 429, "a condition opens nothing: \(headers)")
                }
            }
        }
    }

    @Test func onlyTheAuthorizationSchemeIsCaseInsensitive() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            for (value, status) in [
                ("AppleOrder \(Fixture.ownToken)", 200), ("appleorder \(Fixture.ownToken)", 200),
                ("AppleOrder  \(Fixture.ownToken)", 401), ("ApplePass \(Fixture.ownToken)", 401),
                (Fixture.ownToken, 401),
                ("AppleOrder \(Fixture.ownToken.uppercased())", 401), ("AppleOrder \(Fixture.ownToken) x", 401),
                ("AppleOrder", 401), ("Bearer \(Fixture.ownToken)", 401),
            ] {
                let answer = try await fixture.once("GET", fixture.package("1"), ["Authorization: \(value)"])
                #expect(answer.status == status, "\(value)")
                if status == 401 { #expect(answer["www-authenticate"] == "AppleOrder") }
            }
        }
    }

    @Test func everyPathAcceptsADoubleSlashAndNamesItsMethods() async throws {
        try await Fixture.with(.init(limits: GatewayLimits(backoff: .init(free: 1000)))) { fixture in
            try await fixture.put("1")
            let type = Fixture.orderType
            let escaped = type.replacing("order", with: "%6Frder")
            let paths: [(path: String, methods: [String: Int], allow: String)] = [
                ("v1/orders/\(type)/1", ["GET": 200, "HEAD": 200], "GET, HEAD"),
                ("v1/orders/\(escaped)/%31", ["GET": 200, "HEAD": 200], "GET, HEAD"),
                ("v1/orders/\(type)/1/package", ["GET": 403, "HEAD": 403], "GET, HEAD"),
                ("v1/devices/d%2Fe/registrations/\(type)", ["GET": 204, "HEAD": 204], "GET, HEAD"),
                ("v1/devices/d%2Fe/registrations/\(type)/1", ["POST": 400, "DELETE": 200], "POST, DELETE"),
                ("v1/log", ["POST": 400], "POST"),
            ]
            for front in ["/", "//", "/apple/", "/apple//"] {
                for (path, methods, allow) in paths {
                    for method in ["GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "get"] {
                        let answer = try await fixture.once(method, front + path, token: Fixture.ownToken)
                        #expect(answer.status == methods[method] ?? 405, "\(method) \(front + path)")
                        #expect(answer["allow"] == (methods[method] == nil ? allow : nil))
                        guard method != "HEAD", answer.status >= 400 else { continue }
                        #expect(answer["content-type"] == "application/json")
                        #expect(answer["cache-control"] == "no-store")
                        let message = try JSON(parsing: answer.body).object?["error"]?.object?["message"]?.string
                        #expect(message?.isEmpty == false)
                    }
                }
            }
        }
    }

    @Test func unknownPathsGet404AndMalformedOnesGet400() async throws {
        try await Fixture.with { fixture in
            let type = Fixture.orderType
            for (path, status) in [
                ("/", 404), ("/v1", 404), ("/v2/log", 404), ("///v1/log", 404), ("/apple/apple/v1/log", 404),
                ("/v1/orders/\(type)/1/", 404), ("/v1/orders/\(type)/1/packages", 404), ("/v1//orders/\(type)/1", 404),
                ("/v1/orders/order.com.other/1", 404), ("/v1/orders/../log", 400), ("/v1/orders/\(type)/%", 400),
                ("/v1/orders/\(type)/%zz", 400), ("/v1/orders/\(type)/%00", 400), ("/v1/orders/\(type)/a%2Fb", 400),
                ("/v1/orders/\(type)/%ff", 400), ("/v1/orders/x/1", 400),
                ("/v1/devices/%0d/registrations/\(type)", 400),
            ] {
                let answer = try await fixture.once("GET", path, token: Fixture.ownToken)
                #expect(answer.status == status, "\(path)")
                #expect(try JSON(parsing: answer.body).object?["error"]?.object?["message"]?.string?.isEmpty == false)
            }
        }
    }
}
