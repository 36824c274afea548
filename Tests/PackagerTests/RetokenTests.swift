import Brands
import Foundation
import Kafka
import Model
import Redis
import Store
import TestKit
import TestTraits
import Testing
import Tokens

@testable import Packager

/// The command, run as a program against a Redis and a broker.
@Suite(.server) struct RetokenTests {
    private static let program = Program.built("waybill-packager")
    private static let new = "the secret that nobody has seen yet\n"

    private func start(
        _ fixture: PackagerFixture, _ renewed: RenewedBrand, secrets: String, _ arguments: [String]
    ) throws -> ChildProcess {
        try ChildProcess(
            Self.program, ["retoken", "--brand", BrandFixture.orderType] + arguments,
            environment: [
                "WAYBILL_KAFKA_BOOTSTRAP": fixture.broker.bootstrap, "WAYBILL_REDIS_URL": fixture.server.url,
                "WAYBILL_BRANDS": renewed.brands, "WAYBILL_WEB_SERVICE_URL": BrandFixture.webServiceURL,
                "WAYBILL_TOKEN_SECRETS": try renewed.directory.write("secrets", secrets),
            ])
    }

    private func retoken(
        _ fixture: PackagerFixture, _ renewed: RenewedBrand, secrets: String, _ arguments: [String] = []
    ) async throws -> (exit: ChildProcess.Exit, output: String) {
        let child = try self.start(fixture, renewed, secrets: secrets, ["--rate", "100000"] + arguments)
        return (try await child.exit(within: .seconds(60)), child.output)
    }

    /// Packages orders with minted tokens, and one that brought its own.
    private func fill(_ fixture: PackagerFixture, _ renewed: RenewedBrand, _ count: Int) async throws -> [OrderKey] {
        try await fixture.redis.completeView()
        var log = ChangeLog()
        let packager = OrderPackager(try renewed.load(), tokens: try BrandFixture.tokens())
        let own = ChangeLog.document("own", extra: [("authenticationToken", "a-token-of-its-own")])
        try await fixture.processor(packager: packager).process(
            (0..<count).map { log.change("order.replaced", "o\($0)", ChangeLog.document("\($0)")) }
                + [log.change("order.replaced", "own", own)])
        return try (0..<count).map { try ChangeLog.key("o\($0)") }
    }

    private func minted(_ secrets: String, _ keys: [OrderKey]) throws -> [String] {
        let secrets = try TokenSecrets(file: Array(secrets.utf8))
        return keys.map { secrets.token(for: $0).rawValue }
    }

    private func tokens(_ fixture: PackagerFixture, _ keys: [OrderKey]) async throws -> [String] {
        try await OrderStore(redis: fixture.redis).orders(keys).map { try #require(try $0.get()).state.token.rawValue }
    }

    @Test(.timeLimit(.minutes(3)))
    func retokenReplacesTokensAndPublishesNewVersions() async throws {
        let renewed = try RenewedBrand()
        try await PackagerFixture.run { fixture in
            let keys = try await self.fill(fixture, renewed, 20)
            let rotated = Self.new + BrandFixture.secretsFile
            let dryRun = try await self.retoken(fixture, renewed, secrets: rotated, ["--dry-run"])
            #expect(dryRun.exit == .code(0))
            #expect(dryRun.output.contains("20 new versions"))
            #expect(try await self.tokens(fixture, keys) == self.minted(BrandFixture.secretsFile, keys))
            #expect(try await self.retoken(fixture, renewed, secrets: rotated).exit == .code(0))
            #expect(try await self.tokens(fixture, keys) == self.minted(Self.new, keys))
            for key in keys {
                let archive = try #require(try await StoredArchive.read(key, from: fixture.redis))
                #expect(archive.stamp.version.ordinal == 2)
            }
            // The record says the same as Redis, so that a restore brings the new token back.
            let records = try await fixture.read(fixture.topics.orders, 41)
            for record in records.suffix(20) {
                let stored = try OrderRecord.decode(try #require(record.value))
                #expect(stored.token.rawValue == (try self.minted(Self.new, [try OrderKey(record.keyText)])[0]))
            }
            let own = try ChangeLog.key("own")
            #expect(try await self.tokens(fixture, [own]) == ["a-token-of-its-own"])
            let again = try await self.retoken(fixture, renewed, secrets: rotated)
            #expect(again.exit == .code(0))
            #expect(again.output.contains("0 new versions"))
            #expect(try await fixture.count(fixture.topics.orders) == 41)
            #expect(try await self.retoken(fixture, renewed, secrets: rotated, ["--all"]).exit == .code(0))
            #expect(try await self.tokens(fixture, [own]) == self.minted(Self.new, [own]))
        }
    }

    @Test(.timeLimit(.minutes(3)))
    func retokenReplacesTokensOfASecretPassedAsWithdrawn() async throws {
        let renewed = try RenewedBrand()
        try await PackagerFixture.run { fixture in
            let keys = try await self.fill(fixture, renewed, 3)
            #expect(try await self.retoken(fixture, renewed, secrets: Self.new).output.contains("0 new versions"))
            let path = try renewed.directory.write("withdrawn", BrandFixture.secretsFile)
            let wrong = try await self.retoken(
                fixture, renewed, secrets: BrandFixture.secretsFile, ["--withdrawn", path])
            #expect(wrong.exit != .code(0))
            #expect(wrong.output.contains("the file contains the secret that mints now"))
            let run = try await self.retoken(fixture, renewed, secrets: Self.new, ["--withdrawn", path])
            #expect(run.exit == .code(0))
            #expect(run.output.contains("3 new versions"))
            #expect(try await self.tokens(fixture, keys) == self.minted(Self.new, keys))
        }
    }

    @Test(.timeLimit(.minutes(3)))
    func aStoppedRetokenRunIsCompletedByTheNextRun() async throws {
        let renewed = try RenewedBrand()
        try await PackagerFixture.run { fixture in
            let keys = try await self.fill(fixture, renewed, 300)
            let rotated = Self.new + BrandFixture.secretsFile
            let child = try self.start(fixture, renewed, secrets: rotated, ["--rate", "50"])
            let wanted = try self.minted(Self.new, keys)
            try await eventually("some are done") {
                zip(try await self.tokens(fixture, keys), wanted).contains { $0 == $1 }
            }
            child.signal(SIGTERM)
            #expect(try await child.exit(within: .seconds(30)) == .code(3))
            #expect(zip(try await self.tokens(fixture, keys), wanted).contains { $0 != $1 })
            #expect(try await self.retoken(fixture, renewed, secrets: rotated).exit == .code(0))
            #expect(try await self.tokens(fixture, keys) == wanted)
        }
    }
}
