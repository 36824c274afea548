import CoreMetrics
import Foundation
import Logging
import Model
import Store
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Checkout

/// Merchants' directories, changed while a library watches them.
@Suite struct MerchantLibraryTests {
    struct Fixture: Sendable {
        let directory: TemporaryDirectory
        let journal = LogJournal()

        init() throws { self.directory = try TemporaryDirectory("merchants") }

        var path: String { self.directory.path("merchants") }

        func write(_ name: String, _ origins: [String], _ more: JSONObject = [:]) throws {
            let merchant: JSONObject = [
                "merchantIdentifier": .string("merchant.com.\(name)"), "displayName": .string(name),
                "origins": .object(JSONObject(origins.map { ($0, [:]) })),
            ]
            let folder = self.path + "/" + name
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            try Data(merchant.merging(more).serialized).write(to: URL(filePath: folder + "/merchant.json"))
        }

        func library(
            isDevelopment: Bool = false, isStrict: Bool = false, claims: MerchantClaims = MerchantClaims(),
            ledger: ClaimHolders? = nil, serves: @escaping @Sendable (OrderTypeIdentifier) -> Bool = { _ in true }
        ) throws -> MerchantLibrary {
            try MerchantLibrary(
                directory: self.path,
                loading: Merchant.Loading(serves: serves, topics: Topics(), isDevelopment: isDevelopment),
                isStrict: isStrict, claims: claims, ledger: ledger,
                logger: Logger(label: "merchants") { [journal] _ in journal })
        }
    }

    private static func holder(_ origin: String, _ library: MerchantLibrary) -> String? {
        PageOrigin(origin).flatMap { library.merchants[$0]?.merchant.name }
    }

    @Test func aMerchantThatTakesAnothersOriginIsRefusedAndTheOtherStays() async throws {
        let fixture = try Fixture()
        try fixture.write("acme", ["https://acme.example", "https://two.acme.example"])
        try fixture.write("zeta", ["https://zeta.example", "https://two.zeta.example"])
        let library = try fixture.library()
        try fixture.write("acme", ["https://acme.example", "https://zeta.example"])
        for _ in 0..<3 { await library.look(isAsked: false) }
        #expect(Self.holder("https://zeta.example", library) == "zeta")
        #expect(Self.holder("https://two.zeta.example", library) == "zeta")
        #expect(Self.holder("https://two.acme.example", library) == "acme", "its last good state")
        let lines = fixture.journal.lines.filter {
            $0.metadata["error"]?.contains("https://zeta.example belongs to zeta already") == true
        }
        #expect(lines.count == 1, "logged when it appears: \(fixture.journal.lines)")
        // The holder gives the origin up: the other one has it at the next look, though its own file is unchanged.
        try fixture.write("zeta", ["https://two.zeta.example"])
        for _ in 0..<3 { await library.look(isAsked: false) }
        #expect(Self.holder("https://zeta.example", library) == "acme")
        #expect(Self.holder("https://two.zeta.example", library) == "zeta")
    }

