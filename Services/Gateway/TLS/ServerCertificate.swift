import NIOSSL

/// A certificate with its key, ready for handshakes.
struct ServerCertificate: Sendable {
    /// The protocols offered to clients, the preferred one first. Source: RFC 7301 §6, RFC 9113 §3.2
    static let applicationProtocols = [http2, "http/1.1"]
    static let http2 = "h2"

    let context: NIOSSLContext
    let notAfterEpochSeconds: Int64
}
