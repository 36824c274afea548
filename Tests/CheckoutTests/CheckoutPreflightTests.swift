import Foundation
import Model
import TestKit
import TestTraits
import Testing

@testable import Checkout
@testable import Operations

/// The check before a start of the checkout role, in environments of which each has a fault.
@Suite(.server) struct CheckoutPreflightTests {
    private static let version = ProgramVersion("test", libraries: [])
    private static let secret = "the secret of the shop\n"

    /// Returns an environment with a merchant whose services are at a port.
    private static func environment(
        _ environment: CheckedEnvironment, port: Int = 1, roots: [UInt8] = []
    ) throws -> CheckedEnvironment {
        let folder = "merchants/shop"
        for name in ["secret", "provider-key"] { try environment.write("\(folder)/\(name)", Self.secret) }
        let certificate = environment.directory.path("certificates/server-certificate.pem")
        let own = try String(contentsOfFile: certificate, encoding: .utf8)
        try environment.write("\(folder)/shop.pem", roots.isEmpty ? own : String(decoding: roots, as: UTF8.self))
        let members: [(String, JSON)] = [
            ("secret", "secret"), ("addresses", ["127.0.0.1"]), ("roots", "shop.pem"),
            ("url", .string("https://127.0.0.1:\(port)/applepay")),
        ]
        let provider: [(String, JSON)] = [
            ("mode", "forward"), ("authorization", "provider-key"), ("addresses", ["127.0.0.1"]),
            ("roots", "shop.pem"), ("url", .string("https://127.0.0.1:\(port)/v1/{id}/confirm")),
        ]
        let merchant: JSONObject = [
            "merchantIdentifier": "merchant.com.example.shop", "displayName": "Example Shop",
            "origins": ["https://shop.example.com": [:]], "upstream": .object(JSONObject(members)),
            "confirm": .object(JSONObject(provider)),
            "webhooks": ["orders": ["signature": "shopify", "topic": "shop.orders", "secret": "secret"]],
        ]
        try environment.write("\(folder)/merchant.json", JSON.object(merchant).text)
        environment.variables["WAYBILL_MERCHANTS"] = environment.directory.path("merchants")
        environment.topics["shop.orders"] = environment.topics["waybill.order-changes"]
        return environment
    }

    private static func merchant(
        _ change: @escaping (inout JSONObject) throws -> Void
    ) -> (CheckedEnvironment) throws -> Void {
        { environment in
            let json = try JSON(parsing: environment.directory.read("merchants/shop/merchant.json"))
            var object = json.object ?? [:]
            try change(&object)
            try environment.write("merchants/shop/merchant.json", JSON.object(object).text)
        }
    }

    /// Gives the merchant a certificate for Apple.
    private static func identity(
        _ identifier: String = "merchant.com.example.shop", days: Int = 90, isPair: Bool = true
    ) -> (CheckedEnvironment) throws -> Void {
        { environment in
            let name = "check-\(UUID().uuidString.prefix(8))"
            let made = try AppleSessions.identity(identifier, days: days, named: name)
            let key = isPair ? made.key : try environment.directory.read("certificates/key.pem")
            try environment.write("merchants/shop/identity.pem", String(decoding: made.certificate, as: UTF8.self))
            try environment.write("merchants/shop/key.pem", String(decoding: key, as: UTF8.self))
            try Self.merchant { object in
                object["certificate"] = "identity.pem"
                object["key"] = "key.pem"
            }(environment)
        }
    }

    private static func member(_ name: String, _ part: String, _ value: JSON?) -> (CheckedEnvironment) throws -> Void {
        Self.merchant { object in
            var members = object[name]?.object ?? [:]
            members[part] = value
            object[name] = .object(members)
        }
    }

    private static var files: [CheckFault] {
        CheckFault.files + CheckFault.tokens + CheckFault.edge + Self.merchants + [
            CheckFault(
                "configuration", "must be host:port", "CHECKOUT_LISTEN", set: "CHECKOUT_LISTEN", "127.0.0.1:99999"),
            CheckFault(
                "configuration", "keys and tokens are sent unencrypted", "correct it", isWarning: true,
                set: "CHECKOUT_LISTEN", "0.0.0.0:8085"),
            CheckFault(
                "configuration", "must be a whole number", "SESSIONS_PER_CLIENT", set: "MERCHANT_SESSIONS_PER_CLIENT",
                "some"),
            CheckFault(
                "configuration", "MERCHANTS is not set", "correct it", isWarning: true, set: "MERCHANTS", nil),
            CheckFault(
                "merchants", "the directory cannot be read", "WAYBILL_MERCHANTS", set: "MERCHANTS", "/nowhere"),
            CheckFault("merchants", "there is no merchant", "create a directory") {
                $0.variables["WAYBILL_MERCHANTS"] = $0.directory.path("certificates")
            },
        ]
    }

