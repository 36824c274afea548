import Foundation
import Logging
import NIOCore
import NIOSSL
import TestKit

@testable import Gateway

/// Certificates for tests of TLS, made once.
enum TLSSupport {
    /// Two sets of certificates under one root; the served set may be replaced by the second.
    static let made = Result {
        let directory = try TemporaryDirectory("tls")
        let first = try DevelopmentCertificates.copy(to: directory.path("first"))
        var options = DevelopmentCertificates.Options(orderType: "order.com.example.shop")
        options.authority = first.directory
        let second = try DevelopmentCertificates.make(in: directory.path("second"), options)
        return (directory: directory, first: first, second: second)
    }

    static var now: Int64 { Int64(Date().timeIntervalSince1970) }

    /// Returns the TLS context of a client that trusts the root and offers these protocols and versions.
    static func client(_ protocols: [String], versions: ClosedRange<Int> = 12...13) throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.trustRoots = .file(try Self.made.get().first.root)
        configuration.applicationProtocols = protocols
        let names: [Int: TLSVersion] = [11: .tlsv11, 12: .tlsv12, 13: .tlsv13]
        configuration.minimumTLSVersion = names[versions.lowerBound] ?? .tlsv12
        configuration.maximumTLSVersion = names[versions.upperBound]
        return try NIOSSLContext(configuration: configuration)
    }

    /// Returns the options of a gateway with TLS.
    static func options(
        requestLimit: Duration? = nil, _ change: @escaping @Sendable (inout TransportPolicy) -> Void = { _ in }
    ) throws -> GatewayFixture.Options {
        let certificates = try Self.made.get().first
        let files = TLSFiles(certificate: certificates.serverCertificate, key: certificates.serverKey)
        let certificate = try files.load(nowEpochSeconds: Self.now)
        var options = GatewayFixture.Options()
        if let requestLimit { options.idleLimit = .init(requestLimit) }
        options.edge = { edge in
            edge.certificates = CertificateReload(
                files: files, certificate: certificate, metrics: edge.metrics,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            change(&edge)
        }
        return options
    }
}

extension GatewayFixture {
    /// Opens an HTTP/2 connection for `body` and closes it.
    func http2(streamWindow: UInt32 = 1 << 24, _ body: (HTTP2Wire) async throws -> Void) async throws {
        let connection = try await RawConnection.open(port: self.port, tls: TLSSupport.client(["h2"]))
        do {
            let wire = HTTP2Wire(connection)
            try await wire.start(streamWindow: streamWindow)
            try await body(wire)
            await connection.close()
        } catch {
            await connection.close()
            throw error
        }
    }
}
