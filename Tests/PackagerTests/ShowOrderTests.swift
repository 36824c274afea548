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

/// The command `order show`, run as a program against a Redis and a broker.
@Suite(.server) struct ShowOrderTests {
    private static let program = Program.built("waybill-packager")
    private static let new = "the secret that nobody has seen yet\n"

    private func show(
        _ fixture: PackagerFixture, _ brand: RenewedBrand, _ arguments: [String],
        secrets: String = BrandFixture.secretsFile, redis: String? = nil
    ) async throws -> (exit: ChildProcess.Exit, output: String) {
        let child = try ChildProcess(
            Self.program, ["order", "show"] + arguments,
            environment: [
                "WAYBILL_KAFKA_BOOTSTRAP": fixture.broker.bootstrap, "WAYBILL_REDIS_URL": redis ?? fixture.server.url,
                "WAYBILL_BRANDS": brand.brands, "WAYBILL_WEB_SERVICE_URL": BrandFixture.webServiceURL,
                "WAYBILL_TOKEN_SECRETS": try brand.directory.write("secrets", secrets),
                "WAYBILL_LOG_LEVEL": "error",
            ])
        return (try await child.exit(within: .seconds(60)), child.output)
    }

    /// Shows an order as JSON.
    private func json(
        _ fixture: PackagerFixture, _ brand: RenewedBrand, _ order: String,
        secrets: String = BrandFixture.secretsFile, redis: String? = nil
    ) async throws -> (exit: ChildProcess.Exit, order: JSONObject, codes: [String]) {
        let shown = try await self.show(
            fixture, brand, ["\(try ChangeLog.key(order))", "--json"], secrets: secrets, redis: redis)
        let line = shown.output.split(separator: "\n").last { $0.hasPrefix("{") } ?? ""
        let order = try #require(try JSON(parsing: Array(line.utf8)).object, "\(shown.output)")
        let codes = order["findings"]?.array?.compactMap { $0.object?["code"]?.string } ?? []
        return (shown.exit, order, codes)
    }

    private func run(_ body: @Sendable (PackagerFixture, RenewedBrand, ChangeProcessor) async throws -> Void)
        async throws
    {
        let brand = try RenewedBrand()
        try await PackagerFixture.run { fixture in
            try fixture.broker.create(.init(ChangeLog.topic, partitions: 1))
            try await fixture.redis.completeView()
            let packager = OrderPackager(try brand.load(), tokens: try BrandFixture.tokens())
            try await body(fixture, brand, try fixture.processor(packager: packager))
        }
    }

    @Test(.timeLimit(.minutes(3))) func anOrderIsFollowedThroughRedisAndKafka() async throws {
        try await self.run { fixture, brand, processor in
            var log = ChangeLog(cluster: "elsewhere")
            let part = ChangeLog.document(extra: [("owns", ["status"])])
            try await processor.process([log.change("order.merged", "o", part, sequence: 12)])
            let key = try ChangeLog.key("o")
            let state = try #require(try await fixture.state("o"))
            let device = RegistrationKey(device: try DeviceIdentifier("secret-device"), order: key)
            let registration = RegistrationRecord(
                pushToken: try PushToken("abcdef01"), registeredEpochMilliseconds: ChangeLog.noon * 1000)
            try await Registrations(redis: fixture.redis).register(device, registration)

            let well = try await self.show(fixture, brand, ["\(key)"])
            #expect(well.exit == .code(0), "\(well.output)")
            #expect(well.output.contains("verdict  healthy: Redis and the last record have version 1 ("))
            #expect(well.output.contains("token    minted with secret 1 of 1 in the shared file"))
            #expect(well.output.contains("source   /oms: "))
            #expect(well.output.contains("; owns status, last 2026-01-01T12:00:00Z"))
            #expect(well.output.contains("devices  1\n"))
            for secret in [state.token.rawValue, "secret-device", "abcdef01", "Lamp"] {
                #expect(!well.output.contains(secret), "\(well.output)")
            }

            let rotated = try await self.json(fixture, brand, "o", secrets: Self.new + BrandFixture.secretsFile)
            #expect(rotated.exit == .code(0))
            #expect(rotated.codes == ["token-retired", "guideline-unmet"])
            #expect(rotated.order["healthy"] == true)
            let redis = rotated.order["redis"]?.object
            #expect(redis?["version"] == .integer(state.version))
            for name in ["complete", "published", "package", "signed", "current"] {
                #expect(redis?[name] == true, "\(name)")
            }
            #expect(rotated.order["record"]?.object?["place"] == "0/0")
            #expect(rotated.order["sequences"] == [["source": "/oms", "sequence": "12"]])

            let change = ChangeLog.event("order.patched", subject: "\(key)", id: "next", ["status": "completed"])
            for outcome in await fixture.producer.produce([
                KafkaMessage(
                    topic: ChangeLog.topic, key: Array("\(key)".utf8), value: change,
                    headers: [ChangeLog.contentType])
            ]) { _ = try outcome.get() }
            let coming = try await self.json(fixture, brand, "o")
            #expect(coming.exit == .code(0))
            #expect(coming.codes == ["guideline-unmet", "changes-coming"])
            #expect(coming.order["waiting"]?.array?.first?.object?["from"] == "waybill.order-changes/0/0")
        }
    }