    private static var merchants: [CheckFault] {
        let fix = "correct the file in"
        return [
            CheckFault("merchants", "shop: merchant.json", fix) { try $0.write("merchants/shop/merchant.json", "{") },
            CheckFault("merchants", "shop: $.", fix, merchant { $0["displayNames"] = "x" }),
            CheckFault("merchants", "must be https", fix, merchant { $0["origins"] = ["http://a.example": [:]] }),
            CheckFault(
                "merchants", "no brand is loaded for order.com.none", fix,
                merchant {
                    $0["orderTypeIdentifiers"] = ["order.com.none"]
                    $0["capabilities"] = ["order_tracking"]
                }),
            CheckFault("merchants", "it expired", fix, identity(days: -1)),
            CheckFault("merchants", "it names \"merchant.com.other\"", fix, identity("merchant.com.other")),
            CheckFault("merchants", "it does not belong to the certificate", fix, identity(isPair: false)),
            CheckFault(
                "merchants", "Merchant Identity certificate expires in", "renewed certificate", isWarning: true,
                identity(days: 10)
            ),
            CheckFault("merchants", "none: it cannot be read", fix, member("upstream", "secret", "none")),
            CheckFault("merchants", "secret: a line must be a secret of 16", fix) {
                try $0.write("merchants/shop/secret", "short\n")
            },
            CheckFault("merchants", "with {id} in it", fix, member("confirm", "url", "https://psp.example/confirm")),
            CheckFault(
                "merchants", "waybill.orders is Waybill's own", fix,
                merchant {
                    $0["webhooks"] = [
                        "orders": ["signature": "shopify", "topic": "waybill.orders", "secret": "secret"]
                    ]
                }),
            CheckFault("secrets", "provider-key: every user of this machine can read", "chmod o-r") {
                try CheckedEnvironment.permit($0.directory.path("merchants/shop/provider-key"), 0o644)
            },
        ]
    }

    @Test(.timeLimit(.minutes(2))) func eachFaultOfFilesIsNamedWithItsFixWithoutANetwork() async throws {
        for fault in Self.files {
            let environment = try Self.environment(CheckedEnvironment())
            try await fault.cause(in: environment)
            let report = await Checkout.preflight(environment.variables, isOffline: true, version: Self.version)
            #expect(fault.difference(from: report.json, exitCode: report.exitCode) == nil)
        }
    }

    @Test(.timeLimit(.minutes(1))) func bothWhoClaimAnOriginAreNamed() async throws {
        let environment = try Self.environment(CheckedEnvironment())
        try environment.write(
            "merchants/zeta/merchant.json",
            """
            {"merchantIdentifier": "merchant.com.zeta", "displayName": "Zeta",
             "origins": {"https://shop.example.com": {}}}
            """)
        let report = await Checkout.preflight(environment.variables, isOffline: true, version: Self.version)
        let faults = report.json.object?["faults"]?.array ?? []
        for (index, (name, other)) in [("shop", "zeta"), ("zeta", "shop")].enumerated() where index < faults.count {
            let (text, fix) = (faults[index].object?["text"]?.string, faults[index].object?["fix"]?.string)
            #expect(text?.contains("\(name): $.origins: https://shop.example.com is claimed by \(other), too") == true)
            #expect(fix?.hasSuffix("merchants/\(name)") == true)
        }
        #expect(faults.count == 2, "\(report.text)")
        #expect(report.exitCode == 78)
    }