    @Test func aFailureSaysWhetherALastGoodVersionServes() async throws {
        let fixture = try Fixture()
        try fixture.write("acme", ["https://acme.example"])
        let library = try fixture.library()
        for name in ["acme", "late"] { try fixture.write(name, ["http://\(name).example"]) }
        for _ in 0..<3 { await library.look(isAsked: false) }
        let failures = fixture.journal.lines.filter { $0.message == "cannot load merchant" }
        let effects = failures.map { [$0.metadata["merchant"] ?? "", $0.metadata["effect"] ?? ""] }
        #expect(
            effects.sorted { $0[0] < $1[0] } == [
                ["acme", "its last good version stays in use"], ["late", "its pages and servers are refused"],
            ])
    }

    @Test func aMerchantWithAnothersKeyIsRefused() async throws {
        let fixture = try Fixture()
        let keys: JSONObject = ["keys": [CheckoutFixture.key("sk", "backend", ["links"])]]
        try fixture.write("zeta", ["https://zeta.example"], keys)
        let library = try fixture.library()
        try fixture.write("acme", ["https://acme.example"], keys)
        await library.look(isAsked: true)
        #expect(library.merchants.caller(key: "sk")?.merchant.name == "zeta")
        #expect(library.merchants.all.map(\.name) == ["zeta"])
    }

    @Test func twoKeysOfAMerchantHaveDifferentDigests() throws {
        let fixture = try Fixture()
        try fixture.write(
            "acme", ["https://acme.example"],
            [
                "keys": [
                    CheckoutFixture.key("sk", "backend", ["links"]), CheckoutFixture.key("sk", "other", ["orders"]),
                ]
            ])
        let error = #expect(throws: MerchantError.self) { try fixture.library() }
        #expect("\(error.map { "\($0)" } ?? "")".contains("is that of the key backend already"))
    }

    @Test func aWebhookThatCannotBeUsedIsRefused() async throws {
        let fixture = try Fixture()
        let good: JSONObject = ["signature": "shopify", "topic": "shop.orders", "secret": "secret"]
        let rows: [(name: String, change: JSONObject, problem: String)] = [
            ("a", ["signature": "paypal"], #"$.webhooks["a"].signature: "paypal" must be "shopify" or"#),
            ("a", ["topic": "waybill.orders"], #"$.webhooks["a"].topic: waybill.orders is Waybill's own"#),
            ("a", ["topic": "waybill.order-changes"], "is Waybill's own"),
            ("a", ["topic": "^shop"], "is not a topic's name"),
            ("a", ["secret": "../secret"], #"$.webhooks["a"].secret"#),
            ("a", ["secret": "none"], "none: it cannot be read"),
            ("a", ["signature": "adyen"], "secret: a key of Adyen must be hexadecimal digits"),
            ("a", ["signature": "basic"], "secret: a line must be user:password"),
            ("a", ["secret": "short"], "short: a line must be a secret of 16 printable characters at least"),
            ("a", ["more": true], "more"), ("a/b", [:], "$.webhooks: \"a/b\" must be 1 to 128 letters"),
        ]
        for row in rows {
            let webhooks: JSONObject = [row.name: .object(good.merging(row.change))]
            try fixture.write("acme", [], ["webhooks": .object(webhooks)])
            try Data("the secret of the shop\n".utf8).write(to: URL(filePath: fixture.path + "/acme/secret"))
            try Data("the secret of the shop\nshort\n".utf8).write(to: URL(filePath: fixture.path + "/acme/short"))
            let error = #expect(throws: MerchantError.self) { try fixture.library() }
            #expect("\(error.map { "\($0)" } ?? "")".contains(row.problem), "\(row) \(error as Any)")
        }
        let webhooks: JSONObject = ["webhooks": ["orders": .object(good)]]
        try fixture.write("acme", [], webhooks)
        let library = try fixture.library()
        #expect(library.merchants.webhook("orders")?.merchant.name == "acme")
        try fixture.write("beta", [], webhooks)
        try Data("the secret of the other\n".utf8).write(to: URL(filePath: fixture.path + "/beta/secret"))
        await library.look(isAsked: true)
        #expect(library.merchants.all.map(\.name) == ["acme"])
        #expect(fixture.journal.lines.contains { $0.metadata["error"]?.contains("orders belongs to acme") == true })
        // Another name, but the same topic: a program could not tell whose events those are.
        try fixture.write("beta", [], ["webhooks": ["own": .object(good)]])
        await library.look(isAsked: true)
        #expect(library.merchants.webhook("own") == nil)
        let shared = "the topic shop.orders belongs to acme already"
        #expect(fixture.journal.lines.contains { $0.metadata["error"]?.contains(shared) == true })
        try fixture.write(
            "beta", [],
            [
                "webhooks": [
                    "own": .object(good.merging(["topic": "beta.orders"])),
                    "more": .object(good.merging(["topic": "beta.orders"])),
                ]
            ])
        await library.look(isAsked: true)
        #expect(library.merchants.webhook("more")?.merchant.name == "beta", "two of one merchant may share a topic")
    }

    /// A merchant maintains its own directory only, and its association is public.
    @Test func aLinkOutOfTheDirectoryIsRefused() throws {
        let fixture = try Fixture()
        try fixture.write("shop", [], ["origins": ["https://shop.example": ["association": "association"]]])
        let path = fixture.path + "/shop/association"
        try fixture.directory.write("secret", "the secret of another")
        try FileManager.default.createSymbolicLink(
            atPath: path, withDestinationPath: fixture.directory.path("secret"))
        let error = #expect(throws: MerchantError.self) { try fixture.library() }
        #expect(
            error?.description
                == "shop: association: the link leads out of the directory \(fixture.path)/shop; copy the file")
        try FileManager.default.removeItem(atPath: path)
        try Data("proof".utf8).write(to: URL(filePath: path))
        #expect(try fixture.library().merchants.page(host: "shop.example")?.association == Array("proof".utf8))
    }

    @Test func theFormerSecretOfAWebhookHoldsDuringARotation() async throws {
        let fixture = try Fixture()
        try fixture.write(
            "acme", [], ["webhooks": ["a": ["signature": "shopify", "topic": "shop.orders", "secret": "secret"]]])
        let file = URL(filePath: fixture.path + "/acme/secret")
        let body = Array(CheckoutSourcesTests.event.utf8)
        func accepted(_ library: MerchantLibrary) -> [Bool] {
            [CheckoutSourcesTests.shopify, CheckoutSourcesTests.shopifyFormer].map {
                library.merchants.webhook("a")?.webhook.code(of: body, by: $0, nowEpochSeconds: 0) != nil
            }
        }
        try Data("shpss_the-former-secret-of-shop\n".utf8).write(to: file)
        let library = try fixture.library()
        #expect(accepted(library) == [false, true])
        let (present, former) = ("shpss_0123456789abcdef0123456789ab", "shpss_the-former-secret-of-shop")
        try Data("\(present)\n\(former)\n".utf8).write(to: file)
        await library.look(isAsked: true)
        #expect(accepted(library) == [true, true])
        try Data("\(present)\n".utf8).write(to: file)
        await library.look(isAsked: true)
        #expect(accepted(library) == [true, false])
    }

    /// No member of the file exempts a merchant from that.
    @Test func aMerchantOfProductionIsRefusedWithADevelopmentSetting() throws {
        let fixture = try Fixture()
        let identity = try AppleSessions.identity("merchant.com.acme", named: "acme")
        try fixture.write(
            "acme", ["https://acme.example"], ["certificate": "identity.pem", "key": "key.pem"])
        try Data(identity.certificate).write(to: URL(filePath: fixture.path + "/acme/identity.pem"))
        try Data(identity.key).write(to: URL(filePath: fixture.path + "/acme/key.pem"))
        _ = try fixture.library()
        let error = #expect(throws: MerchantError.self) { try fixture.library(isDevelopment: true) }
        #expect("\(error.map { "\($0)" } ?? "")".contains("$.environments"))
        try fixture.write(
            "acme", ["https://acme.example"],
            ["certificate": "identity.pem", "key": "key.pem", "playground": true])
        #expect(throws: MerchantError.self) { try fixture.library(isDevelopment: true) }
    }

    @Test func aMerchantWhoseBrandComesLaterIsLoadedThen() async throws {
        let fixture = try Fixture()
        let brand = try OrderTypeIdentifier("order.com.late")
        try fixture.write("acme", ["https://acme.example"])
        try fixture.write(
            "late", ["https://late.example"],
            ["orderTypeIdentifiers": [.string(brand.rawValue)], "capabilities": ["order_tracking"]])
        let served = Mutex(false)
        let library = try fixture.library { _ in served.withLock { $0 } }
        #expect(Self.holder("https://late.example", library) == nil)
        await library.look(isAsked: false)
        #expect(Self.holder("https://late.example", library) == nil)
        served.withLock { $0 = true }
        await library.look(isAsked: false)
        #expect(Self.holder("https://late.example", library) == "late")
    }

    @Test func aFileThatIsMissingForAMomentRemovesNothing() async throws {
        let fixture = try Fixture()
        try fixture.write("acme", ["https://acme.example"])
        try fixture.write("zeta", ["https://zeta.example"])
        let library = try fixture.library()
        let (file, away) = (fixture.path + "/zeta/merchant.json", fixture.path + "/zeta/merchant.json~")
        try FileManager.default.moveItem(atPath: file, toPath: away)
        await library.look(isAsked: false)
        #expect(Self.holder("https://zeta.example", library) == "zeta")
        try FileManager.default.moveItem(atPath: away, toPath: file)
        for _ in 0..<3 { await library.look(isAsked: false) }
        #expect(Self.holder("https://zeta.example", library) == "zeta")
        try FileManager.default.removeItem(atPath: file)
        for _ in 0..<2 { await library.look(isAsked: false) }
        #expect(Self.holder("https://zeta.example", library) == nil, "gone for good")
        #expect(Self.holder("https://acme.example", library) == "acme")
        try FileManager.default.removeItem(atPath: fixture.path)
        for _ in 0..<3 { await library.look(isAsked: false) }
        #expect(Self.holder("https://acme.example", library) == "acme", "a directory that is not mounted")
    }

    @Test func aFileInASubfolderIsWatched() async throws {
        let fixture = try Fixture()
        let folder = fixture.path + "/acme/secrets"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let secrets = ["a first secret of the shop", "another secret of the shop"].map {
            Array(Data($0.utf8).base64EncodedString().utf8)
        }
        func write(_ secret: [UInt8]) throws { try Data(secret).write(to: URL(filePath: folder + "/upstream")) }
        try write(secrets[0])
        try fixture.write(
            "acme", ["https://acme.example"],
            ["upstream": ["url": "https://shop.example", "secret": "secrets/upstream"]])
        let library = try fixture.library()
        let first = library.merchants.all.first?.upstream?.secret
        #expect(first != nil)
        try write(secrets[1])
        for _ in 0..<2 { await library.look(isAsked: false) }
        #expect(library.merchants.all.first?.upstream?.secret != first)
    }

    @Test(.server) func aFailureIsAGaugeAndIsLoggedAgainWithAnotherReason() async throws {
        try await CheckoutFixture.with { fixture in
            func gauge() async throws -> [String] {
                try await RawConnection.once(
                    port: fixture.operationsPort, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                ).text.split(separator: "\n").map(String.init).filter { $0.hasPrefix("waybill_merchant_load_failed") }
            }
            try await eventually("the gauge of a loaded merchant") {
                try await gauge() == [#"waybill_merchant_load_failed{merchant="shop"} 0.0"#]
            }
            try fixture.directory.write("merchants/shop/merchant.json", Array("{".utf8))
            try await fixture.child.line { $0.contains("cannot load merchant") && $0.contains("shop") }
            #expect(try await gauge() == [#"waybill_merchant_load_failed{merchant="shop"} 1.0"#])
            let metadata = try await fixture.once("GET", "/applepay/metadata", ["Origin: \(CheckoutFixture.origin)"])
            #expect(metadata.json.object?["displayName"]?.string == "Example Shop", "its last good state")
        }
    }
}
