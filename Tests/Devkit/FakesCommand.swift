import ArgumentParser
import Foundation
import Model
import TestKit
import UnixSignals

/// `waybill-dev fakes`: stand-ins for Apple's gateway, a shop's service and a payment provider.
struct FakesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fakes",
        abstract:
            "Runs stand-ins of Apple's gateway for merchant sessions, of a shop's service and of a payment provider.",
        discussion: """
            All listen on 127.0.0.1. --out gets the merchant's identity certificate, the shop's secret and fakes.env \
            with the ports. They fail as the admin port is told, for example \
            POST /applepay-gateway/faults {"fault": "slow", "times": 2}; DELETE ends it, and GET /shop/requests lists \
            what came. Faults: \(ApplePayGatewayFake.Fault.allCases.map(\.rawValue).joined(separator: ", ")); shop: \
            \(ShopFake.Fault.allCases.map(\.rawValue).joined(separator: ", ")); provider: \
            \(ProviderFake.Fault.allCases.map(\.rawValue).joined(separator: ", ")).
            """)

    @Option(help: "Folder with the certificates that waybill-dev certificates made.") var certificates: String
    @Option(help: "Folder for the files that the checkout role needs.") var out: String
    @Option(help: "Merchant identifier.") var merchant = PlaygroundMerchant.identifier
    @Option(name: .customLong("domain"), help: "A registered domain; may be repeated.")
    var domains: [String] = ["localhost", "127.0.0.1"]
    @Option(name: .customLong("basket"), help: "A basket that the shop knows; may be repeated.")
    var baskets: [String] = ["demo"]
    @Option(name: .customLong("basket-file"), help: "ID=FILE: a basket, and the shop's answer, JSON; may be repeated.")
    var basketFiles: [String] = []
    @Option(help: "The order document of paid orders, a JSON file.") var order: String?
    @Option(help: "The payment provider's secret key.") var key = "sk_test_waybill"
    @Option(help: "Port of the admin interface; 0 chooses a free one.") var adminPort = 0

    func run() async throws {
        let authority = DevelopmentCertificates(directory: self.certificates)
        let made = try DevelopmentMerchant.make(
            in: self.out, merchantIdentifier: self.merchant, authority: authority)
        let secret = randomHex(bytes: 32)
        try Data(secret.utf8).write(to: URL(filePath: self.out + "/upstream-secret"))
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o600], ofItemAtPath: self.out + "/upstream-secret")
        let gateway = try await ApplePayGatewayFake.start(
            ApplePayGatewayRules(domains: [self.merchant: Set(self.domains)]), certificates: made)
        let order = try self.order.map { JSON.object(OrderFile.document(try JSON(parsing: readFile($0)))) } ?? [:]
        let shop = ShopFake(
            secret: secret, baskets: Set(self.baskets), answers: try Self.answers(self.basketFiles),
            paymentRequest: Self.paymentRequest, order: order)
        let tls = FakeServer.TLS(certificate: authority.serverCertificate, key: authority.serverKey)
        let provider = ProviderFake(key: self.key)
        let shopPort = try await shop.start(tls: tls)
        let providerPort = try await provider.start(tls: tls)
        let admin = try await FakeServer.start(port: self.adminPort) { request in
            .response(Self.administer(request, gateway, shop, provider))
        }
        let lines = [
            "APPLE_PAY_PRODUCTION=127.0.0.1:\(gateway.ports[.production] ?? 0)",
            "APPLE_PAY_SANDBOX=127.0.0.1:\(gateway.ports[.sandbox] ?? 0)", "SHOP_URL=https://localhost:\(shopPort)",
            "PROVIDER_URL=https://localhost:\(providerPort)", "PROVIDER_KEY=\(self.key)",
            "ADMIN_URL=http://127.0.0.1:\(admin.port)", "ROOT_CA=\(authority.root)",
        ]
        try Data((lines.joined(separator: "\n") + "\n").utf8).write(
            to: URL(filePath: self.out + "/fakes.env"), options: .atomic)
        for line in lines { Console.line(line) }
        for await _ in await UnixSignalsSequence(trapping: .sigterm, .sigint) { break }
        await admin.stop()
        await provider.stop()
        await shop.stop()
        await gateway.stop()
    }

    /// Reads the answers for baskets from files.
    static func answers(_ options: [String]) throws -> [String: JSONObject] {
        var answers: [String: JSONObject] = [:]
        for option in options {
            let parts = option.split(separator: "=", maxSplits: 1).map(String.init)
            guard parts.count == 2, let answer = try JSON(parsing: readFile(parts[1])).object,
                answer["paymentRequest"]?.object != nil
            else { throw ValidationError("--basket-file must be ID=FILE, an object with paymentRequest: \(option)") }
            answers[parts[0]] = answer
        }
        return answers
    }

    private static let paymentRequest: JSON = [
        "total": ["label": "Shop", "amount": "149.40"],
        "lineItems": [["label": "Walnut Desk Lamp", "amount": "149.40"]],
        "requiredShippingContactFields": ["name", "email", "postalAddress"],
    ]

    /// Answers `POST` and `DELETE /<fake>/faults`, and `GET /<fake>/requests`.
    private static func administer(
        _ request: FakeServer.Request, _ gateway: ApplePayGatewayFake, _ shop: ShopFake, _ provider: ProviderFake
    ) -> FakeServer.Response {
        let parts = request.path.split(separator: "/")
        guard parts.count == 2 else { return Self.failure(404, "there are /applepay-gateway, /shop and /provider") }
        switch parts[0] {
        case "applepay-gateway":
            return Self.administer(request, parts[1], gateway.conduct, ApplePayGatewayFake.Fault.init(rawValue:))
        case "shop": return Self.administer(request, parts[1], shop.conduct, ShopFake.Fault.init(rawValue:))
        case "provider":
            return Self.administer(request, parts[1], provider.conduct, ProviderFake.Fault.init(rawValue:))
        default: return Self.failure(404, "there are /applepay-gateway, /shop and /provider")
        }
    }

    private static func administer<Fault: Sendable>(
        _ request: FakeServer.Request, _ resource: Substring, _ conduct: FakeConduct<Fault>,
        _ fault: (String) -> Fault?
    ) -> FakeServer.Response {
        switch (request.method, resource) {
        case ("GET", "requests"):
            // Methods and paths only: bodies may hold tokens and contacts.
            let requests: JSON = .array(
                conduct.requests.map { ["method": .string($0.method), "path": .string($0.path)] })
            return .json(200, JSON.object(["requests": requests]).text)
        case ("DELETE", "faults"):
            conduct.fail(nil)
            return .json(200, "{}")
        case ("POST", "faults"):
            let object = (try? JSON(parsing: request.body))?.object
            guard let name = object?["fault"]?.string, let fault = fault(name) else {
                return Self.failure(400, "fault is missing or unknown: see waybill-dev fakes --help")
            }
            let times = object?["times"]?.integer ?? 1
            guard (1...1_000_000).contains(times) else { return Self.failure(400, "times must be 1 to 1000000") }
            conduct.fail(fault, times: Int(times))
            return .json(201, "{}")
        default: return Self.failure(405, "POST and DELETE faults, GET requests")
        }
    }

    private static func failure(_ status: Int, _ message: String) -> FakeServer.Response {
        .json(status, JSON.object(["error": ["message": .string(message)]]).text)
    }
}