    @Test(.timeLimit(.minutes(3)))
    func eachFaultOfServersIsNamedWithItsFix() async throws {
        let redis = try await RedisServer.startAlone(["--maxmemory", "100mb"])
        let kafka = try await ScriptedKafka.start([:])
        let shop = try await ShopServer.start()
        let (upstream, provider) = ("upstream", "confirm")
        let nobody = "https://127.0.0.1:1/{id}"
        let services = [
            CheckFault(
                "upstreams", "shop: $.upstream:", "start the service",
                Self.member(upstream, "url", "https://127.0.0.1:1")),
            CheckFault(
                "upstreams", "shop: $.confirm:", "start the service", Self.member(provider, "url", .string(nobody))),
            CheckFault(
                "upstreams", "its address is not a public one", "$.upstream.addresses",
                Self.member(upstream, "addresses", nil)),
            CheckFault("upstreams", "shop: $.confirm:", "$.confirm.roots") { environment in
                try environment.write(
                    "merchants/shop/other.pem",
                    String(contentsOfFile: environment.directory.path("certificates/root.pem"), encoding: .utf8))
                try Self.member(provider, "roots", "other.pem")(environment)
            },
            CheckFault("upstreams", "shop: $.environments:", "start the service") { environment in
                environment.variables["WAYBILL_DEVELOPMENT_APPLE_PAY"] =
                    "apple-pay-gateway.apple.com:443:127.0.0.1:1"
                try Self.identity()(environment)
            },
            CheckFault("kafka", "shop.orders does not exist", "create it") { $0.topics["shop.orders"] = nil },
            CheckFault("kafka", "shop.orders is refused", "grant Write on topic shop.orders") {
                $0.topics["shop.orders"]?.error = 29
            },
            CheckFault("kafka", "shop.orders: max.message.bytes=1000", "max.message.bytes=1048576") {
                $0.topics["shop.orders"]?.settings?["max.message.bytes"] = "1000"
            },
        ]
        let faults =
            services + [CheckFault.noBroker] + CheckFault.topic("waybill.order-changes", isCompacted: false)
            + CheckFault.redis(redis)
        for fault in faults {
            let environment = try Self.environment(
                CheckedEnvironment(kafka: kafka.bootstrap, redis: redis.url), port: shop.port, roots: shop.rootPEM)
            try await CheckFault.reset(redis)
            try await fault.cause(in: environment)
            try kafka.tell(environment.topics)
            let report = await Checkout.preflight(
                environment.variables, isOffline: false, version: Self.version, patience: Self.patience)
            #expect(fault.difference(from: report.json, exitCode: report.exitCode) == nil)
        }
        #expect(shop.seen.isEmpty, "no service is sent a request")
        await shop.stop()
        await kafka.stop()
        await redis.stop()
    }

    /// The factor of the check's time limits: other tests keep the machine busy.
    private static let patience = 10

    @Test(.timeLimit(.minutes(1)))
    func theProgramPassesAGoodEnvironmentAndNamesFiveFaultsAtOnce() async throws {
        let redis = try await RedisServer.startAlone(["--maxmemory", "100mb"])
        let kafka = try await ScriptedKafka.start([:])
        let shop = try await ShopServer.start()
        let environment = try Self.environment(
            CheckedEnvironment(kafka: kafka.bootstrap, redis: redis.url), port: shop.port, roots: shop.rootPEM)
        try kafka.tell(environment.topics)
        let arguments = ["check", "--checkout", "--json"]
        let good = try await CheckedProgram.run("waybill-gateway", arguments, environment)
        #expect(good.exit == .code(0), "\(good.text)")
        #expect(good.areas("faults") == [])

        environment.variables["WAYBILL_CHECKOUT_LISTEN"] = "8085"
        environment.variables["WAYBILL_REDIS_URL"] = "redis://127.0.0.1:1"
        environment.topics["shop.orders"] = nil
        try kafka.tell(environment.topics)
        try Self.member("upstream", "url", "https://127.0.0.1:1")(environment)
        try environment.write("merchants/zeta/merchant.json", "{")
        let five = try await CheckedProgram.run("waybill-gateway", arguments, environment)
        #expect(
            five.areas("faults") == ["configuration", "kafka", "merchants", "redis", "upstreams"], "\(five.text)")
        #expect(five.hasFixes)
        #expect(five.exit == .code(78))
        await shop.stop()
        await kafka.stop()
        await redis.stop()
    }

    /// Both roles in one environment: the addresses of Kafka, Redis and the services of a merchant.
    @Test(.timeLimit(.minutes(1))) func withoutANetworkNothingIsConnectedTo() async throws {
        let counter = try await AcceptCounter.start()
        let environment = try Self.environment(
            CheckedEnvironment(kafka: "127.0.0.1:\(counter.port)", redis: "redis://127.0.0.1:\(counter.port)"),
            port: counter.port)
        for role in [[], ["--checkout"]] {
            let run = try await CheckedProgram.run(
                "waybill-gateway", ["check", "--offline", "--json"] + role, environment)
            #expect(run.exit == .code(0), "\(run.text)")
        }
        #expect(counter.connections == 0)
        let asking = try await CheckedProgram.run("waybill-gateway", ["check", "--checkout", "--json"], environment)
        #expect(asking.exit == .code(1), "a server that accepts only: \(asking.text)")
        #expect(counter.connections > 2)
        await counter.stop()
    }
}
