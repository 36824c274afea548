import Foundation
import Kafka
import Model
import Redis
import TestKit
import TestTraits
import Testing

@testable import Packager

/// The command `expire`, run as a program.
@Suite(.server) struct ExpireTests {
    private static let program = Program.built("waybill-packager")

    private func expire(
        _ fixture: PackagerFixture, _ renewed: RenewedBrand, _ arguments: [String] = []
    ) async throws -> (exit: ChildProcess.Exit, output: String) {
        let child = try ChildProcess(
            Self.program, ["expire", "--rate", "100000"] + arguments,
            environment: [
                "WAYBILL_KAFKA_BOOTSTRAP": fixture.broker.bootstrap, "WAYBILL_REDIS_URL": fixture.server.url,
                "WAYBILL_BRANDS": renewed.brands, "WAYBILL_WEB_SERVICE_URL": BrandFixture.webServiceURL,
                "WAYBILL_TOKEN_SECRETS": try renewed.directory.write("secrets", BrandFixture.secretsFile),
            ])
        return (try await child.exit(within: .seconds(60)), child.output)
    }

    @Test(.timeLimit(.minutes(2)))
    func ordersThatEndedLongAgoAreRemovedOnce() async throws {
        let renewed = try RenewedBrand()
        try await PackagerFixture.run { fixture in
            try fixture.broker.create(.init(fixture.topics.orderChanges, partitions: 1))
            try await fixture.redis.completeView()
            var log = ChangeLog(cluster: "another")
            var processor = try fixture.processor()
            let statuses = ["completed", "cancelled", "open", "completed"]
            try await processor.process(
                statuses.enumerated().map { number, status in
                    log.change(
                        "order.replaced", "o\(number)", ChangeLog.document(extra: [("status", .string(status))]))
                })
            // The last one changes now.
            processor.now = { Int64(Date().timeIntervalSince1970 * 1000) }
            try await processor.process([log.change("order.patched", "o3", ["orderNumber": "changed"])])

            #expect(try await self.expire(fixture, renewed).output.contains("no brand has a retention"))
            let kept = try await self.expire(fixture, renewed, ["--brand", BrandFixture.orderType])
            #expect(kept.exit == .code(64))
            #expect(kept.output.contains("its brand.json has no retention"), "\(kept.output)")

            try renewed.write(endedDays: 1)
            let dryRun = try await self.expire(fixture, renewed, ["--dry-run"])
            #expect(dryRun.exit == .code(0), "\(dryRun.output)")
            #expect(dryRun.output.contains("4 orders read, 2 would be removed, 0 damaged"), "\(dryRun.output)")
            #expect(try await fixture.count(fixture.topics.orderChanges) == 0)

            // Before a packager has applied the first removals, the second run publishes them again.
            for _ in 0..<2 {
                let run = try await self.expire(fixture, renewed)
                #expect(run.exit == .code(0), "\(run.output)")
                #expect(run.output.contains("4 orders read, 2 removed, 0 damaged"), "\(run.output)")
            }
            let removals = try await fixture.read(fixture.topics.orderChanges, 4)
            // Each is of the version that was judged.
            for name in ["o0", "o1"] {
                let version = try #require(try await fixture.state(name)).version
                let removal = removals.first { $0.keyText.hasSuffix("/\(name)") }
                let text = String(decoding: removal?.value ?? [], as: UTF8.self)
                #expect(text.contains("\"ifversion\":\"\(version)\""), "\(text)")
            }
            #expect(Set(removals.map(\.keyText)) == Set(try ["o0", "o1"].map { "\(try ChangeLog.key($0))" }))
            let before = try await fixture.count(fixture.topics.orders)
            try await processor.process(removals)
            #expect(try await fixture.count(fixture.topics.orders) == before + 2)
            for (number, isRemoved) in [true, true, false, false].enumerated() {
                #expect(try await fixture.state("o\(number)")?.isRemoved == isRemoved)
            }
            let last = try await self.expire(fixture, renewed, ["--brand", BrandFixture.orderType])
            #expect(last.output.contains("2 orders read, 0 removed, 0 damaged"), "\(last.output)")
        }
    }
}
