import Foundation
import Model
import NIOCore
import NIOPosix
import Redis
import Store
import TestKit
import Testing

/// A package as the gateway would send it, read out of Redis and checked by the `openssl` program.
struct StoredArchive {
    let stamp: PackageReader.Stamp
    let bytes: [UInt8]

    /// Returns nil for an order that is unknown, removed or not packaged.
    static func read(_ key: OrderKey, from redis: RedisClient) async throws -> StoredArchive? {
        let reader = PackageReader(redis: redis)
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        guard let spans = try await reader.spans(of: key, on: loop).get(), spans.stamp.isPackaged else { return nil }
        let shared = try await reader.assets(spans.shared, of: key, on: loop).get().map { try $0.get() }
        var parts = shared
        parts.insert(spans.head, at: shared.count - 1)
        parts.append(spans.tail)
        let bytes = parts.flatMap { Array($0.readableBytesView) }
        return StoredArchive(stamp: spans.stamp, bytes: bytes)
    }

    /// Has `unzip` and `openssl cms -verify` check archive and signature.
    ///
    /// - Returns: the signer's certificate as PEM, as it is in the signature.
    func verify(root: String) throws -> String {
        let directory = try TemporaryDirectory("archive")
        try directory.write("package.order", self.bytes)
        try Program.run("unzip", ["-q", "-o", directory.path("package.order"), "-d", directory.path("out")])
        try OpenSSLProgram.run([
            "cms", "-verify", "-inform", "DER", "-in", directory.path("out/signature"), "-content",
            directory.path("out/manifest.json"), "-binary", "-CAfile", root, "-purpose", "any", "-out", "/dev/null",
            "-signer", directory.path("signer.pem"),
        ])
        return String(decoding: try directory.read("signer.pem"), as: UTF8.self)
    }

    /// Returns a file of the archive.
    func file(_ name: String) throws -> [UInt8] {
        let directory = try TemporaryDirectory("archive")
        try directory.write("package.order", self.bytes)
        try Program.run("unzip", ["-q", "-o", directory.path("package.order"), "-d", directory.path("out")])
        return try directory.read("out/\(name)")
    }
}
