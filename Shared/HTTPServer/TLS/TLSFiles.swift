import NIOSSL
import Operations

/// The paths of the gateway's certificate and key, PEM files.
struct TLSFiles: Hashable, Sendable {
    /// One of the two files.
    enum Part: Hashable, Sendable { case certificate, key }

    /// The certificate, followed by its intermediates.
    let certificate: String
    let key: String

    /// The largest file that is read, in bytes.
    static let sizeLimit = 1 << 20

    /// The cipher suites allowed with TLS 1.2: authenticated encryption, and ephemeral keys. TLS 1.3 has nothing else.
    /// Source: RFC 9325 §4.2, RFC 9113 §9.2.2
    static let cipherSuites: [NIOTLSCipher] = [
        .TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, .TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        .TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, .TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        .TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, .TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ]

    /// Reads both files and checks that they belong together and are valid at the present time.
    ///
    /// Blocks; not for event loops.
    func load(nowEpochSeconds now: Int64) throws(TLSFilesError) -> ServerCertificate {
        let chain = try self.chain()
        guard let leaf = chain.first else { throw self.error(.certificate, "there is no certificate in it") }
        guard Int64(leaf.notValidBefore) <= now else { throw self.error(.certificate, "it is not valid yet") }
        guard now <= Int64(leaf.notValidAfter) else { throw self.error(.certificate, "it has expired") }
        let key: NIOSSLPrivateKey
        let bytes = try self.content(.key)
        do {
            key = try NIOSSLPrivateKey(bytes: bytes, format: .pem)
        } catch {
            throw self.error(.key, "it is not a PEM key, or it has a password")
        }
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
        configuration.minimumTLSVersion = .tlsv12
        configuration.cipherSuiteValues = Self.cipherSuites
        configuration.applicationProtocols = ServerCertificate.applicationProtocols
        do {
            let context = try NIOSSLContext(configuration: configuration)
            return ServerCertificate(context: context, notAfterEpochSeconds: Int64(leaf.notValidAfter))
        } catch {
            throw self.error(.key, "it does not belong to the certificate \(self.certificate)")
        }
    }

    private func chain() throws(TLSFilesError) -> [NIOSSLCertificate] {
        let bytes = try self.content(.certificate)
        do {
            return try NIOSSLCertificate.fromPEMBytes(bytes)
        } catch {
            throw self.error(.certificate, "there is no certificate in it")
        }
    }

    private func content(_ part: Part) throws(TLSFilesError) -> [UInt8] {
        do {
            return try FileContent.read(self.path(part), limit: Self.sizeLimit)
        } catch {
            throw self.error(part, "it cannot be read: \(error)")
        }
    }

    private func path(_ part: Part) -> String {
        switch part {
        case .certificate: self.certificate
        case .key: self.key
        }
    }

    private func error(_ part: Part, _ problem: String) -> TLSFilesError {
        TLSFilesError(part: part, path: self.path(part), problem: problem)
    }
}

/// The reason why certificate and key cannot be used.
struct TLSFilesError: Error, CustomStringConvertible {
    let part: TLSFiles.Part
    let path: String
    let problem: String

    var description: String { "reading \(self.path): \(self.problem)" }
}

/// A certificate with its key, ready for handshakes.
struct ServerCertificate: Sendable {
    /// The protocols offered to clients, the preferred one first. Source: RFC 7301 §6, RFC 9113 §3.2
    static let applicationProtocols = [http2, "http/1.1"]
    static let http2 = "h2"

    let context: NIOSSLContext
    let notAfterEpochSeconds: Int64
}
