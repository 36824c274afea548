import Brands
import Foundation
import Kafka
import Model
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// The command, run as a program against a Redis and a broker.
@Suite(.server) struct ResignTests {
    /// The program that was built with these tests.
    private static let program = Program.built("waybill-packager")

    private func start(
        _ fixture: PackagerFixture, _ renewed: RenewedBrand, _ arguments: [String]
    ) throws -> ChildProcess {
        try ChildProcess(
            Self.program, arguments,
            environment: [
                "WAYBILL_KAFKA_BOOTSTRAP": fixture.broker.bootstrap, "WAYBILL_REDIS_URL": fixture.server.url,
                "WAYBILL_BRANDS": renewed.brands, "WAYBILL_WEB_SERVICE_URL": BrandFixture.webServiceURL,
                "WAYBILL_TOKEN_SECRETS": try renewed.directory.write("secrets", BrandFixture.secretsFile),
            ])
    }

    private func resign(
        _ fixture: PackagerFixture, _ renewed: RenewedBrand, _ arguments: [String] = []
    ) async throws -> (exit: ChildProcess.Exit, output: String) {
        let child = try self.start(
            fixture, renewed, ["resign", "--brand", BrandFixture.orderType, "--rate", "100000"] + arguments)
        let exit = try await child.exit(within: .seconds(60))
        return (exit, child.output)
    }

    private func fill(_ fixture: PackagerFixture, _ renewed: RenewedBrand, _ count: Int) async throws -> [OrderKey] {
        try await fixture.redis.completeView()
        var log = ChangeLog()
        let packager = OrderPackager(try renewed.load(), tokens: try BrandFixture.tokens())
        try await fixture.processor(packager: packager).process(
            (0..<count).map { log.change("order.replaced", "o\($0)", ChangeLog.document("\($0)")) })
        // Keys of another order type, which a run skips.
        let noise = (0..<500).map {
            RedisCommand("SET", .string("waybill:1:order:{order.com.example.other/\($0)}"), "x")
        }
        _ = try await fixture.redis.pipeline(noise)
        return try (0..<count).map { try ChangeLog.key("o\($0)") }
    }

