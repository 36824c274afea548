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

/// The results of changes, with a real Redis and a broker.
@Suite(.server) struct ChangeProcessorTests {
    /// Opens an archive, checks it against its manifest, prints order.json and leaves manifest and signature behind.
    private static let inspect = """
        import hashlib, json, os, sys, zipfile
        archive = zipfile.ZipFile(sys.argv[1])
        assert archive.testzip() is None
        manifest = json.loads(archive.read("manifest.json"))
        names = set(archive.namelist()) - {"manifest.json", "signature"}
        assert names == set(manifest), (names, manifest)
        for name, digest in manifest.items():
            assert hashlib.sha256(archive.read(name)).hexdigest() == digest, name
        archive.extract("manifest.json", sys.argv[2])
        archive.extract("signature", sys.argv[2])
        print(json.dumps({"order": json.loads(archive.read("order.json")), "names": sorted(names)}))
        """

    @Test func aPackageIsAcceptedByPythonAndOpenSSL() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            try await fixture.processor().process([
                log.change("order.replaced", "o", ChangeLog.document()),
                log.change("order.patched", "o", ["orderNumber": "2"]),
            ])
            let key = try ChangeLog.key("o")
            let reply = try await fixture.redis.send(
                RedisCommand(
                    "HMGET", .string("waybill:1:order:{\(key)}"), "head", "assets", "tail", "token", "modified"))
            let fields = try #require(reply.array)
            let digests = try #require(fields[1].text).split(separator: " ")
            // Two files, and the certificates.
            #expect(digests.count == 3)
            var archive: [UInt8] = []
            for digest in digests {
                if digest == digests.last { archive += try #require(fields[0].bytes) }
                let asset = try await fixture.redis.send(RedisCommand("GET", .string("waybill:1:asset:{\(digest)}")))
                archive += try #require(asset.bytes)
            }
            archive += try #require(fields[2].bytes)

            let directory = try TemporaryDirectory("package")
            let printed = try Program.run(
                "python3", ["-c", Self.inspect, try directory.write("o.order", archive), directory.path])
            let seen = try #require(try JSON(parsing: Array(printed.utf8)).object)
            #expect(seen["names"] == ["lamp.png", "logo.png", "order.json"])
            let order = try #require(seen["order"]?.object)
            #expect(order["orderNumber"] == "2")
            #expect(order["orderIdentifier"] == "o")
            #expect(order["updatedAt"] == "2026-01-01T12:00:00Z")
            #expect(order["webServiceURL"] == .string(BrandFixture.webServiceURL))
            let token = try BrandFixture.tokens().token(for: key)
            #expect(order["authenticationToken"] == .string(token.rawValue))
            #expect(fields[3].text == token.rawValue)
            #expect(fields[4].integer == ChangeLog.noon)
            let root = try directory.write("root.pem", fixture.brandFixture.rootPEM)
            try OpenSSLProgram.run([
                "cms", "-verify", "-binary", "-inform", "DER", "-in", directory.path("signature"), "-content",
                directory.path("manifest.json"), "-CAfile", root, "-purpose", "any", "-out", "/dev/null",
            ])
        }
    }

    @Test func thePublishedRecordMatchesTheOrderInRedis() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            try await fixture.processor().process([
                log.change("order.replaced", "o", ChangeLog.document()),
                log.change("order.replaced", "p", ChangeLog.document("7")),
            ])
            for record in try await fixture.read(fixture.topics.orders, 2) {
                let key = try OrderKey(record.keyText)
                let stored = try #require(try await fixture.stored(key.order.rawValue))
                let told = try OrderRecord.decode(try #require(record.value))
                #expect(told.state(key: key) == stored.state)
                #expect(told.content == stored.content)
            }
            #expect(fixture.counter("waybill_packages_built_total") == 2)
        }
    }

    @Test func aRemovalMarksTheOrderRemovedAndDeletesItsRegistrations() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            let first = log.change("order.replaced", "o", ChangeLog.document())
            try await processor.process([first])
            let registrations = Registrations(redis: fixture.redis)
            let key = try ChangeLog.key("o")
            let devices = try ["d1", "d2"].map { RegistrationKey(device: try DeviceIdentifier($0), order: key) }
            for (index, device) in devices.enumerated() {
                let token = try PushToken(String(repeating: "a\(index)", count: 32))
                _ = try await registrations.register(
                    device, RegistrationRecord(pushToken: token, registeredEpochMilliseconds: 1))
            }
            let removal = log.change("order.removed", "o", nil)
            try await processor.process([removal])

            #expect(try await fixture.state("o")?.isRemoved == true)
            let head = try await fixture.redis.send(RedisCommand("HGET", .string("waybill:1:order:{\(key)}"), "head"))
            #expect(head.isNull)
            #expect(try await registrations.devices(of: [key]) == [[]])
            for device in devices {
                #expect(try await registrations.orders(of: device.device, type: key.orderType).isEmpty)
            }
            let versions = try await fixture.read(fixture.topics.orders, 2)
            #expect(versions.map(\.keyText) == ["\(key)", "\(key)"])
            #expect(versions.last?.value == nil)
            let tombstones = try await fixture.read(fixture.topics.registrations, 2)
            #expect(Set(tombstones.map(\.keyText)) == Set(devices.map(\.text)))
            #expect(tombstones.allSatisfy { $0.value == nil })

            // A redelivery does not bring it back; a new document does.
            try await processor.process([first, removal])
            #expect(try await fixture.state("o")?.isRemoved == true)
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document("9"))])
            #expect(try await fixture.state("o")?.document.members["orderNumber"] == "9")
            #expect(try await fixture.state("o")?.version.ordinal == 3)
        }
    }

    @Test func aRedeliveredChangeRepublishesAnUnacknowledgedVersionUnchanged() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            let record = log.change("order.replaced", "o", ChangeLog.document())
            try await processor.process([record])
            let before = try await fixture.hash("o")
            try await fixture.forgetTold("o")
            try await processor.process([record])
            var after = try await fixture.hash("o")
            #expect(after["record"] != before["record"], "it is told again")
            after["record"] = before["record"]
            #expect(after == before)
            let versions = try await fixture.read(fixture.topics.orders, 2)
            #expect(versions[0].value == versions[1].value)
            #expect(versions[0].key == versions[1].key)
            #expect(fixture.counter("waybill_packages_built_total") == 1)
            #expect(fixture.counter("waybill_changes_skipped_total", reason: "redelivered") == 1)
        }
    }

    @Test func skippedChangesAreCountedByReason() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            let changes: [(String, Int?, String)] = [("a", 7, "1"), ("a", nil, "2"), ("b", 1, "3")]
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document())])
            try await processor.process(
                changes.map { id, sequence, number in
                    log.change("order.patched", "o", ["orderNumber": .string(number)], id: id, sequence: sequence)
                })
            #expect(fixture.counter("waybill_changes_skipped_total", reason: "redelivered") == 0)
            #expect(fixture.counter("waybill_changes_skipped_total", reason: "duplicate") == 1)
            #expect(fixture.counter("waybill_changes_skipped_total", reason: "out_of_sequence") == 1)
            #expect(try await fixture.state("o")?.document.members["orderNumber"] == "1")
        }
    }

    @Test func changesWithoutNetEffectPublishNothing() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document())])
            let before = try await fixture.hash("o")
            try await processor.process([
                log.change("order.replaced", "o", ChangeLog.document()),
                log.change("order.patched", "o", ["orderNumber": "2"]),
                log.change("order.patched", "o", ["orderNumber": "1"]),
            ])
            #expect(try await fixture.count(fixture.topics.orders) == 1)
            let after = try await fixture.hash("o")
            for field in ["version", "modified", "etag", "head", "stamp"] { #expect(after[field] == before[field]) }
            #expect(after["sources"] != before["sources"])
            #expect(fixture.counter("waybill_packages_built_total") == 1)
        }
    }

    @Test func versionsInOneSecondHaveIncreasingUpdatedAt() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            var moments: [Int64] = []
            for number in 1...4 {
                try await processor.process([log.change("order.replaced", "o", ChangeLog.document("\(number)"))])
                moments.append(try #require(try await fixture.state("o")).modifiedEpochSeconds)
            }
            #expect(moments == (0...3).map { ChangeLog.noon + $0 })
        }
    }

    @Test func assetsMissingFromRedisAreStoredAgainByTheNextChange() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            try await processor.process([log.change("order.replaced", "o", ChangeLog.document())])
            let assets = try #require(try await fixture.stored("o")).assets
            for asset in assets {
                _ = try await fixture.redis.send(RedisCommand("DEL", .string("waybill:1:asset:{\(asset)}")))
            }
            try await processor.process([log.change("order.replaced", "p", ChangeLog.document("2"))])
            for asset in assets {
                let there = try await fixture.redis.send(RedisCommand("EXISTS", .string("waybill:1:asset:{\(asset)}")))
                #expect(there.integer == 1)
            }
        }
    }
}

extension PackagerFixture {
    /// Returns all fields of an order.
    func hash(_ order: String) async throws -> [String: [UInt8]] {
        let key = try ChangeLog.key(order)
        let reply = try await self.redis.send(RedisCommand("HGETALL", .string("waybill:1:order:{\(key)}")))
        let values = try #require(reply.array)
        return Dictionary(
            uniqueKeysWithValues: stride(from: 0, to: values.count, by: 2).map {
                (values[$0].text ?? "", values[$0 + 1].bytes ?? [])
            })
    }
}
