import Foundation
import Kafka
import Model
import Redis
import Store
import TestKit
import Testing
import Tokens

@testable import Checkout

/// A `waybill-gateway checkout` process with the mock broker, for one test.
struct CheckoutFixture: Sendable {
    static let orderType = "order.com.example.shop"
    static let otherType = "order.com.example.other"
    static let key = "sk_test_the-key-of-the-shop"
    static let origin = "https://shop.example.com"
    static let secretsText = "the first secret of the test\nthe second secret\n"

    let port: Int
    let operationsPort: Int
    let broker: KafkaBroker
    let directory: TemporaryDirectory
    let child: ChildProcess
    let secrets: TokenSecrets
    /// The Redis server; nil if the test has none.
    let redis: RedisServer?

    struct Options: Sendable {
        /// The members of merchant.json in addition to those of all merchants in these tests.
        var merchant: JSONObject = [:]
        /// Additional files, by their path below the fixture's directory.
        var files: [(path: String, content: [UInt8])] = []
        var environment: [String: String] = [:]
        /// False if the process is given the address of a broker that does not exist.
        var hasKafka = true
        /// True to start a Redis server that counts as having all orders.
        var hasRedis = false
    }

    /// The brands, made once for all tests.
    static let brands = Result {
        let directory = try TemporaryDirectory("checkout-brands")
        for (name, type) in [("shop", Self.orderType), ("other", Self.otherType)] {
            let certificates = try DevelopmentCertificates.copy(to: directory.path("\(name)-ca"), orderType: type)
            try DevelopmentBrand.make(in: directory.path("brands/\(name)"), orderType: type, certificates: certificates)
        }
        return directory
    }

    /// The content of the tests' `merchant.json`.
    static var merchant: JSONObject {
        [
            "merchantIdentifier": "merchant.com.example.shop", "displayName": "Example Shop",
            "orderTypeIdentifiers": [.string(Self.orderType)], "capabilities": ["order_tracking"],
            "origins": [Self.origin: [:], "https://other.example.com:8443": [:]],
            "keys": [
                Self.key(Self.key, "backend", ["details", "links", "confirm", "notify", "read", "orders"]),
                Self.key("sk_test_links-only", "links", ["links"]),
            ],
        ]
    }

    static func key(_ key: String, _ name: String, _ scopes: [String]) -> JSON {
        let digits = String(
            decoding: APIKey.digest(key).flatMap { Array(String(format: "%02x", $0).utf8) }, as: UTF8.self)
        return ["name": .string(name), "sha256": .string(digits), "scopes": .array(scopes.map { .string($0) })]
    }

    static func with(
        _ options: Options = Options(), _ body: @escaping @Sendable (CheckoutFixture) async throws -> Void
    ) async throws {
        let directory = try TemporaryDirectory("checkout")
        let merchant = Self.merchant.merging(options.merchant)
        try FileManager.default.createDirectory(
            atPath: directory.path("merchants/shop"), withIntermediateDirectories: true)
        try directory.write("merchants/shop/merchant.json", merchant.serialized)
        for (path, content) in options.files {
            let folder = URL(filePath: directory.path(path)).deletingLastPathComponent()
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            try directory.write(path, content)
        }
        try directory.write("token-secrets", Self.secretsText)
        let broker = try KafkaBroker(topics: [.init("waybill.order-changes", partitions: 1)])
        let redis = options.hasRedis ? try await RedisServer.start() : nil
        if let redis { try await Self.withClient(redis) { try await $0.completeView() } }
        let (reserved, operations) = (try ReservedPort(), try ReservedPort())
        let program = Program.built("waybill-gateway")
        var environment = [
            "WAYBILL_CHECKOUT_LISTEN": "127.0.0.1:\(reserved.number)",
            "WAYBILL_OPERATIONS_LISTEN": "127.0.0.1:\(operations.number)",
            "WAYBILL_WEB_SERVICE_URL": "https://wallet.example/apple",
            "WAYBILL_TOKEN_SECRETS": directory.path("token-secrets"),
            "WAYBILL_BRANDS": try Self.brands.get().path("brands"), "WAYBILL_MERCHANTS": directory.path("merchants"),
            "WAYBILL_REDIS_URL": redis?.url ?? "redis://127.0.0.1:1/0",
            "WAYBILL_KAFKA_BOOTSTRAP": options.hasKafka ? broker.bootstrap : "127.0.0.1:1",
            "WAYBILL_DRAIN_SECONDS": "0",
        ]
        environment.merge(options.environment) { $1 }
        let child = try ChildProcess(program, ["checkout"], environment: environment)
        func clean() async {
            _ = await child.stop()
            broker.close()
            await redis?.stop()
            reserved.release()
            operations.release()
        }
        do {
            try await child.line { $0.contains("\"listening\"") && $0.contains(":\(reserved.number)") }
            let fixture = CheckoutFixture(
                port: reserved.number, operationsPort: operations.number, broker: broker, directory: directory,
                child: child, secrets: try TokenSecrets(file: Array(Self.secretsText.utf8)), redis: redis)
            try await body(fixture)
            if child.exit == nil { try await fixture.expectNoTraces(hasKafka: options.hasKafka) }
        } catch {
            await clean()
            throw error
        }
        await clean()
    }

    // MARK: Hygiene