    /// A parcel without its status, a file that the brand lacks, a picture that cannot be fetched, and a change without
    /// the merchant.
    @Test(.timeLimit(.minutes(3))) func whatTheCustomerDoesNotSeeIsNamed() async throws {
        try await self.run { fixture, brand, processor in
            try brand.write(pictureHosts: ["cdn.example.com"])
            var log = ChangeLog(cluster: "elsewhere")
            let url = "https://cdn.example.com/lamp.webp"
            let part = ChangeLog.document(extra: [
                ("lineItems", [["title": "Lamp", "quantity": 1, "image": "none.png"]]),
                ("fulfillments", [["fulfillmentIdentifier": "f1", "fulfillmentType": "shipping"]]),
            ])
            try await processor.process([log.change("order.merged", "hidden", part)])
            let hidden = try await self.json(fixture, brand, "hidden")
            #expect(hidden.exit == .code(1))
            #expect(hidden.order["healthy"] == false)
            #expect(hidden.codes == ["elements-hidden", "files-omitted", "guideline-unmet"])
            let redis = hidden.order["redis"]?.object
            #expect(redis?["hiddenElements"]?.array?.first?.string?.hasPrefix("fulfillments f1 without ") == true)
            #expect(redis?["omittedFiles"] == ["$.lineItems[0].image: none.png"])
            let text = try await self.show(fixture, brand, ["\(try ChangeLog.key("hidden"))"]).output
            #expect(text.contains(/, package with [0-9]+ pictures? (and|or) documents?\n/), "\(text)")

            let pictured = ChangeLog.document(extra: [
                ("lineItems", [["title": "Lamp", "quantity": 1, "image": .string(url)]])
            ])
            try await processor.process([log.change("order.replaced", "pictured", pictured)])
            let type = try OrderTypeIdentifier(BrandFixture.orderType)
            var record = PictureRecord()
            (record.attempts, record.failure) = (3, "not_a_picture: neither PNG nor JPEG")
            try await Pictures(redis: fixture.redis).save(record, for: PictureKey(orderType: type, url: url))
            let failing = try await self.json(fixture, brand, "pictured")
            #expect(failing.codes.contains("pictures-missing"))
            #expect(failing.order["healthy"] == false)
            #expect(failing.order["pictures"]?.object?["failures"] == ["not_a_picture: neither PNG nor JPEG"])

            var order = try #require(ChangeLog.document().object)
            order["merchant"] = nil
            let key = "\(try ChangeLog.key("waits"))"
            let change = ChangeLog.event("order.merged", subject: key, id: "1", .object(order))
            for outcome in await fixture.producer.produce([
                KafkaMessage(
                    topic: ChangeLog.topic, key: Array(key.utf8), value: change, headers: [ChangeLog.contentType])
            ]) { _ = try outcome.get() }
            let waits = try await self.json(fixture, brand, "waits")
            #expect(waits.codes == ["not-created", "changes-coming"])
            #expect(waits.order["lacks"] == ["$.merchant is missing"])
            let fix = waits.order["findings"]?.array?.last?.object?["fix"]?.string
            #expect(fix?.contains("defaults.merchant") == true)
        }
    }

    @Test(.timeLimit(.minutes(3))) func faultsAreFoundAndCanBeCorrected() async throws {
        try await self.run { fixture, brand, processor in
            var log = ChangeLog()
            let shipment: JSON = ["fulfillmentIdentifier": "f1", "fulfillmentType": "shipping", "status": "shipped"]
            try await processor.process(
                [
                    log.change("order.replaced", "o", ChangeLog.document()),
                    log.change("order.replaced", "gone", ChangeLog.document()),
                    log.change("fulfillment.updated", "early", shipment),
                ])
            try await processor.process([log.change("order.removed", "gone", nil)])
            let redisKey = RedisArgument.string("waybill:1:order:{\(try ChangeLog.key("o"))}")

            _ = try await fixture.redis.send(RedisCommand("HINCRBY", redisKey, "version", "1"))
            let behind = try await self.json(fixture, brand, "o")
            #expect(behind.exit == .code(1))
            #expect(behind.codes.first == "record-behind")
            #expect(behind.order["verdict"]?.string?.hasPrefix("Redis has version 2 (") == true)

            _ = try await fixture.redis.send(RedisCommand("DEL", redisKey))
            let missing = try await self.json(fixture, brand, "o")
            #expect(missing.exit == .code(1))
            #expect(missing.codes == ["redis-missing"])
            let fix = missing.order["findings"]?.array?.first?.object?["fix"]?.string
            #expect(fix == "waybill-packager restore --brand \(BrandFixture.orderType) --order o")

            let early = try await self.json(fixture, brand, "early")
            #expect(early.exit == .code(1))
            #expect(early.codes == ["not-created", "dead-letters", "early-changes"])
            #expect(early.order["deadLetters"]?.array?.first?.object?["code"] == "unknown-order")

            #expect(try await self.json(fixture, brand, "never").codes == ["not-found"])
            let gone = try await self.json(fixture, brand, "gone")
            #expect(gone.exit == .code(0))
            #expect(gone.order["redis"]?.object?["state"] == "removed")

            let wrong = try await self.show(fixture, brand, ["order.com.example"])
            #expect(wrong.exit == .code(64))
            #expect(wrong.output.contains("looks like order.com.example.shop/1234"), "\(wrong.output)")
            let unconfigured = try ChildProcess(
                Self.program, ["order", "show", "order.com.example/1"], environment: [:])
            #expect(try await unconfigured.exit(within: .seconds(60)) == .code(78))

            let away = try await self.json(fixture, brand, "o", redis: "redis://127.0.0.1:1")
            #expect(away.exit == .code(1))
            #expect(away.codes == ["redis-unread"])
            #expect(away.order["record"]?.object?["state"] == "version")
        }
    }
}