    /// Returns the number of orders by signer.
    private func signers(_ fixture: PackagerFixture, _ keys: [OrderKey]) async throws -> [String: Int] {
        try await OrderStore(redis: fixture.redis).orders(keys).reduce(into: [:]) { counts, result in
            counts[try #require(try result.get()).signer, default: 0] += 1
        }
    }

    /// Has openssl verify each package and name its signer.
    private func verify(_ fixture: PackagerFixture, _ renewed: RenewedBrand, _ keys: [OrderKey]) async throws {
        let directory = try TemporaryDirectory("archives")
        for (index, key) in keys.enumerated() {
            let archive = try #require(try await StoredArchive.read(key, from: fixture.redis))
            try directory.write("\(index).order", archive.bytes)
            #expect(archive.stamp.version.ordinal == 1)
        }
        try directory.write("certificate.pem", try renewed.certificate())
        let script = """
            cd "$1"
            openssl x509 -in certificate.pem -out wanted.pem
            for file in *.order; do
              unzip -qo "$file" manifest.json signature -d out || exit 1
              openssl cms -verify -inform DER -in out/signature -content out/manifest.json -binary -CAfile "$2" \
                -purpose any -out /dev/null -signer signer.pem 2>/dev/null || { echo "$file is not signed"; exit 2; }
              cmp signer.pem wanted.pem || { echo "$file is signed by another"; exit 3; }
            done
            """
        _ = try await ChildProcess.run("/bin/sh", ["-c", script, "sh", directory.path, renewed.root])
    }

    @Test(.timeLimit(.minutes(3)))
    func aStoppedOrKilledResignRunIsResumedAndCompleted() async throws {
        let renewed = try RenewedBrand()
        try await PackagerFixture.run { fixture in
            let keys = try await self.fill(fixture, renewed, 320)
            let old = try renewed.load().signer
            try renewed.renewCertificate()
            let new = try renewed.load().signer
            let bookmark = RedisCommand("EXISTS", .string("waybill:1:resign:{\(BrandFixture.orderType)}"))
            for (signal, exit) in [(SIGINT, ChildProcess.Exit.code(3)), (SIGKILL, .signal(SIGKILL))] {
                let before = try await self.signers(fixture, keys)[new] ?? 0
                let child = try self.start(
                    fixture, renewed, ["resign", "--brand", BrandFixture.orderType, "--rate", "20"])
                try await eventually("a part is done") {
                    guard try await fixture.redis.send(bookmark) == .integer(1) else { return false }
                    return try await self.signers(fixture, keys)[new] ?? 0 > before
                }
                child.signal(signal)
                #expect(try await child.exit(within: .seconds(20)) == exit, "\(child.output)")
                #expect(try await self.signers(fixture, keys)[old] ?? 0 > 0)
            }
            let (exit, output) = try await self.resign(fixture, renewed)
            #expect(exit == .code(0), "\(output)")
            #expect(output.contains("resuming an earlier run"))
            #expect(output.contains("of 320 orders (100%)"))
            #expect(output.contains("0 new versions, 0 refused"))
            #expect(try await self.signers(fixture, keys) == [new: 320])
            #expect(try await fixture.redis.send(bookmark) == .integer(0))
            try await self.verify(fixture, renewed, keys)
            // For devices, nothing changed.
            #expect(try await fixture.count(fixture.topics.orders) == 320)
            let again = try await self.resign(fixture, renewed)
            #expect(again.exit == .code(0))
            #expect(again.output.contains("0 re-signed, 0 new versions"))
            let forced = try await self.resign(fixture, renewed, ["--all"])
            #expect(forced.exit == .code(0), "\(forced.output)")
            #expect(forced.output.contains("320 re-signed"), "\(forced.output)")
        }
    }

    @Test(.timeLimit(.minutes(2)))
    func resigningWithAChangedPicturePublishesNewVersions() async throws {
        let renewed = try RenewedBrand()
        try await PackagerFixture.run { fixture in
            let keys = try await self.fill(fixture, renewed, 30)
            let before = try await OrderStore(redis: fixture.redis).orders(keys).map { try $0.get()?.state }
            // A picture that no order shows changes nothing.
            try renewed.write(asset: "another.png", SampleFile.png(seed: 50))
            #expect(try await self.resign(fixture, renewed).output.contains("0 re-signed, 0 new versions, 0 refused"))
            try renewed.write(asset: "logo.png", SampleFile.png(seed: 51))
            let dryRun = try await self.resign(fixture, renewed, ["--dry-run"])
            #expect(dryRun.exit == .code(0))
            #expect(dryRun.output.contains("30 new versions"))
            #expect(try await fixture.count(fixture.topics.orders) == 30)

            let (exit, output) = try await self.resign(fixture, renewed)
            #expect(exit == .code(0), "\(output)")
            #expect(output.contains("30 new versions, 0 refused"), "\(output)")
            for (old, new) in zip(before, try await OrderStore(redis: fixture.redis).orders(keys)) {
                let (old, new) = (try #require(old), try #require(try new.get()))
                #expect(new.state.version.ordinal == 2)
                #expect(new.unpublished.isEmpty)
                #expect(new.state.modifiedEpochSeconds > old.modifiedEpochSeconds)
                #expect(new.state.document == old.document)
            }
            let records = try await fixture.read(fixture.topics.orders, 60).suffix(30)
            #expect(Set(records.map(\.keyText)) == Set(keys.map(\.description)))
            for record in records { #expect(try OrderRecord.decode(try #require(record.value)).version.ordinal == 2) }
            let archive = try #require(try await StoredArchive.read(keys[7], from: fixture.redis))
            #expect(try archive.file("logo.png") == SampleFile.png(seed: 51))
            _ = try archive.verify(root: renewed.root)
        }
    }

    @Test(.timeLimit(.minutes(2)))
    func theExitCodeReportsRefusedOrdersAndInvalidArguments() async throws {
        let renewed = try RenewedBrand()
        try await PackagerFixture.run { fixture in
            let keys = try await self.fill(fixture, renewed, 3)
            _ = try await fixture.redis.send(
                RedisCommand("SET", .string("waybill:1:order:{\(BrandFixture.orderType)/damaged}"), "x"))
            try renewed.renewCertificate()
            let refused = try await self.resign(fixture, renewed)
            #expect(refused.exit == .code(2))
            #expect(refused.output.contains("3 re-signed, 0 new versions, 1 refused"))
            #expect(refused.output.contains("order refused"))
            #expect(try await self.signers(fixture, keys) == [try renewed.load().signer: 3])

            let unknown = try self.start(fixture, renewed, ["resign", "--brand", "order.com.example.unknown"])
            #expect(try await unknown.exit(within: .seconds(20)) == .code(64))
            #expect(unknown.output.contains("unknown brand; known brands: order.com.example.shop"))
            let wrong = try self.start(
                fixture, renewed, ["resign", "--brand", BrandFixture.orderType, "--rate", "0"])
            #expect(try await wrong.exit(within: .seconds(20)) == .code(64))
        }
    }

    @Test(.timeLimit(.minutes(2)))
    func checkConfigAcceptsValidSettingsAndRefusesADuplicateBrand() async throws {
        let renewed = try RenewedBrand()
        try await PackagerFixture.run { fixture in
            let check = try self.start(fixture, renewed, ["--check-config"])
            #expect(try await check.exit(within: .seconds(20)) == .code(0))
            #expect(check.output.contains("WAYBILL_BRANDS_RELOAD_SECONDS=5"))
            // A fault that a service could live with is an error when the configuration is only checked.
            try FileManager.default.copyItem(atPath: renewed.path, toPath: renewed.brands + "/twin")
            let strict = try self.start(fixture, renewed, ["--check-config"])
            #expect(try await strict.exit(within: .seconds(20)) == .code(78))
            #expect(strict.output.contains("has the order type"))
        }
    }
}
