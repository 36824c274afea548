import Model
import NIOHTTP1
import TestKit
import Testing

@testable import Gateway
@testable import HTTPServer

@Suite struct RouteTests {
    static let type = "order.com.example.shop"

    static func key(_ order: String = "42") throws -> OrderKey { try OrderKey("\(type)/\(order)") }
    static func registration(_ device: String = "dev") throws -> RegistrationKey {
        RegistrationKey(device: try DeviceIdentifier(device), order: try key())
    }

    func route(_ method: HTTPMethod, _ target: String, base: String = "/apple") -> Result<Route, Route.Failure> {
        Result { () throws(Route.Failure) in
            try Route(method: Request.Method(method.rawValue), target: target, basePath: base)
        }
    }

    /// Prefixes before `/v1`, each with a base path for which it is valid.
    @Test(arguments: [
        ("", ""), ("/", ""), ("", "/apple"), ("/", "/apple"), ("/apple", "/apple"), ("/apple/", "/apple"),
        ("/a/b", "/a/b"), ("/a/b/", "/a/b"), ("http://x.example:8080", ""), ("https://x/apple", "/apple"),
    ])
    func theFiveEndpointsAreFoundUnderEveryPrefix(prefix: String, base: String) throws {
        let registrations = "\(prefix)/v1/devices/dev/registrations/\(Self.type)"
        #expect(try self.route(.GET, "\(prefix)/v1/orders/\(Self.type)/42", base: base).get() == .package(Self.key()))
        #expect(try self.route(.HEAD, "\(prefix)/v1/orders/\(Self.type)/42", base: base).get() == .package(Self.key()))
        #expect(try self.route(.POST, "\(registrations)/42", base: base).get() == .register(Self.registration()))
        #expect(try self.route(.DELETE, "\(registrations)/42", base: base).get() == .unregister(Self.registration()))
        let type = try OrderTypeIdentifier(Self.type)
        let device = try DeviceIdentifier("dev")
        #expect(
            try self.route(.GET, "\(registrations)?ordersModifiedSince=17", base: base).get()
                == .changes(device, type, tag: "17"))
        #expect(try self.route(.HEAD, registrations, base: base).get() == .changes(device, type, tag: ""))
        #expect(try self.route(.POST, "\(prefix)/v1/log", base: base).get() == .log)
        #expect(try self.route(.POST, "\(prefix)/v1/log?x=%ZZ", base: base).get() == .log)
    }

    @Test(arguments: [
        "", "/", "*", "v1/log", "/v1", "/v1/", "//", "///v1/log", "/apple", "/applev1/log", "/apple///v1/log",
        "/other/v1/log",
        "/v2/log", "/v1/log/", "/v1/logs", "/v1/orders", "/v1/orders/\(type)", "/v1/orders/\(type)/42/", "/v1/devices",
        "/v1/devices/d/registration/\(type)", "/v1/devices/d/registrations", "/v1/../v1/log", "http://", "http://x",
        "http:/v1/log",
        "/v1/devices/d/registrations/\(type)/42/x", "?", "/v1/%6Cogs", "/apple/v1", "/v1/passes/\(type)/42",
        "http://x?/v1/log",
    ])
    func anUnknownTargetIsNotFound(target: String) {
        #expect(self.route(.GET, target) == .failure(.notFound))
    }

    @Test func anUnsupportedMethodGetsTheAllowedOnes() {
        let order = "/v1/orders/\(Self.type)/42"
        let list = "/v1/devices/d/registrations/\(Self.type)"
        for method in [HTTPMethod.POST, .PUT, .DELETE, .PATCH, .OPTIONS, .CONNECT, .RAW(value: "X")] {
            #expect(self.route(method, order) == .failure(.methodNotAllowed(allow: "GET, HEAD")))
            #expect(self.route(method, list) == .failure(.methodNotAllowed(allow: "GET, HEAD")))
        }
        for method in [HTTPMethod.GET, .HEAD, .PUT] {
            #expect(self.route(method, "\(list)/42") == .failure(.methodNotAllowed(allow: "POST, DELETE")))
            #expect(self.route(method, "/v1/log") == .failure(.methodNotAllowed(allow: "POST")))
        }
    }

    @Test func segmentsAreDecodedAfterThePathIsSplit() throws {
        #expect(try self.route(.GET, "/v1/orders/order%2Ecom.example.shop/4%32").get() == .package(Self.key()))
        let device = "/v1/devices/a%2Fb%20%C3%BC/registrations/\(Self.type)/42"
        #expect(try self.route(.POST, device).get() == .register(Self.registration("a/b ü")))
        #expect(
            try self.route(.GET, "/v1/orders/\(Self.type)/..").get() == .package(Self.key("..")), "a name, not a way")
    }

    @Test(arguments: [
        "/v1/orders/\(type)/%", "/v1/orders/\(type)/%4", "/v1/orders/\(type)/%4G", "/v1/orders/\(type)/%FF",
        "/v1/orders/\(type)/%C3", "/v1/orders/\(type)/%00", "/v1/orders/\(type)/a%2Fb", "/v1/orders/\(type)/a b",
        "/v1/orders/\(type)/ü", "/v1/orders/\(type)//", "/v1/orders//42", "/v1/orders/../42", "/v1/orders/%2e%2e/42",
        "/v1/orders/nodots/42", "/v1/orders/\(type)/\(String(repeating: "x", count: 256))",
        "/v1/orders/\(type)/%ED%A0%80", "/v1/devices//registrations/\(type)", "/v1/devices/%0A/registrations/\(type)",
        "/v1/devices/d/registrations/x", "/v1/orders/\(type)/%25%",
    ])
    func anInvalidPathSegmentIsABadTarget(target: String) {
        guard case .failure(.badTarget(let message)) = self.route(.GET, target) else {
            // An additional empty segment makes it an unknown path.
            #expect(self.route(.GET, target) == .failure(.notFound), "\(target)")
            #expect(target.hasSuffix("//"), "\(target)")
            return
        }
        #expect(!message.isEmpty)
    }

    @Test func theTagIsParsedFromAnyQuery() throws {
        let path = "/v1/devices/dev/registrations/\(Self.type)"
        for (query, tag) in [
            ("", ""), ("?", ""), ("?ordersModifiedSince=", ""), ("?ordersModifiedSince", ""),
            ("?x=1&ordersModifiedSince=2", "2"),
            ("?ordersModifiedSince=%31%32", "12"), ("?ordersModifiedSince=%ZZ", ""),
            ("?ordersModifiedSince=a=b", "a=b"),
            ("?&&=&ordersModifiedSince=3&ordersModifiedSince=4", "3"), ("?ordersModifiedSince=1?2", "1?2"), ("?%", ""),
        ] {
            guard case .changes(_, _, let found) = try self.route(.GET, path + query).get() else {
                Issue.record("\(query)")
                continue
            }
            #expect(found == tag, "\(query)")
        }
    }

    @Test func randomTargetsNeverTrap() {
        var random = SeededGenerator(seed: 11)
        let pieces = [
            "/", "v1", "orders", "%", "%2", "%41", "?", "=", "&", "ü", "\u{301}", "..", Self.type, "http://", "devices",
            "registrations", "log", " ", "\u{0}", "ordersModifiedSince", "👩‍👩‍👧",
        ]
        for _ in 0..<5000 {
            let target = (0..<Int.random(in: 0...12, using: &random)).map { _ in
                pieces.randomElement(using: &random) ?? ""
            }
            _ = self.route(.GET, target.joined(), base: Bool.random(using: &random) ? "/v1" : "")
        }
    }

    @Test func theBasePathIsThatOfTheWebServiceURL() {
        for (url, path) in [
            ("https://x.example", ""), ("https://x.example/", ""), ("https://x.example/apple", "/apple"),
            ("https://x.example:8443/a/b//", "/a/b"), ("https://x.example/a?b=/c", "/a"), ("https://x.example/#/a", ""),
        ] { #expect(GatewaySettings.path(of: url) == path) }
    }
}
