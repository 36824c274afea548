import Foundation

/// A Merchant Identity certificate as Apple would issue it, and the certificate of the gateways that check it, under
/// the root of `DevelopmentCertificates`.
///
/// Source: Checkout §2.1
public struct DevelopmentMerchant: Sendable {
    public let directory: String
    /// The root against which both sides are checked.
    public let root: String

    /// PEM file: subject UID is the merchant identifier, extension 1.2.840.113635.100.6.32 its SHA-256 in hexadecimal.
    public var certificate: String { self.directory + "/identity.pem" }
    /// PEM file, readable by its owner only.
    public var key: String { self.directory + "/identity-key.pem" }
    /// PEM file for the hosts of both environments.
    public var gatewayCertificate: String { self.directory + "/gateway.pem" }
    public var gatewayKey: String { self.directory + "/gateway-key.pem" }

    /// Refers to the files of an earlier `make`.
    public init(directory: String, authority: DevelopmentCertificates) {
        self.directory = directory
        self.root = authority.root
    }

    /// Makes all files in a directory, which is created if it is missing.
    public static func make(
        in directory: String, merchantIdentifier: String, authority: DevelopmentCertificates
    ) throws -> DevelopmentMerchant {
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        let merchant = DevelopmentMerchant(directory: directory, authority: authority)
        let hosts = ApplePayGatewayFake.Environment.allCases.map { "DNS:\($0.host)" }.joined(separator: ", ")
        try merchant.issue(
            "identity", subject: "/UID=\(merchantIdentifier)/CN=Apple Pay Merchant Identity/O=Waybill/C=US",
            extensions: """
                extendedKeyUsage = clientAuth
                1.2.840.113635.100.6.32 = ASN1:UTF8String:\(ApplePayGatewayRules.digest(merchantIdentifier))
                """, authority: authority)
        try merchant.issue(
            "gateway", subject: "/CN=\(ApplePayGatewayFake.Environment.production.host)/O=Waybill/C=US",
            extensions: """
                extendedKeyUsage = serverAuth
                subjectAltName = \(hosts), DNS:localhost, IP:127.0.0.1
                """, authority: authority)
        return merchant
    }

    /// Makes `<name>-key.pem` and `<name>.pem`, valid for ten years.
    private func issue(
        _ name: String, subject: String, extensions: String, authority: DevelopmentCertificates
    ) throws {
        let path = self.directory + "/" + name
        try """
        [req]
        distinguished_name = none
        [none]
        [leaf]
        basicConstraints = critical, CA:false
        keyUsage = critical, digitalSignature
        subjectKeyIdentifier = hash
        authorityKeyIdentifier = keyid:always
        \(extensions)

        """.write(toFile: path + ".cnf", atomically: false, encoding: .utf8)
        try OpenSSLProgram.run([
            "req", "-new", "-config", path + ".cnf", "-utf8", "-subj", subject, "-sha256", "-newkey", "rsa:2048",
            "-nodes", "-keyout", path + "-key.pem", "-out", path + ".csr",
        ])
        try OpenSSLProgram.run([
            "x509", "-req", "-in", path + ".csr", "-days", "3650", "-sha256", "-CA", authority.root,
            "-CAkey", authority.directory + "/root-key.pem", "-extfile", path + ".cnf", "-extensions", "leaf",
            "-out", path + ".pem",
        ])
        let files = FileManager.default
        for ending in [".cnf", ".csr"] { try files.removeItem(atPath: path + ending) }
        try files.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path + "-key.pem")
    }
}
