import ArgumentParser
import Foundation
import Model
import NIOCore
import TestKit

/// `waybill-dev checkout-load`: many concurrent customers of a checkout role next to a running stack.
struct CheckoutLoadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "checkout-load",
        abstract: "Pays at a rate, and prints how long customers waited as one JSON object.",
        discussion: """
            Starts waybill-gateway checkout beside a stack, with stand-ins of Apple's gateway and of a shop's service, \
            then runs one load after the other: merchant sessions; payments whose device fetches its order at once; \
            payments whose shop answers after --upstream-seconds. Then sessions, baskets and payments again, in turn \
            alone and beside another merchant, whose customers request --neighbour-rate baskets a second of a service \
            that never answers.
            """)

    @Option(help: "The stack.env of a running stack.") var stack: String
    @Option(help: "Merchant sessions per second.") var sessionRate = 200
    @Option(help: "Total number of merchant sessions.") var sessions = 4000
    @Option(help: "Payments per second.") var rate = 100
    @Option(help: "Payments whose order is fetched.") var payments = 2000
    @Option(help: "Payments with a slow shop.") var slowPayments = 6000
    @Option(help: "Seconds that the slow shop takes.") var upstreamSeconds = 24
    @Option(help: "Baskets per second of the other merchant.") var neighbourRate = 300
    @Option(help: "The other merchant's service; by default one that accepts connections and never answers.")
    var neighbourUrl: String?
    @ArgumentParser.Flag(help: "Checks the shop's certificate against the system's roots.") var systemRoots = false

    /// One page gets at most 50 merchant sessions a second.
    private static let pages = 8

    func validate() throws {
        let numbers = [
            "session-rate": self.sessionRate, "sessions": self.sessions, "rate": self.rate, "payments": self.payments,
            "slow-payments": self.slowPayments, "upstream-seconds": self.upstreamSeconds,
            "neighbour-rate": self.neighbourRate,
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
            secret: secret, baskets: ["basket"],
            paymentRequest: ["total": ["label": "Shop", "amount": "10.00"]],
            order: .object(OrderFile.document(PlaygroundVisit.document(status: "processing"))),
            slowness: .seconds(self.upstreamSeconds))
        let port = try await shop.start(
            tls: FakeServer.TLS(certificate: authority.serverCertificate, key: authority.serverKey))
        let hanging = try await Neighbour.listen()
        let neighbourURL = self.neighbourUrl ?? "https://localhost:\(hanging.localAddress?.port ?? 0)"
        try Neighbour.write(into: scratch.path("merchants"), url: neighbourURL)
        let checkout = try await PlaygroundCheckout.start(
            stack, origins: hosts.map { "https://\($0)" }, merchant: .simulated(apple, certificates),
            upstream: PlaygroundCheckout.Upstream(
                url: "https://localhost:\(port)", secret: secret,
                roots: self.systemRoots ? nil : authority.root),
            environment: [
                "WAYBILL_TRUSTED_PROXIES": "127.0.0.1/32", "WAYBILL_MERCHANT_SESSIONS_PER_CLIENT": "10",
            ], in: scratch)
        let http = try HTTPClient(connectionsPerHost: 4096)
        let load = CheckoutLoad(
            checkout: checkout, gateway: stack.gateway, origins: hosts.map { "https://\($0)" }, http: http)
        var figures = JSONObject()
        // Warms up code paths and connections before anything is measured.
        _ = await load.run(100, rate: 50) { try await load.session($0) }
        _ = await load.run(100, rate: 50) { try await load.payment("warm-up", $0, isFetched: true) }
        figures["idleMegabytes"] = .integer(load.residentMegabytes)
        figures["sessions"] = await load.run(self.sessions, rate: self.sessionRate) {
            try await load.session($0)
        }.report
        figures["payments"] = await load.run(self.payments, rate: self.rate) {
            try await load.payment("quick", $0, isFetched: true)
        }.report
        figures["neighbour"] = await self.besideNeighbour(load)
        shop.conduct.fail(.slow, times: self.slowPayments)
        figures["slowPayments"] = await load.run(self.slowPayments, rate: self.rate) {
            try await load.payment("slow", $0, isFetched: false)
        }.report
        Console.line(JSON.object(figures).text)
        await http.close()
        await checkout.stop()
        await shop.stop()
        await apple.stop()
        try? await hanging.close()
    }

    /// Rounds in which a load runs alone and beside the neighbour.
    private static let rounds = 3

    /// Returns, for each kind of load, its figures `alone` and `beside` the neighbour, and the neighbour's.
    private func besideNeighbour(_ load: CheckoutLoad) async -> JSON {
        let neighbour = Neighbour(load: load, rate: self.neighbourRate)
        let kinds: [(name: String, rate: Int, customer: @Sendable (String, Int) async throws -> CheckoutLoad.Outcome)] =
            [
                ("sessions", self.sessionRate, { try await load.session($1) }),
                ("baskets", self.rate, { try await load.basket($1) }),
                ("payments", self.rate, { try await load.payment($0, $1, isFetched: true) }),
            ]
        var (figures, ofNeighbour) = (JSONObject(), CheckoutLoad.Outcomes())
        for (name, rate, customer) in kinds {
            let count = max(1, (name == "sessions" ? self.sessions : self.payments) / Self.rounds)
            var (alone, beside) = (CheckoutLoad.Outcomes(), CheckoutLoad.Outcomes())
            for round in 0..<Self.rounds {
                alone += await load.run(count, rate: rate) { try await customer("aln\(round)x", $0) }
                let (loaded, others) = await neighbour.beside {
                    await load.run(count, rate: rate) { try await customer("bsd\(round)x", $0) }
                }
                beside += loaded
                ofNeighbour += others
            }
            figures[name] = ["alone": alone.report, "beside": beside.report]
        }
        figures["neighbour"] = ofNeighbour.report
        return .object(figures)
    }
}
