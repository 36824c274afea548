import Kafka
import Model
import Redis
import Store
import TestKit
import TestTraits
import Testing
import Tokens

@testable import Packager

/// The command `order unlink`, run as a program against a Redis and a broker.
@Suite(.server) struct UnlinkOrderTests {
    private func unlink(
        _ fixture: PackagerFixture, _ brand: RenewedBrand, _ order: String
    ) async throws -> (exit: ChildProcess.Exit, output: String) {
        let child = try ChildProcess(
            Program.built("waybill-packager"), ["order", "unlink", "\(try ChangeLog.key(order))"],
            environment: [
                "WAYBILL_KAFKA_BOOTSTRAP": fixture.broker.bootstrap, "WAYBILL_REDIS_URL": fixture.server.url,
                "WAYBILL_BRANDS": brand.brands, "WAYBILL_WEB_SERVICE_URL": BrandFixture.webServiceURL,
                "WAYBILL_TOKEN_SECRETS": try brand.directory.write("secrets", BrandFixture.secretsFile),
                "WAYBILL_LOG_LEVEL": "error",
            ])
        return (try await child.exit(within: .seconds(60)), child.output)
    }

    @Test(.timeLimit(.minutes(3))) func anOrderGetsAnotherTokenForGood() async throws {
        let brand = try RenewedBrand()
        try await PackagerFixture.run { fixture in
            try await fixture.redis.completeView()
            let tokens = try BrandFixture.tokens()
            var log = ChangeLog()
            let processor = try fixture.processor(packager: OrderPackager(try brand.load(), tokens: tokens))
            let own = ChangeLog.document("own", extra: [("authenticationToken", "a-token-of-its-own")])
            try await processor.process([
                log.change("order.replaced", "o", ChangeLog.document("o")), log.change("order.replaced", "own", own),
            ])
            let key = try ChangeLog.key("o")
            let first = try #require(try await fixture.state("o")).token
            let link = MailLink(key: key, expiresEpochSeconds: ChangeLog.noon + 60)
            let signature = link.signature(first)
            func verdict(_ token: AuthenticationToken) -> PackageLink.Verdict {
                link.verdict(
                    signature: signature, token: token, longestSeconds: 60, nowEpochSeconds: ChangeLog.noon)
            }
            #expect(verdict(first) == .valid)

            let run = try await self.unlink(fixture, brand, "o")
            #expect(run.exit == .code(0), "\(run.output)")
            #expect(run.output.contains("the links in mails have ended"))
            let second = try #require(try await fixture.state("o"))
            #expect(verdict(second.token) == .forged)
            #expect(second.version.ordinal == 2)
            #expect(tokens.opens(first.rawValue, key, stored: second.token), "devices keep the order")
            let records = try await fixture.read(fixture.topics.orders, 3)
            let record = try OrderRecord.decode(try #require(records.last?.value))
            #expect(record.token == second.token, "a restore brings no link back")

            // A checkout derives the first token again and again.
            let document = ChangeLog.document("new", extra: [("authenticationToken", .string(first.rawValue))])
            try await processor.process([log.change("order.replaced", "o", document)])
            let third = try #require(try await fixture.state("o"))
            #expect(third.version.ordinal == 3)
            #expect(third.token == second.token)

            #expect(try await self.unlink(fixture, brand, "o").exit == .code(0))
            #expect(try await fixture.state("o")?.token != second.token)
            let brought = try await self.unlink(fixture, brand, "own")
            #expect(brought.exit == .code(1))
            #expect(brought.output.contains("brought its token"))
            #expect(try await fixture.state("own")?.token.rawValue == "a-token-of-its-own")
            let unknown = try await self.unlink(fixture, brand, "unknown")
            #expect(unknown.exit == .code(1))
            #expect(unknown.output.contains("there is no such order"))
        }
    }

    @Test func aTokenOfThePresentSecretIsNotRenewedByRetoken() throws {
        let key = try ChangeLog.key("o")
        let old = try TokenSecrets(file: Array(BrandFixture.secretsFile.utf8))
        let new = try TokenSecrets(file: Array("the secret that nobody has seen yet\n\(BrandFixture.secretsFile)".utf8))
        func order(_ token: AuthenticationToken) -> OrderState {
            OrderState(key: key, document: .empty, token: token, version: 1, modifiedEpochSeconds: 0)
        }
        let renewed = order(old.renewedToken(for: key))
        #expect(TokenRenewal(secrets: old).token(for: renewed) == nil)
        #expect(TokenRenewal(secrets: new).token(for: renewed) == new.token(for: key))
    }
}
