import TestKit
import TestTraits
import Testing

@testable import Gateway

/// Requests that two servers could parse differently, and paths that lead elsewhere.
@Suite(.server, .serialized, .timeLimit(.minutes(3))) struct AbuseSmugglingTests {
    typealias Fixture = GatewayFixture

    private static let head = "POST /v1/log HTTP/1.1\r\nHost: a\r\n"
    private static let chunked = head + "Transfer-Encoding: chunked\r\n\r\n"
    /// The request after each trick; an answer to it means that the trick's body was taken for a request.
    private static let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

    static let tricks: [(what: String, request: String, status: Int)] = [
        ("length and coding", head + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("coding and length", head + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400),
        ("coding and length zero", head + "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("two lengths", head + "Content-Length: 0\r\nContent-Length: 44\r\n\r\n", 400),
        ("two equal lengths", head + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n[]", 400),
        ("a list of lengths", head + "Content-Length: 0, 44\r\n\r\n", 400),
        ("a hexadecimal length", head + "Content-Length: 0x2\r\n\r\n[]", 400),
        ("a length with a sign", head + "Content-Length: +2\r\n\r\n[]", 400),
        ("a length with an exponent", head + "Content-Length: 2e0\r\n\r\n[]", 400),
        ("a length with a blank", head + "Content-Length: 0 2\r\n\r\n[]", 400),
        ("a length in quotes", head + "Content-Length: \"2\"\r\n\r\n[]", 400),
        ("no length at all", head + "Content-Length:\r\n\r\n[]", 400),
        ("an endless length", head + "Content-Length: 18446744073709551618\r\n\r\n[]", 413),
        ("a length of other digits", head + "Content-Length: ٢\r\n\r\n[]", 400),
        ("an unknown coding", head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
        ("a coding with junk", head + "Transfer-Encoding: chunked;x\r\n\r\n0\r\n\r\n", 501),
        ("chunked twice", head + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 501),
        ("two codings", head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 501),
        ("the coding identity", head + "Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n[]", 501),
        ("a vertical tab", head + "Transfer-Encoding: \u{B}chunked\r\n\r\n0\r\n\r\n", 400),
        ("a coding in HTTP/1.0", "POST /v1/log HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("a space before the colon", head + "Content-Length : 2\r\n\r\n[]", 400),
        ("a tab before the colon", head + "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", 400),
        ("a folded coding", head + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 501),
        ("a folded length", head + "Content-Length:\r\n 2\r\n\r\n[]", 400),
        ("a folded line", head + "x: y\r\n\tz\r\n\r\n", 400),
        ("a folded line in front", "POST /v1/log HTTP/1.1\r\n Host: a\r\nHost: a\r\n\r\n", 400),
        ("a bare line feed", head + "x: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("bare line feeds at the end", "GET / HTTP/1.1\r\nHost: a\n\n", 400),
        ("a bare carriage return", head + "x: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("NUL in a value", head + "x: y\u{0}z\r\n\r\n", 400), ("NUL in a name", head + "x\u{0}y: z\r\n\r\n", 400),
        ("NUL in the target", "GET /v1\u{0}/log HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("a name of other letters", head + "Tränsfer: x\r\n\r\n", 400), ("no colon", head + "abc\r\n\r\n", 400),
        ("no name", head + ": x\r\n\r\n", 400),
        ("a tab in the request line", "GET\t/v1/log HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("a target without a slash", "GET v1/log HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("a URL without a host", "GET http:///v1/log HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("more than an asterisk", "OPTIONS */v1/log HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("no version", "GET /v1/log\r\nHost: a\r\n\r\n", 400),
        ("a small version", "GET / http/1.1\r\nHost: a\r\n\r\n", 400),
        ("a long version", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400),
        ("HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        ("two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400), ("no host", "GET / HTTP/1.1\r\n\r\n", 400),
        ("a chunk of no size", chunked + "\r\n\r\n", 400), ("a negative chunk", chunked + "-1\r\n\r\n", 400),
        ("a prefixed chunk", chunked + "0x2\r\n[]\r\n0\r\n\r\n", 400),
        ("a chunk with a sign", chunked + "+2\r\n[]\r\n0\r\n\r\n", 400),
        ("an endless chunk", chunked + "FFFFFFFFFFFFFFFFF\r\n", 400),
        ("a huge chunk", chunked + "7FFFFFFFFFFFFFF\r\n", 413),
        ("a chunk that wraps", chunked + "10000000000000002\r\n[]\r\n0\r\n\r\n", 400),
        ("a chunk longer than said", chunked + "2\r\n[]abc\r\n0\r\n\r\n", 400),
        ("a chunk with a bare line feed", chunked + "2\n[]\r\n0\r\n\r\n", 400),
        ("an extension with a bare line feed", chunked + "2;x\n[]\r\n0\r\n\r\n", 400),
        ("a blank behind a size", chunked + "2 \r\n[]\r\n0\r\n\r\n", 400),
        ("a blank before an extension", chunked + "2 ;x\r\n[]\r\n0\r\n\r\n", 400),
        ("an extension without a name", chunked + "2;\r\n[]\r\n0\r\n\r\n", 400),
        ("an extension with an open quote", chunked + "2;x=\"y\r\n[]\r\n0\r\n\r\n", 400),
        ("a trailer with a bare carriage return", chunked + "0\r\nx: a\rb\r\n\r\n", 400),
        ("a trailer without a colon", chunked + "0\r\nabc\r\n\r\n", 400),
        ("a length behind the body", chunked + "0\r\nContent-Length: 3\r\n\r\n", 400),
        ("a folded trailer", chunked + "0\r\nx: y\r\n z\r\n\r\n", 400),
        ("an endless extension", chunked + "2;" + String(repeating: "x", count: 5000), 400),
        ("endless trailers", chunked + "0\r\n" + String(repeating: "x: y\r\n", count: 5000), 400),
    ]

    @Test func anAmbiguousRequestIsRefusedAndItsConnectionClosed() async throws {
        try await Fixture.with { fixture in
            for (what, request, status) in Self.tricks {
                try await fixture.connected { connection in
                    try await connection.send(request + Self.smuggled)
                    let answer = try await connection.response()
                    #expect(answer.status == status, "\(what)")
                    #expect(answer["connection"] == "close", "\(what)")
                    #expect(try await connection.isClosedByServer(), "\(what): nothing more is answered")
                }
            }
            #expect(try await fixture.isAlive())
        }
    }

    @Test func unusualButRightRequestsAreTaken() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            let token = "Authorization: AppleOrder \(Fixture.ownToken)\r\n\r\n"
            let path = fixture.package("1")
            let requests: [(String, Int)] = [
                ("GET \(path) HTTP/1.0\r\n" + token, 200), ("GET \(path) HTTP/1.9\r\nHost: a\r\n" + token, 200),
                ("GET http://other.example:80\(path) HTTP/1.1\r\nHost: a\r\n" + token, 200),
                ("GET /apple/\(path.dropFirst(6)) HTTP/1.1\r\nHost: a\r\n" + token, 200),
                ("GET \(path)?x=%00&y HTTP/1.1\r\nHost: a\r\n" + token, 200),
                ("\r\n\r\nGET \(path) HTTP/1.1\r\nHOST:a\r\nx:\r\ny: \t z \t\r\n" + token, 200),
                (Self.chunked + "1;a=b;c=\"d\"\r\n[\r\n01\r\n]\r\n0000;e\r\nx: y\r\n\r\n", 200),
                ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 404), ("get \(path) HTTP/1.1\r\nHost: a\r\n\r\n", 405),
                ("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", 404),
            ]
            for (request, status) in requests {
                let answer = try await RawConnection.once(port: fixture.port, request)
                #expect(answer.status == status, "\(request.prefix(80))")
                #expect(status != 200 || request.hasPrefix("POST") || answer.body == Fixture.package)
            }
        }
    }

    @Test func aWrongMethodGets405WithTheAllowedMethods() async throws {
        try await Fixture.with { fixture in
            let answer = try await fixture.once("PUT", fixture.package("1"))
            #expect(answer.status == 405)
            #expect(answer["allow"] == "GET, HEAD")
            #expect(try await fixture.once("GET", "/v1/orders/\(Fixture.orderType)/%ZZ").status == 400)
        }
    }

    /// Only the exact spelling leads to the order, and no spelling leads out of the known paths.
    @Test func noPathTrickLeadsToAnOrder() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1")
            let type = Fixture.orderType
            let paths: [(String, Set<Int>)] = [
                ("/v1/orders/x/../\(type)/1", [404]), ("/v1/orders/%2e%2e/orders/\(type)/1", [404]),
                ("/v1/orders/\(type)/x/../1", [404]), ("/v1/orders/\(type)/./1", [404]),
                ("/v1/./orders/\(type)/1", [404]),
                ("/v1/orders/\(type)%2F1", [404]), ("/v1/orders%2F\(type)%2F1", [404]),
                ("/v1%2Forders/\(type)/1", [404]),
                ("/v1/orders/\(type)/%2e%2e%2f1", [400]), ("/v1/orders/\(type)/x%2f..%2f1", [400]),
                ("/v1/orders/\(type)/1%00", [400]), ("/v1/orders/\(type)/1%00.html", [400]),
                ("/v1/orders/\(type)/%c0%b1", [400]),
                ("/v1/orders/\(type)/%e0%80%b1", [400]), ("/v1/orders/\(type)/%f0%80%80%b1", [400]),
                ("/v1/orders/\(type)/%FF", [400]),
                ("/v1/orders/\(type)/%u0031", [400]), ("/v1/orders/\(type)/%", [400]), ("/v1/orders/\(type)/1%", [400]),
                ("/v1/orders/\(type)/1%3", [400]), ("/v1/orders/\(type)/1%GG", [400]),
                ("/v1/orders/\(type)/1%0d%0aX:y", [400]),
                ("/v1/orders/\(type)/1;x=y", [400]), ("/v1/orders/\(type)/1%20", [400]),
                ("/v1/orders/\(type)/1#x", [400]),
                ("/v1/orders/\(type)/1%EF%BC%91", [400]), ("/v1/orders/\(type)/%2531", [400]),
                ("/v1/orders/\(type)/1/", [404]),
                ("/v1/orders/\(type)//1", [404]), ("///v1/orders/\(type)/1", [404]), ("/v1//orders/\(type)/1", [404]),
                ("/v1\\orders\\\(type)\\1", [404]), ("/V1/orders/\(type)/1", [404]), ("/v1/Orders/\(type)/1", [404]),
                ("/v1/orders/\(type.uppercased())/1", [404]), ("/v1/orders/\(type)./1", [400]),
                ("/../../etc/passwd", [404]),
                ("/%2e%2e/%2e%2e/etc/passwd", [404]), ("/v1/orders/{\(type)/1", [400]), ("/v1/orders/\(type)/*", [400]),
                ("/v1/orders/\(type)/1\u{7F}", [400]), ("file:///v1/orders/\(type)/1", [400]),
                ("//host/v1/orders/\(type)/1", [404]),
            ]
            try await fixture.connected { connection in
                for (path, statuses) in paths {
                    let answer = try await connection.exchange(fixture.request("GET", path, token: Fixture.ownToken))
                    #expect(statuses.contains(answer.status), "\(path): \(answer.status)")
                    if answer["connection"] == "close" { break }
                }
            }
            for (path, statuses) in paths {
                let answer = try await fixture.once("GET", path, token: Fixture.ownToken)
                #expect(statuses.contains(answer.status), "\(path): \(answer.status)")
            }
        }
    }
}
