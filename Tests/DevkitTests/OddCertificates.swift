import Foundation
import TestKit

/// Certificates that lack a field or have one too many, issued under a development authority by the `openssl` program.
enum OddCertificates {
    /// The names of the PEM files that `make` adds.
    static let names = [
        "no-marker", "no-purpose", "plain-intermediate", "plain-leaf", "root-leaf", "deep-intermediate", "deep-leaf",
    ]

    /// Returns the arguments of `openssl cms -sign` for a leaf, whose key is always `key.pem`, and its issuers.
    static func signer(_ leaf: String, under others: String...) -> [String] {
        let above = others.isEmpty ? ["intermediate"] : others
        return ["-signer", "\(leaf).pem", "-inkey", "key.pem"] + above.flatMap { ["-certfile", "\($0).pem"] }
    }

    /// - Parameter folder: a folder of `DevelopmentCertificates`.
    static func make(in folder: String, orderType: String) throws {
        let authority = "basicConstraints = critical, CA:true\nkeyUsage = critical, keyCertSign, cRLSign\n"
        let leaf = "basicConstraints = critical, CA:false\nkeyUsage = critical, digitalSignature\n"
        let purpose = "extendedKeyUsage = clientAuth, 1.2.840.113635.100.4.19\n"
        let marker = "1.2.840.113635.100.14.2 = ASN1:UTF8String:\(orderType)\n"
        func issue(_ name: String, by issuer: String, key: String, issuerKey: String, _ extensions: String) throws {
            let request = "\(folder)/\(name).csr"
            let configuration = "\(folder)/\(name).cnf"
            try Data("[odd]\n\(extensions)".utf8).write(to: URL(fileURLWithPath: configuration))
            try OpenSSLProgram.run([
                "req", "-new", "-key", "\(folder)/\(key).pem", "-subj", "/UID=\(orderType)/CN=\(name)", "-out", request,
            ])
            try OpenSSLProgram.run([
                "x509", "-req", "-in", request, "-days", "300", "-sha256", "-CA", "\(folder)/\(issuer).pem", "-CAkey",
                "\(folder)/\(issuerKey).pem", "-extfile", configuration, "-extensions", "odd", "-out",
                "\(folder)/\(name).pem",
            ])
        }
        let (relations, root) = ("intermediate-key", "root-key")
        try issue("no-marker", by: "intermediate", key: "key", issuerKey: relations, leaf + purpose)
        try issue(
            "no-purpose", by: "intermediate", key: "key", issuerKey: relations,
            leaf + "extendedKeyUsage = clientAuth, 1.2.840.113635.100.4.14\n" + marker)
        try issue("plain-intermediate", by: "root", key: relations, issuerKey: root, authority)
        try issue("plain-leaf", by: "plain-intermediate", key: "key", issuerKey: relations, leaf + purpose + marker)
        try issue("root-leaf", by: "root", key: "key", issuerKey: root, leaf + purpose + marker)
        try issue(
            "deep-intermediate", by: "intermediate", key: relations, issuerKey: relations,
            authority + "1.2.840.113635.100.6.2.1 = ASN1:NULL\n")
        try issue("deep-leaf", by: "deep-intermediate", key: "key", issuerKey: relations, leaf + purpose + marker)
    }
}
