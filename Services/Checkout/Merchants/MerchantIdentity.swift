import Cryptography
import Model
import NIOSSL

/// A Merchant Identity certificate with its key: the client certificate for requests of merchant sessions.
///
/// Its subject has the merchant identifier as plain text (UID); an extension has it or, in newer certificates, its
/// SHA-256 in hexadecimal.
struct MerchantIdentity: Sendable {
    /// The extension that names the merchant. Source: Apple Pay on the Web, "Setting up your server"
    static let extensionIdentifier = "1.2.840.113635.100.6.32"

    let certificatePEM: [UInt8]
    let keyPEM: [UInt8]
    let notAfterEpochSeconds: Int64

    /// - Throws: `MerchantError`, which shows both identifiers if they differ, and never a part of the key.
    init(
        certificatePEM: [UInt8], keyPEM: [UInt8], merchantIdentifier: String, nowEpochSeconds now: Int64
    ) throws(MerchantError) {
        let certificate: Certificate
        do {
            certificate = try Certificate(pem: certificatePEM)
            try certificate.checkValidity(atEpochSeconds: now)
        } catch {
            throw MerchantError("$.certificate: \(error)")
        }
        guard certificate.userIdentifier == merchantIdentifier else {
            let found = certificate.userIdentifier.map { "\"\($0)\"" } ?? "nobody"
            throw MerchantError(
                "$.certificate: it names \(found) (UID), the merchant is \"\(merchantIdentifier)\": take the Merchant "
                    + "Identity certificate of this merchant")
        }
        if certificate.hasExtension(Self.extensionIdentifier) {
            let text = certificate.extensionText(Self.extensionIdentifier)
            let digest = SHA256.hex(Array(merchantIdentifier.utf8))
            guard let text, text == merchantIdentifier || text.lowercased() == digest else {
                throw MerchantError(
                    "$.certificate: its extension \(Self.extensionIdentifier) says "
                        + "\(text.map { "\"\($0)\"" } ?? "no text"), which is neither \"\(merchantIdentifier)\" nor "
                        + "its SHA-256 \(digest)")
            }
        }
        try Self.checkPair(certificatePEM, keyPEM)
        self.certificatePEM = certificatePEM
        self.keyPEM = keyPEM
        self.notAfterEpochSeconds = certificate.notAfterEpochSeconds
    }

    private static func checkPair(_ certificatePEM: [UInt8], _ keyPEM: [UInt8]) throws(MerchantError) {
        let key: NIOSSLPrivateKey
        do {
            key = try NIOSSLPrivateKey(bytes: keyPEM, format: .pem)
        } catch {
            throw MerchantError("$.key: it is not a PEM key, or it has a password")
        }
        do {
            var configuration = TLSConfiguration.makeClientConfiguration()
            configuration.certificateChain = try NIOSSLCertificate.fromPEMBytes(certificatePEM).map { .certificate($0) }
            configuration.privateKey = .privateKey(key)
            _ = try NIOSSLContext(configuration: configuration)
        } catch {
            throw MerchantError("$.key: it does not belong to the certificate")
        }
    }
}
