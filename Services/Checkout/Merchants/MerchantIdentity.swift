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

    /// The merchant's identifier; its digest if nothing tells the identifier itself. Apple takes both.
    let merchantIdentifier: String
    let certificatePEM: [UInt8]
    let keyPEM: [UInt8]
    let notAfterEpochSeconds: Int64

    /// - Parameter merchantIdentifier: nil for the one that the certificate names.
    /// - Throws: `MerchantError`, which shows both identifiers if they differ, and never a part of the key.
    init(
        certificatePEM: [UInt8], keyPEM: [UInt8], merchantIdentifier: String?, nowEpochSeconds now: Int64
    ) throws(MerchantError) {
        let certificate: Certificate
        do {
            certificate = try Certificate(pem: certificatePEM)
            try certificate.checkValidity(atEpochSeconds: now)
        } catch {
            throw MerchantError("$.certificate: \(error)")
        }
        self.merchantIdentifier = try Self.identifier(merchantIdentifier, certificate)
        try Self.checkPair(certificatePEM, keyPEM)
        self.certificatePEM = certificatePEM
        self.keyPEM = keyPEM
        self.notAfterEpochSeconds = certificate.notAfterEpochSeconds
    }

    /// Returns the given identifier, or the one that the certificate names, after comparing all that there are.
    private static func identifier(
        _ given: String?, _ certificate: Certificate
    ) throws(MerchantError) -> String {
        let text = certificate.extensionText(Self.extensionIdentifier)
        guard let identifier = given ?? certificate.userIdentifier ?? text,
            Merchant.isMerchantIdentifier(identifier) || Self.isDigest(identifier)
        else {
            throw MerchantError(
                "$.certificate: neither its UID nor its extension \(Self.extensionIdentifier) names a merchant: take "
                    + "the Merchant Identity certificate, or give merchantIdentifier")
        }
        let isNamed = certificate.userIdentifier ?? text != nil
        guard isNamed, certificate.userIdentifier == nil || certificate.userIdentifier == identifier else {
            let found = certificate.userIdentifier.map { "\"\($0)\"" } ?? "nobody"
            throw MerchantError(
                "$.certificate: it names \(found) (UID), the merchant is \"\(identifier)\": take the Merchant "
                    + "Identity certificate of this merchant")
        }
        guard certificate.hasExtension(Self.extensionIdentifier) else { return identifier }
        let digest = Self.digest(of: identifier)
        guard let text, text == identifier || text.lowercased() == digest else {
            throw MerchantError(
                "$.certificate: its extension \(Self.extensionIdentifier) says "
                    + "\(text.map { "\"\($0)\"" } ?? "no text"), which is neither \"\(identifier)\" nor "
                    + "its SHA-256 \(digest)")
        }
        return identifier
    }

    /// Returns the SHA-256 of a merchant identifier in hexadecimal, which may be that digest already.
    static func digest(of identifier: String) -> String {
        Self.isDigest(identifier) ? identifier.lowercased() : SHA256.hex(Array(identifier.utf8))
    }

    private static func isDigest(_ text: String) -> Bool {
        Hexadecimal.bytes(text.lowercased())?.count == 32
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
