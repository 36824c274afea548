import Foundation
public import NIOSSL

/// Certificates for tests of TLS, made once.
public enum TLSSupport {
    /// Two sets of certificates under one root; the served set may be replaced by the second.
    public static let made = Result {
        let directory = try TemporaryDirectory("tls")
        let first = try DevelopmentCertificates.copy(to: directory.path("first"))
        var options = DevelopmentCertificates.Options(orderType: "order.com.example.shop")
        options.authority = first.directory
        let second = try DevelopmentCertificates.make(in: directory.path("second"), options)
        return (directory: directory, first: first, second: second)
    }

    public static var now: Int64 { Int64(Date().timeIntervalSince1970) }

    /// Returns the TLS context of a client that trusts the root and offers these protocols and versions.
    public static func client(_ protocols: [String], versions: ClosedRange<Int> = 12...13) throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.trustRoots = .file(try Self.made.get().first.root)
        configuration.applicationProtocols = protocols
        let names: [Int: TLSVersion] = [11: .tlsv11, 12: .tlsv12, 13: .tlsv13]
        configuration.minimumTLSVersion = names[versions.lowerBound] ?? .tlsv12
        configuration.maximumTLSVersion = names[versions.upperBound]
        return try NIOSSLContext(configuration: configuration)
    }
}
