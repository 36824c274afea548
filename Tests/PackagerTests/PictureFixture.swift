import Brands
import CoreMetrics
import Fetch
import Foundation
import Logging
import Model
import Packaging
import Redis
import Sandbox
import Store
import Synchronization
import TestKit
import Testing

@testable import Packager

/// A packager's parts with a brand that allows pictures from a server that the test runs.
struct PictureFixture: Sendable {
    static let host = "cdn.example.com"

    let packagerFixture: PackagerFixture
    let server: PictureServer
    let brand: RenewedBrand
    var packager: OrderPackager
    let pictures: Pictures
    let clock = Clock()

    /// A clock in seconds since 1970 that advances only when it is moved.
    final class Clock: Sendable {
        private let seconds = Mutex(ChangeLog.noon)
        var now: Int64 { self.seconds.withLock { $0 } }
        func move(by seconds: Int64) { self.seconds.withLock { $0 += seconds } }
    }

    /// - Parameter documents: `documents` of the brand, without its hosts, in place of `pictures`.
    static func run(
        ignoreQuery: JSON = false, fit: Bool = false, documents: JSONObject? = nil,
        _ body: @Sendable (PictureFixture) async throws -> Void
    ) async throws {
        let server = try await PictureServer.start()
        let brand = try RenewedBrand()
        let hosts = ["\(Self.host):\(server.port)", "*.images.example.com:\(server.port)"]
        if var documents {
            documents["hosts"] = .array(hosts.map { .string($0) })
            if documents["authorization"] != nil {
                documents["authorization"] = ["host": .string(hosts[0]), "file": "authorization"]
            }
            try brand.write(documents: documents)
        } else {
            try brand.write(pictureHosts: hosts, ignoreQuery: ignoreQuery, fit: fit)
        }
        let packager = OrderPackager(try brand.load(), tokens: try BrandFixture.tokens())
        try await PackagerFixture.run { fixture in
            try await body(
                PictureFixture(
                    packagerFixture: fixture, server: server, brand: brand, packager: packager,
                    pictures: Pictures(redis: fixture.redis)))
        }
        await server.stop()
    }

    func url(_ path: String, host: String = Self.host) -> String { "https://\(host):\(self.server.port)\(path)" }

    /// Returns an order that shows pictures.
    func document(_ urls: [String], logo: String = "logo.png", trackingLogo: String? = nil) -> JSON {
        let provider: JSON? = trackingLogo.map { logo in
            [
                "displayName": "Carriers", "url": "https://carriers.example.com/",
                "trackingLogoNameLightColorScheme": .string(logo), "trackingLogoNameDarkColorScheme": .string(logo),
            ]
        }
        return ChangeLog.document(
            extra: (provider.map { [("orderProvider", $0)] } ?? []) + [
                (
                    "lineItems",
                    .array(urls.map { ["title": "Lamp", "quantity": 1, "image": .string($0)] })
                ),
                (
                    "merchant",
                    [
                        "merchantIdentifier": "merchant.com.example", "displayName": "Shop",
                        "url": "https://shop.example.com/", "logo": .string(logo),
                    ]
                ),
            ])
    }

    var pictureIndex: PictureIndex {
        PictureIndex(redis: self.packagerFixture.redis, factory: self.packagerFixture.metrics)
    }

    func processor() throws -> ChangeProcessor {
        var processor = try self.packagerFixture.processor(packager: self.packager)
        processor.pictureIndex = self.pictureIndex
        processor.now = { [clock] in clock.now * 1000 }
        return processor
    }

    func repackager() throws -> OrderRepackager {
        let type = try OrderTypeIdentifier(BrandFixture.orderType)
        var repackager = OrderRepackager(
            topics: self.packagerFixture.topics, store: OrderStore(redis: self.packagerFixture.redis),
            producer: self.packagerFixture.producer, packagers: { [packager] in [type: packager] })
        repackager.pictureIndex = self.pictureIndex
        repackager.now = { [clock] in clock.now * 1000 }
        return repackager
    }

