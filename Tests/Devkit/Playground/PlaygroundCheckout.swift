import Cryptography
import Foundation
import Model
import TestKit

/// The checkout role of a playground: a separate process with a sandbox merchant and a secret key.
struct PlaygroundCheckout: Sendable {
    /// Such as `http://127.0.0.1:4711`.
    let url: String
    /// The secret key of the shop's server.
    let key: String
    private let child: ChildProcess

    /// Resident memory of the role in bytes; 0 if it has ended.
    var residentBytes: Int { (try? self.child.residentBytes()) ?? 0 }

    /// A shop's own service.
    struct Upstream: Sendable {
        let url: String
        let secret: String
        /// PEM file with the root of its certificate; nil for the system's roots.
        let roots: String?
    }

    /// The merchant, and who makes its sessions.
    enum Merchant: Sendable {
        /// The playground's own, with a stand-in for Apple's gateway.
        case simulated(ApplePayGatewayFake, DevelopmentMerchant)
        case sandbox(SandboxMerchant)
    }

    /// Starts `waybill-gateway checkout`, which is in the same directory as this program.
    /// - Parameters:
    ///   - host: the address that it listens on.
    ///   - port: 0 chooses a free one.
    ///   - origins: the origins of pages that may call the role.
    ///   - upstream: the service that takes payments; nil for a shop without a service.
    ///   - environment: further settings.
    ///   - directory: receives the merchant's files.
    static func start(
        _ stack: StackEnvironment, host: String = "127.0.0.1", port: Int = 0, origins: [String],
        merchant side: Merchant, upstream: Upstream? = nil, environment others: [String: String] = [:],
        in directory: TemporaryDirectory
    ) async throws -> PlaygroundCheckout {
        let key = "sk_test_" + randomHex(bytes: 16)
        let merchant = directory.path("merchants/playground")
        var members = Self.merchant(stack.orderType, origins: origins, key: key)
        try Self.prepare(merchant, of: side, &members)
        if let upstream {
            try Data(upstream.secret.utf8).write(to: URL(filePath: merchant + "/secret"))
            var service: JSONObject = [
                "url": .string(upstream.url), "secret": "secret", "addresses": ["127.0.0.1"], "takesPayments": true,
            ]
            if let roots = upstream.roots {
                try FileManager.default.copyItem(atPath: roots, toPath: merchant + "/upstream.pem")
                service["roots"] = "upstream.pem"
            }
            members["upstream"] = .object(service)
        }
        try Data(JSON.object(members).serialized).write(to: URL(filePath: merchant + "/merchant.json"))
        guard let brands = stack.brands, let webServiceURL = stack.webServiceURL else {
            throw ToolError(.input, "reading the stack's file: BRANDS or WEB_SERVICE_URL is missing")
        }
        let ports = try (0..<2).map { _ in try ReservedPort() }
        let own = port == 0 ? Int(ports[0].number) : port
        let (listen, operations) = ("\(host):\(own)", "127.0.0.1:\(ports[1].number)")
        for port in ports { port.release() }
        var environment = [
            "WAYBILL_CHECKOUT_LISTEN": listen, "WAYBILL_OPERATIONS_LISTEN": operations,
            "WAYBILL_MERCHANTS": directory.path("merchants"), "WAYBILL_BRANDS": brands,
            "WAYBILL_TOKEN_SECRETS": stack.tokenSecrets, "WAYBILL_WEB_SERVICE_URL": webServiceURL,
            "WAYBILL_KAFKA_BOOTSTRAP": stack.kafka, "WAYBILL_LOG_FORMAT": "text", "WAYBILL_DRAIN_SECONDS": "0",
            "WAYBILL_DEVELOPMENT_PLAYGROUND": "on", "WAYBILL_DEVELOPMENT_POLYFILL": "on",
            // All pages come from this machine, or through one tunnel.
            "WAYBILL_MERCHANT_SESSIONS_PER_CLIENT": "1000",
        ]
        if case .simulated(let gateway, let certificates) = side {
            environment["WAYBILL_DEVELOPMENT_APPLE_PAY"] =
                gateway.ports.map { "\($0.key.host):443:127.0.0.1:\($0.value)" }.joined(separator: ",")
            environment["WAYBILL_DEVELOPMENT_APPLE_PAY_ROOTS"] = certificates.root
        }
        environment["WAYBILL_KAFKA_PROPERTIES"] = stack.kafkaProperties
        environment["WAYBILL_REDIS_URL"] = stack.redis
        environment.merge(others) { $1 }
        let program = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()
            .appending(path: "waybill-gateway").path
        let child = try ChildProcess(
            program, ["checkout"], environment: environment, log: stack.logs.map { "\($0)/checkout.log" })
        let checkout = PlaygroundCheckout(url: "http://127.0.0.1:\(own)", key: key, child: child)
        try await checkout.ready("http://\(operations)/readyz")
        return checkout
    }

    func stop() async { await self.child.stop(grace: .seconds(30)) }

    private func ready(_ url: String) async throws {
        let http = try HTTPClient()
        let end = ContinuousClock.now + .seconds(60)
        while (try? await http.send(HTTPRequest(url: url)))?.status != 200 {
            guard self.child.exit == nil, .now < end else {
                throw ToolError(.program, "starting waybill-gateway checkout: \(self.child.output.suffix(2000))")
            }
            try await Task.sleep(for: .milliseconds(50))
        }
        await http.close()
    }

    /// Makes the merchant's directory, without `merchant.json`, and completes the members of that.
    private static func prepare(_ directory: String, of side: Merchant, _ members: inout JSONObject) throws {
        let files = FileManager.default
        switch side {
        case .simulated(_, let certificates):
            try files.createDirectory(atPath: directory, withIntermediateDirectories: true)
            for (source, name) in [(certificates.certificate, "identity.pem"), (certificates.key, "identity-key.pem")] {
                try files.copyItem(atPath: source, toPath: "\(directory)/\(name)")
            }
        case .sandbox(let own):
            let parent = URL(filePath: directory).deletingLastPathComponent().path
            try files.createDirectory(atPath: parent, withIntermediateDirectories: true)
            try files.copyItem(atPath: own.directory, toPath: directory)
            members = own.members(for: members)
        }
    }

    /// Returns the content of `merchant.json`.
    private static func merchant(_ orderType: OrderTypeIdentifier, origins: [String], key: String) -> JSONObject {
        let type = JSON.string(orderType.rawValue)
        let empty = JSON.object(JSONObject())
        return [
            "merchantIdentifier": .string(PlaygroundMerchant.identifier),
            "displayName": .string(PlaygroundMerchant.displayName),
            "certificate": "identity.pem", "key": "identity-key.pem", "environments": ["sandbox"],
            "orderTypeIdentifiers": [type], "capabilities": ["order_tracking"],
            "origins": .object(JSONObject(origins.map { ($0, empty) })),
            "payment": [
                "countryCode": "US", "currencyCode": "USD", "supportedNetworks": ["visa", "masterCard", "amex"],
                "merchantCapabilities": ["supports3DS"],
            ],
            "keys": [
                [
                    "name": "shop", "sha256": .string(hex(SHA256.digest(Array(key.utf8)))),
                    "scopes": ["details", "links", "confirm", "notify", "orders"],
                    "orderTypeIdentifiers": [type],
                ]
            ],
        ]
    }
}
