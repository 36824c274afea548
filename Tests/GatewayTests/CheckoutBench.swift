import Foundation
import Kafka
import Model
import Packaging
import TestKit
import Testing

@testable import Gateway

/// `waybill-gateway checkout` as a process of its own, with the mock broker, for one test.
struct CheckoutBench: Sendable {
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

    struct Options: Sendable {
        /// Members of merchant.json besides those that all merchants here have.
        var merchant: JSONObject = [:]
        /// More files, by their path below the bench's directory.
        var files: [(path: String, content: [UInt8])] = []
        var environment: [String: String] = [:]
        /// A broker that is not there.
        var hasKafka = true
    }

    /// Made once: certificates take a second.
    static let brands = Result {
        let directory = try TemporaryDirectory("checkout-brands")
        for (name, type) in [("shop", Self.orderType), ("other", Self.otherType)] {
            let certificates = try DevelopmentCertificates.make(in: directory.path("\(name)-ca"), orderType: type)
            try DevelopmentBrand.make(in: directory.path("brands/\(name)"), orderType: type, certificates: certificates)
        }
        return directory
    }

    /// The merchant of the tests, as `merchant.json` has it.
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
        _ options: Options = Options(), _ body: @escaping @Sendable (CheckoutBench) async throws -> Void
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
        let (reserved, operations) = (try ReservedPort(), try ReservedPort())
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let program = URL(filePath: tests).deletingLastPathComponent().appending(path: "waybill-gateway").path()
        var environment = [
            "WAYBILL_CHECKOUT_LISTEN": "127.0.0.1:\(reserved.number)",
            "WAYBILL_OPERATIONS_LISTEN": "127.0.0.1:\(operations.number)",
            "WAYBILL_WEB_SERVICE_URL": "https://wallet.example/apple",
            "WAYBILL_TOKEN_SECRETS": directory.path("token-secrets"),
            "WAYBILL_BRANDS": try Self.brands.get().path("brands"), "WAYBILL_MERCHANTS": directory.path("merchants"),
            "WAYBILL_REDIS_URL": "redis://127.0.0.1:1/0",
            "WAYBILL_KAFKA_BOOTSTRAP": options.hasKafka ? broker.bootstrap : "127.0.0.1:1",
        ]
        environment.merge(options.environment) { $1 }
        let child = try ChildProcess(program, ["checkout"], environment: environment)
        func clean() async {
            _ = await child.stop()
            broker.close()
            reserved.release()
            operations.release()
        }
        do {
            try await child.line { $0.contains("\"listening\"") && $0.contains(":\(reserved.number)") }
            try await body(
                CheckoutBench(
                    port: reserved.number, operationsPort: operations.number, broker: broker, directory: directory,
                    child: child, secrets: try TokenSecrets(file: Array(Self.secretsText.utf8))))
        } catch {
            await clean()
            throw error
        }
        await clean()
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

    /// A request of the shop's server.
    func call(
        _ method: String, _ path: String, _ headers: [String] = [], key: String = CheckoutBench.key, body: String? = nil
    ) async throws -> RawConnection.Response {
        try await self.once(method, path, ["Authorization: Bearer \(key)"] + headers, body: body)
    }

    /// The records of the topic of changes, once there are so many.
    func changes(_ count: Int) async throws -> [KafkaRecord] {
        let consumer = try KafkaConsumer(
            KafkaConfiguration(bootstrap: self.broker.bootstrap, properties: KafkaBroker.quick),
            group: "g-\(UUID().uuidString)", topics: ["waybill.order-changes"])
        var records: [KafkaRecord] = []
        let deadline = ContinuousClock.now + .seconds(30)
        while records.count < count, ContinuousClock.now < deadline {
            records += try await consumer.nextBatch(records: 10, bytes: 1 << 22, wait: .milliseconds(300))
        }
        await consumer.close()
        #expect(records.count == count)
        return records
    }

    /// How many changes were published.
    func published() async throws -> Int64 {
        let admin = try KafkaAdmin(KafkaConfiguration(bootstrap: self.broker.bootstrap))
        let count = try await admin.endOffsets("waybill.order-changes").values.reduce(0, +)
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