    /// Returns a worker as one process has it.
    ///
    /// - Parameters:
    ///   - address: the address that names resolve to.
    ///   - maker: nil for children of the packager's program.
    ///   - repackaging: called before orders are packaged again.
    func worker(
        address: String = "127.0.0.1", areDocuments: Bool = false, maker: PictureMaker? = nil,
        repackaging: @escaping @Sendable ([OrderKey]) async throws -> Void = { _ in }
    ) throws -> PictureWorker {
        var configuration = FetcherConfiguration()
        configuration.rootsPEM = self.server.rootPEM
        configuration.addresses = AddressPolicy(exceptions: [try #require(IPAddress("127.0.0.1"))])
        for host in [Self.host, "a.images.example.com", "other.example.com"] {
            configuration.pinned.append(
                .init(host: host, port: self.server.port, address: try #require(IPAddress(address))))
        }
        let fetcher = try Fetcher(configuration)
        let store = OrderStore(redis: self.packagerFixture.redis)
        let repackager = try self.repackager()
        let index = self.pictureIndex
        let metrics = areDocuments ? index.documentMetrics : index.metrics
        let pictures = areDocuments ? index.documents : index.pictures
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        var job = PictureFetchJob(
            pictures: pictures, store: store, fetcher: fetcher,
            repackage: { [repackager] keys in
                try await repackaging(keys)
                return try await repackager.repackage(keys).postponed(of: keys)
            },
            packager: { [packager] _ in packager }, documentBytes: index.documentBytes,
            maker: maker ?? PictureMaker(fit: PictureChildren(.ofTests).fit), metrics: metrics, logger: logger)
        job.retry = PictureRetry(second: .microseconds(100))
        job.now = { [clock] in clock.now }
        var worker = PictureWorker(pictures: pictures, job: job, fetcher: fetcher, metrics: metrics, logger: logger)
        let type = try OrderTypeIdentifier(BrandFixture.orderType)
        worker.packagers = { [packager] in [type: packager] }
        return worker
    }

    /// Runs workers while the body lasts.
    func working(_ workers: [PictureWorker], _ body: () async throws -> Void) async throws {
        try await withThrowingTaskGroup { group in
            for worker in workers { group.addTask { try await worker.run() } }
            let result: Result<Void, any Error>
            do { result = .success(try await body()) } catch { result = .failure(error) }
            group.cancelAll()
            try await group.waitForAll()
            try result.get()
        }
    }

    /// Returns the package for Wallet, checked by `unzip` and `openssl`: order.json and the files of its pictures.
    func package(_ order: String) async throws -> (order: JSONObject, files: [String: [UInt8]]) {
        let archive = try #require(
            try await StoredArchive.read(try ChangeLog.key(order), from: self.packagerFixture.redis))
        _ = try archive.verify(root: self.brand.root)
        let json = try #require(try JSON(parsing: try archive.file("order.json")).object)
        var files: [String: [UInt8]] = [:]
        let manifest = try #require(try JSON(parsing: try archive.file("manifest.json")).object)
        for member in manifest.members where member.name.contains(/^(picture|document)-/) {
            let content = try archive.file(member.name)
            #expect(member.value == .string(try Self.digest(content)))
            files[member.name] = content
        }
        return (json, files)
    }

    /// Returns the images of an order's line items, nil for one without.
    func images(_ order: String) async throws -> [String?] {
        try await self.package(order).order["lineItems"]?.array?.map { $0.object?["image"]?.string } ?? []
    }

    /// Returns the number of pictures that are still due, according to Redis.
    func due(_ key: String = "waybill:1:picture:due:{pictures}") async throws -> Int64 {
        try await self.packagerFixture.redis.send(RedisCommand("ZCARD", .string(key))).integer ?? -1
    }

    /// Returns the SHA-256 digest by the `openssl` program.
    private static func digest(_ content: [UInt8]) throws -> String {
        let directory = try TemporaryDirectory("digest")
        let said = try OpenSSLProgram.run(["dgst", "-sha256", "-r", try directory.write("file", content)])
        return String(said.prefix(64))
    }
}

extension Sandbox {
    /// Children of the built packager, since a program of tests has no such command; a build for tests is slow.
    static var ofTests: Sandbox {
        var sandbox = PictureChildren.sandbox(.full)
        sandbox.path = SourceFixture.program
        return sandbox
    }
}
