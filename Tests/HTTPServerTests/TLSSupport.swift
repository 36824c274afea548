import Logging
import NIOCore
import NIOSSL
import TestKit

@testable import HTTPServer

extension TLSSupport {
    /// Returns the options of a server with TLS.
    static func options(
        requestLimit: Duration? = nil, _ change: @escaping @Sendable (inout TransportPolicy) -> Void = { _ in }
    ) throws -> ServerFixture.Options {
        let certificates = try Self.made.get().first
        let files = TLSFiles(certificate: certificates.serverCertificate, key: certificates.serverKey)
        let certificate = try files.load(nowEpochSeconds: Self.now)
        var options = ServerFixture.Options()
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

extension ServerFixture {
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
