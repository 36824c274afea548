import Cryptography
import Foundation
import Model

/// Apple's gateway for merchant sessions, as strict as the real one, in both environments.
///
/// Each environment has its own listener, which requires a client certificate. A session belongs to the environment
/// whose host issued it. Source: Checkout §2.7; Technote TN3103
public final class ApplePayGatewayFake: Sendable {
    public enum Environment: String, Hashable, Sendable, CaseIterable {
        case production, sandbox

        /// The host name that pages use.
        public var host: String {
            self == .production ? "apple-pay-gateway.apple.com" : "apple-pay-gateway-cert.apple.com"
        }
    }

    /// The faults that it simulates on request.
    public enum Fault: String, Hashable, Sendable, CaseIterable {
        /// 400, 417 and 500, each with a `statusMessage`.
        case malformed, unregistered, broken
        /// No answer until the connection ends, after a minute; the right answer after 3 s.
        case silent, slow
        /// More than 64 KiB; HTML instead of JSON; 302 to another host; half an answer.
        case huge, html, redirect, cut
    }

    public let conduct: FakeConduct<Fault>
    /// Ports on 127.0.0.1.
    public let ports: [Environment: Int]
    private let servers: [FakeServer]

    private init(conduct: FakeConduct<Fault>, ports: [Environment: Int], servers: [FakeServer]) {
        self.conduct = conduct
        self.ports = ports
        self.servers = servers
    }

    /// - Parameters:
    ///   - rules: the merchants that may have sessions, with their domains.
    ///   - ports: an environment without a port gets a free one.
    public static func start(
        _ rules: ApplePayGatewayRules, certificates: DevelopmentMerchant, ports: [Environment: Int] = [:]
    ) async throws -> ApplePayGatewayFake {
        let tls = FakeServer.TLS(
            certificate: certificates.gatewayCertificate, key: certificates.gatewayKey, clientRoots: certificates.root)
        let conduct = FakeConduct<Fault>()
        var servers: [FakeServer] = []
        for environment in Environment.allCases {
            servers.append(
                try await FakeServer.start(port: ports[environment] ?? 0, tls: tls) { request in
                    await Self.answer(request, environment, rules, conduct)
                })
        }
        let taken = Dictionary(uniqueKeysWithValues: zip(Environment.allCases, servers.map(\.port)))
        return ApplePayGatewayFake(conduct: conduct, ports: taken, servers: servers)
    }

    public func stop() async { for server in self.servers { await server.stop() } }

    private static func answer(
        _ request: FakeServer.Request, _ environment: Environment, _ rules: ApplePayGatewayRules,
        _ conduct: FakeConduct<Fault>
    ) async -> FakeServer.Answer {
        let fault = conduct.take(request)
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        let right = rules.answer(to: request, environment, nowEpochMilliseconds: now)
        switch fault {
        case nil: return .response(right)
        case .malformed: return .response(ApplePayGatewayRules.refusal(400, "Bad request"))
        case .unregistered: return .response(ApplePayGatewayRules.refusal(417, "Domain not registered"))
        case .broken: return .response(ApplePayGatewayRules.refusal(500, "Internal error"))
        case .silent:
            try? await Task.sleep(for: .seconds(60))
            return .closed
        case .slow:
            try? await Task.sleep(for: .seconds(3))
            return .response(right)
        case .huge: return .response(.json(200, "{\"padding\":\"\(String(repeating: "x", count: 70_000))\"}"))
        case .html:
            return .response(
                FakeServer.Response(200, headers: [("content-type", "text/html")], body: Array("<html></html>".utf8)))
        case .redirect:
            return .response(FakeServer.Response(302, headers: [("location", "https://evil.example/session")]))
        case .cut: return .cut(right)
        }
    }
}

/// The gateway's decision about one request, a pure function.
public struct ApplePayGatewayRules: Sendable {
    /// The domains that are registered for each merchant identifier.
    public var domains: [String: Set<String>]

    public init(domains: [String: Set<String>]) { self.domains = domains }

    static let members: Set<String> = ["merchantIdentifier", "displayName", "initiative", "initiativeContext"]

    func answer(
        to request: FakeServer.Request, _ environment: ApplePayGatewayFake.Environment, nowEpochMilliseconds now: Int64
    ) -> FakeServer.Response {
        guard request.path == "/paymentservices/paymentSession", request.query.isEmpty else {
            return Self.refusal(404, "There is nothing at \(request.path)")
        }
        guard request.method == "POST" else { return Self.refusal(405, "The method must be POST") }
        let host = request.header("host")?.split(separator: ":").first.map(String.init)
        guard host == environment.host else {
            return Self.refusal(421, "This is \(environment.host), not \(host ?? "a request without Host")")
        }
        guard let type = request.header("content-type"), type.hasPrefix("application/json") else {
            return Self.refusal(415, "Content-Type must be application/json")
        }
        guard let merchant = Self.merchant(of: request) else { return Self.refusal(401, "The certificate has no UID") }
        guard let object = (try? JSON(parsing: request.body))?.object else {
            return Self.refusal(400, "The body is not a JSON object")
        }
        if let unknown = object.members.first(where: { !Self.members.contains($0.name) }) {
            return Self.refusal(400, "Unknown member \(unknown.name)")
        }
        let digest = Self.digest(merchant)
        let identifier = object["merchantIdentifier"]?.string
        guard identifier == merchant || identifier == digest else {
            return Self.refusal(417, "merchantIdentifier is not the one of the certificate, \(digest)")
        }
        guard let name = object["displayName"]?.string, !name.isEmpty, name.unicodeScalars.count <= 64 else {
            return Self.refusal(400, "displayName must have 1 to 64 characters")
        }
        guard object["initiative"]?.string == "web" else { return Self.refusal(400, "initiative must be web") }
        guard let domain = object["initiativeContext"]?.string, self.domains[merchant]?.contains(domain) == true else {
            let context = object["initiativeContext"]?.string ?? ""
            return Self.refusal(
                417,
                "Payment Services Exception merchantId=\(digest) unauthorized for domainName=\(context): not registered"
            )
        }
        let session: JSON = [
            "epochTimestamp": .integer(now), "expiresAt": .integer(now + 300_000),
            "merchantSessionIdentifier": .string("SSH\(Self.random(24))_\(environment.rawValue)"),
            "nonce": .string(Self.random(4)), "merchantIdentifier": .string(digest), "domainName": .string(domain),
            "displayName": .string(name), "signature": .string(Self.random(64)),
            "operationalAnalyticsIdentifier": .string("\(name):\(digest)"), "retries": 0,
            "pspId": .string(digest),
        ]
        return .json(200, String(decoding: session.serialized, as: UTF8.self))
    }

    /// Returns an error in Apple's format.
    static func refusal(_ status: Int, _ message: String) -> FakeServer.Response {
        let body: JSON = ["statusMessage": .string(message), "statusCode": .string(String(status))]
        return .json(status, String(decoding: body.serialized, as: UTF8.self))
    }

    /// Returns the merchant identifier of the client's certificate.
    private static func merchant(of request: FakeServer.Request) -> String? {
        guard let bytes = request.clientCertificate else { return nil }
        return try? Certificate(der: bytes).userIdentifier
    }

    static func digest(_ merchant: String) -> String {
        SHA256.digest(Array(merchant.utf8)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// Returns `count` random bytes in hexadecimal.
    private static func random(_ count: Int) -> String {
        (0..<count).map { _ in
            let byte = UInt8.random(in: 0...255)
            return (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }.joined()
    }
}
