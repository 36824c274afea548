import ArgumentParser
import Foundation
import Model
import TestKit

/// `waybill-dev checkout-load`: many concurrent customers of a checkout role next to a running stack.
struct CheckoutLoadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "checkout-load",
        abstract: "Pays at a rate, and prints how long customers waited as one JSON object.",
        discussion: """
            Starts waybill-gateway checkout beside a stack, with stand-ins of Apple's gateway and of a shop's service, \
            then runs one load after the other: merchant sessions; payments whose device fetches its order at once; \
            payments whose shop answers after --upstream-seconds.
            """)

    @Option(help: "The stack.env of a running stack.") var stack: String
    @Option(help: "Merchant sessions per second.") var sessionRate = 200
    @Option(help: "Total number of merchant sessions.") var sessions = 4000
    @Option(help: "Payments per second.") var rate = 100
    @Option(help: "Payments whose order is fetched.") var payments = 2000
    @Option(help: "Payments with a slow shop.") var slowPayments = 6000
    @Option(help: "Seconds that the slow shop takes.") var upstreamSeconds = 24

    /// One page gets at most 50 merchant sessions a second.
    private static let pages = 8

    func validate() throws {
        let numbers = [
            "session-rate": self.sessionRate, "sessions": self.sessions, "rate": self.rate, "payments": self.payments,
            "slow-payments": self.slowPayments, "upstream-seconds": self.upstreamSeconds,
        ]
        for (name, value) in numbers.sorted(by: { $0.key < $1.key }) where !(1...999_999).contains(value) {
            throw ValidationError("--\(name) \(value): must be 1 to 999999")
        }
    }

    func run() async throws {
        let stack = try StackEnvironment(file: self.stack)
        let scratch = try TemporaryDirectory("checkout-load")
        defer { scratch.remove() }
        let authority = DevelopmentCertificates(
            directory: URL(fileURLWithPath: stack.roots).deletingLastPathComponent().path)
        let certificates = try DevelopmentMerchant.make(
            in: scratch.path, merchantIdentifier: PlaygroundMerchant.identifier, authority: authority)
        let hosts = (1...Self.pages).map { "shop-\($0).example.com" }
        let apple = try await ApplePayGatewayFake.start(
            ApplePayGatewayRules(domains: [PlaygroundMerchant.identifier: Set(hosts)]), certificates: certificates)
        let secret = randomHex(bytes: 32)
        let shop = ShopFake(
            secret: secret, baskets: ["basket"], paymentRequest: [:],
            order: .object(OrderFile.document(PlaygroundVisit.document(status: "processing"))),
            slowness: .seconds(self.upstreamSeconds))
        let port = try await shop.start(
            tls: FakeServer.TLS(certificate: authority.serverCertificate, key: authority.serverKey))
        let checkout = try await PlaygroundCheckout.start(
            stack, origins: hosts.map { "https://\($0)" }, merchant: .simulated(apple, certificates),
            upstream: PlaygroundCheckout.Upstream(
                url: "https://localhost:\(port)", secret: secret, roots: authority.root),
            environment: [
                "WAYBILL_TRUSTED_PROXIES": "127.0.0.1/32", "WAYBILL_MERCHANT_SESSIONS_PER_CLIENT": "10",
            ], in: scratch)
        let http = try HTTPClient(connectionsPerHost: 4096)
        let load = CheckoutLoad(
            checkout: checkout, gateway: stack.gateway, origins: hosts.map { "https://\($0)" }, http: http)
        var figures = JSONObject()
        // Warms up code paths and connections before anything is measured.
        _ = try await load.run(100, rate: 50) { try await load.session($0) }
        _ = try await load.run(100, rate: 50) { try await load.payment("warm-up", $0, isFetched: true) }
        figures["idleMegabytes"] = .integer(load.residentMegabytes)
        figures["sessions"] = try await load.run(self.sessions, rate: self.sessionRate) { try await load.session($0) }
        figures["payments"] = try await load.run(self.payments, rate: self.rate) {
            try await load.payment("quick", $0, isFetched: true)
        }
        shop.conduct.fail(.slow, times: self.slowPayments)
        figures["slowPayments"] = try await load.run(self.slowPayments, rate: self.rate) {
            try await load.payment("slow", $0, isFetched: false)
        }
        Console.line(JSON.object(figures).text)
        await http.close()
        await checkout.stop()
        await shop.stop()
        await apple.stop()
    }
}
