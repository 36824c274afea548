import Foundation
import Model
import Redis
import TestKit
import TestTraits
import Testing

@testable import Checkout
@testable import Store

/// The decision which merchant holds what several claim, and what remains of it after a restart.
@Suite struct MerchantClaimsTests {
    private static func merchants(_ fixture: MerchantLibraryTests.Fixture) throws -> [String: Merchant] {
        let loading = Merchant.Loading(serves: { _ in true }, topics: Topics(), isDevelopment: false)
        let names = try FileManager.default.contentsOfDirectory(atPath: fixture.path)
        return try Dictionary(
            uniqueKeysWithValues: names.map { name in
                let directory = "\(fixture.path)/\(name)"
                return (name, try Merchant.load(directory: directory, name: name, loading, nowEpochSeconds: 0))
            })
    }

    private static func origins(_ served: [Merchant]) -> [String: [String]] {
        served.reduce(into: [:]) { $0[$1.name] = $1.pages.map { "\($0.origin)" }.sorted() }
    }

    private static let shop = "origin:https://shop.example"

    @Test func whatTwoClaimAtFirstIsOfNeitherUntilOneIsGone() throws {
        let fixture = try MerchantLibraryTests.Fixture()
        try fixture.write("acme", ["https://acme.example", "https://shop.example"])
        try fixture.write("zeta", ["https://zeta.example", "https://shop.example"])
        var merchants = try Self.merchants(fixture)
        var claims = MerchantClaims()
        claims.look(["acme", "zeta"], isForced: false)
        var (served, refusals) = claims.settle(merchants)
        #expect(Self.origins(served) == ["acme": ["https://acme.example"], "zeta": ["https://zeta.example"]])
        #expect(
            refusals["acme"]?.description
                == "acme: $.origins: https://shop.example is claimed by zeta, too, and belongs to none of them: remove "
                + "it from all but one")
        #expect(refusals["zeta"]?.description.contains("claimed by acme, too") == true)
        #expect(claims.taken.keys.sorted() == ["origin:https://acme.example", "origin:https://zeta.example"])
        // Missing once is not gone: the files may just be replaced.
        claims.look(["zeta"], isForced: false)
        (served, refusals) = claims.settle(merchants)
        #expect(refusals.count == 2)
        merchants["acme"] = nil
        claims.look(["zeta"], isForced: false)
        (served, refusals) = claims.settle(merchants)
        #expect(Self.origins(served) == ["zeta": ["https://shop.example", "https://zeta.example"]])
        #expect(refusals.isEmpty)
        #expect(claims.released.isEmpty || claims.released == ["origin:https://acme.example": "acme"])
    }

    @Test func whatIsWrittenDownWinsOverTheNameAndOverWhatWasTakenAlone() throws {
        let fixture = try MerchantLibraryTests.Fixture()
        try fixture.write("acme", ["https://acme.example", "https://shop.example"])
        try fixture.write("zeta", ["https://shop.example"])
        let merchants = try Self.merchants(fixture)
        let acme = try #require(merchants["acme"])
        var claims = MerchantClaims(written: [Self.shop: "zeta"])
        claims.look(["acme", "zeta"], isForced: false)
        let reason = "acme: $.origins: https://shop.example belongs to zeta already"
        #expect(claims.refusal(of: acme, isInUse: { _ in false })?.description == reason)
        #expect(claims.settle(["zeta": try #require(merchants["zeta"])]).refusals.isEmpty)
        // This replica saw acme alone and had no Redis; another replica has written down zeta.
        var alone = MerchantClaims()
        alone.look(["acme"], isForced: false)
        #expect(Self.origins(alone.settle(["acme": acme]).served)["acme"]?.count == 2)
        alone.receive(written: [Self.shop: "zeta"], released: [:])
        #expect(Self.origins(alone.settle(["acme": acme]).served) == ["acme": ["https://acme.example"]])
        alone.look(["acme", "zeta"], isForced: false)
        let (served, refusals) = alone.settle(merchants)
        #expect(Self.origins(served) == ["acme": ["https://acme.example"], "zeta": ["https://shop.example"]])
        #expect(refusals == ["acme": MerchantError(reason)])
    }

    /// An origin that its holder gave up is free at the start as well, and not only at the next look.
    @Test func anOriginThatMovedWhileNothingRanHasItsNewMerchantAtOnce() throws {
        let fixture = try MerchantLibraryTests.Fixture()
        try fixture.write("acme", ["https://acme.example", "https://shop.example"])
        try fixture.write("zeta", ["https://zeta.example"])
        let library = try fixture.library(claims: MerchantClaims(written: [Self.shop: "zeta"]))
        #expect(PageOrigin("https://shop.example").flatMap { library.merchants[$0]?.merchant.name } == "acme")
        #expect(library.failures.isEmpty)
    }

    /// A broken file at a restart costs no origin, and a lost Redis is filled again.
    @Test func aHolderStaysWhileItsDirectoryIsThere() throws {
        let fixture = try MerchantLibraryTests.Fixture()
        try fixture.write("acme", ["https://shop.example"])
        let merchants = try Self.merchants(fixture)
        var claims = MerchantClaims(written: [Self.shop: "zeta"])
        for _ in 0..<50 { claims.look(["acme", "zeta"], isForced: false) }
        let acme = try #require(merchants["acme"])
        #expect(claims.refusal(of: acme, isInUse: { _ in false }) != nil, "zeta is there, though it does not load")
        claims.receive(written: [:], released: [:])
        #expect(claims.taken == [Self.shop: "zeta"])
        claims.receive(written: [Self.shop: "zeta"], released: [:])
        #expect(claims.taken.isEmpty)
        for _ in 0..<50 { claims.look([], isForced: false) }
        #expect(claims.holders == [Self.shop: "zeta"], "a directory that is not mounted frees nothing")
        claims.look(["acme"], isForced: false)
        #expect(Self.origins(claims.settle(merchants).served) == ["acme": []], "missing once")
        claims.look(["acme"], isForced: false)
        #expect(claims.released == [Self.shop: "zeta"])
        #expect(Self.origins(claims.settle(merchants).served) == ["acme": ["https://shop.example"]])
        #expect(claims.taken == [Self.shop: "acme"])
        claims.receive(written: [Self.shop: "acme"], released: [Self.shop: "zeta"])
        #expect(claims.released.isEmpty)
    }

    /// While a new directory reaches one replica after the other, the later one takes nothing away.
    @Test func aHolderThatWasNeverHereGoesLater() throws {
        var claims = MerchantClaims(written: [:])
        claims.look(["zeta"], isForced: false)
        claims.receive(written: [Self.shop: "acme"], released: [:])
        for _ in 1..<MerchantClaims.foreignLooks { claims.look(["zeta"], isForced: false) }
        #expect(claims.released.isEmpty)
        claims.look(["zeta"], isForced: false)
        #expect(claims.released == [Self.shop: "acme"])
    }

    @Test func keysAndWebhooksAreClaimsToo() throws {
        let fixture = try MerchantLibraryTests.Fixture()
        for name in ["acme", "zeta"] {
            try fixture.write(
                name, ["https://\(name).example"],
                [
                    "keys": [CheckoutFixture.key("sk", name, ["links"])],
                    "webhooks": ["orders": ["signature": "shopify", "topic": "shop.orders", "secret": "secret"]],
                ])
            try Data("the secret of the shop\n".utf8).write(to: URL(filePath: "\(fixture.path)/\(name)/secret"))
        }
        let library = try fixture.library()
        #expect(library.merchants.all.map(\.name) == ["acme", "zeta"])
        #expect(library.merchants.caller(key: "sk") == nil)
        #expect(library.merchants.webhook("orders") == nil)
        #expect(library.failures.keys.sorted() == ["acme", "zeta"])
        #expect(throws: MerchantError.self) { try fixture.library(isStrict: true) }
    }

    @Test(.server) func theHolderHasItsOriginAfterARestart() async throws {
        let fixture = try MerchantLibraryTests.Fixture()
        let server = try await RedisServer.startAlone()
        try await CheckoutFixture.withClient(server) { redis in
            let ledger = ClaimHolders(redis: redis)
            func start() async throws -> MerchantLibrary {
                let written = try? await ledger.settle()
                return try fixture.library(claims: MerchantClaims(written: written), ledger: ledger)
            }
            func holder(_ library: MerchantLibrary) -> String? {
                PageOrigin("https://shop.example").flatMap { library.merchants[$0]?.merchant.name }
            }
            try fixture.write("zeta", ["https://shop.example"])
            let first = try await start()
            await first.look(isAsked: false)
            try fixture.write("acme", ["https://acme.example", "https://shop.example"])
            for _ in 0..<3 { await first.look(isAsked: false) }
            #expect(holder(first) == "zeta")
            let second = try await start()
            #expect(holder(second) == "zeta")
            #expect(second.failures["acme"]?.description.contains("belongs to zeta already") == true)
            // Redis is lost: the running replica notices it, and writes its holders down again.
            _ = try await redis.send(RedisCommand("FLUSHALL"))
            for _ in 0..<2 { await second.look(isAsked: false) }
            #expect(holder(try await start()) == "zeta")
            // Redis is lost together with all replicas: of neither.
            _ = try await redis.send(RedisCommand("FLUSHALL"))
            let third = try await start()
            #expect(holder(third) == nil)
            #expect(third.failures.keys.sorted() == ["acme", "zeta"])
            try FileManager.default.removeItem(atPath: fixture.path + "/zeta")
            for _ in 0..<2 { await third.look(isAsked: false) }
            #expect(holder(third) == "acme")
            #expect(third.failures.isEmpty)
            #expect(try await ledger.settle()[Self.shop] == "acme")
        }
        await server.stop()
    }
}