    /// The text that marks payment tokens and contacts in tests.
    static let marker = "MARKED-PAYMENT-TOKEN"
    /// The postal code of contacts in tests.
    static let postalCode = "EC4M 7RF"

    /// Returns the parts of payments that a text contains.
    static func traces(in text: String) -> [String] { [Self.marker, Self.postalCode].filter(text.contains) }

    /// Expects no payment token and no contact in the log, the metrics, Kafka or Redis.
    private func expectNoTraces(hasKafka: Bool) async throws {
        #expect(Self.traces(in: self.child.output) == [])
        let metrics = try await RawConnection.once(
            port: self.operationsPort, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        #expect(metrics.status == 200)
        #expect(Self.traces(in: metrics.text) == [])
        let count = hasKafka ? try await self.published() : 0
        for record in count > 0 ? try await self.changes(Int(count)) : [] {
            #expect(Self.traces(in: String(decoding: record.value ?? [], as: UTF8.self)) == [])
            #expect(Self.traces(in: "\(record.headers)") == [])
        }
        guard let redis = self.redis else { return }
        try await Self.withClient(redis) { redis in
            // A compressed dump would hide a text.
            _ = try await redis.send(RedisCommand("CONFIG", "SET", "rdbcompression", "no"))
            for key in (try await redis.send(RedisCommand("KEYS", "*")).array ?? []).compactMap(\.text) {
                let value = try await redis.send(RedisCommand("DUMP", .string(key))).text ?? ""
                #expect(Self.traces(in: key + value) == [])
            }
        }
    }

    /// Runs `body` with a Redis client like the packager's.
    static func withClient<Result>(
        _ server: RedisServer, _ body: (RedisClient) async throws -> Result
    ) async throws -> Result {
        let redis = try server.client()
        let result: Swift.Result<Result, any Error>
        do { result = .success(try await body(redis)) } catch { result = .failure(error) }
        await redis.close()
        return try result.get()
    }

    /// Puts the first version of an order as the packager does.
    func put(_ order: String, _ document: JSONObject, token: String? = nil) async throws {
        let key = try Self.orderKey(order)
        let redis = try #require(self.redis)
        try await Self.withClient(redis) { redis in
            let state = OrderState(
                key: key, document: OrderDocument(members: document),
                token: try token.map { try AuthenticationToken($0) } ?? self.secrets.token(for: key), version: 1,
                modifiedEpochSeconds: 1_767_323_045)
            let package = OrderStore.StoredPackage(
                assets: [], head: Array("PK".utf8), certificates: "certificates", tail: Array("end".utf8),
                entityTag: "tag-1")
            let outcomes = try await OrderStore(redis: redis).write([
                .init(state: state, content: .version(package))
            ])
            #expect(outcomes == [.written])
        }
    }

    static func orderKey(_ order: String) throws -> OrderKey { try OrderKey("\(Self.orderType)/\(order)") }

    func request(_ method: String, _ path: String, _ headers: [String] = [], body: String? = nil) -> String {
        var lines = ["\(method) \(path) HTTP/1.1"]
        if !headers.contains(where: { $0.hasPrefix("Host:") }) { lines.append("Host: checkout.example") }
        if let body {
            lines.append("Content-Length: \(body.utf8.count)")
            if !headers.contains(where: { $0.hasPrefix("Content-Type:") }) {
                lines.append("Content-Type: application/json")
            }
        }
        return (lines + headers).joined(separator: "\r\n") + "\r\n\r\n" + (body ?? "")
    }

    func once(
        _ method: String, _ path: String, _ headers: [String] = [], body: String? = nil
    ) async throws -> RawConnection.Response {
        try await RawConnection.once(port: self.port, self.request(method, path, headers, body: body))
    }

    /// Sends a request as the shop's server does.
    func call(
        _ method: String, _ path: String, _ headers: [String] = [], key: String = CheckoutFixture.key,
        body: String? = nil
    ) async throws -> RawConnection.Response {
        try await self.once(method, path, ["Authorization: Bearer \(key)"] + headers, body: body)
    }

    /// Returns the records of a topic, by default that of order changes, once it has `count` of them.
    func changes(_ count: Int, topic: String = "waybill.order-changes") async throws -> [KafkaRecord] {
        let consumer = try KafkaConsumer(
            KafkaConfiguration(bootstrap: self.broker.bootstrap, properties: KafkaBroker.quick),
            group: "g-\(UUID().uuidString)", topics: [topic])
        var records: [KafkaRecord] = []
        let deadline = ContinuousClock.now + .seconds(30)
        while records.count < count, ContinuousClock.now < deadline {
            records += try await consumer.nextBatch(records: 10, bytes: 1 << 22, wait: .milliseconds(300))
        }
        await consumer.close()
        #expect(records.count == count)
        return records
    }

    /// Returns the number of records that were published to a topic, by default that of order changes.
    func published(topic: String = "waybill.order-changes") async throws -> Int64 {
        let admin = try KafkaAdmin(KafkaConfiguration(bootstrap: self.broker.bootstrap))
        let count = try await admin.endOffsets(topic).values.reduce(0, +)
        await admin.close()
        return count
    }
}

extension RawConnection.Response {
    /// The body as JSON.
    var json: JSON { (try? JSON(parsing: self.body)) ?? .null }
    /// The code of a refusal.
    var code: String? { self.json.object?["error"]?.object?["code"]?.string }
}
