import Model

/// What Wallet checks of the certificates and the form of a signature.
///
/// Source: Wallet Orders §2.4 (form) and §2.5 (policy)
struct CertificatePolicy: Sendable {
    let roots: [CertificateAnatomy]
    let nowEpochSeconds: Int64

    /// Markers of Apple's certificates. Source: Wallet Orders §2.5
    static let orderTypeMarker = "1.2.840.113635.100.14.2"
    static let orderSigningPurpose = "1.2.840.113635.100.4.19"
    static let intermediateMarker = "1.2.840.113635.100.6.2.1"
    /// Source: RFC 5754 §2.2, RFC 8017 appendix C
    private static let sha256 = "2.16.840.1.101.3.4.2.1"
    private static let rsaEncryption = "1.2.840.113549.1.1.1"
    private static let sha256WithRSA = "1.2.840.113549.1.1.11"
    private static let data = "1.2.840.113549.1.7.1"

    /// The order type that the signer's certificate is for.
    func orderType(of signature: SignatureAnatomy) -> String? {
        signature.signer.flatMap { $0.text(Self.orderTypeMarker) ?? $0.userIdentifier }
    }

    /// What Wallet would refuse, one sentence each.
    func violations(in signature: SignatureAnatomy, manifestDigest: [UInt8]) -> [String] {
        self.formViolations(signature, manifestDigest) + self.chainViolations(signature)
    }

    private func formViolations(_ signature: SignatureAnatomy, _ manifestDigest: [UInt8]) -> [String] {
        var found: [String] = []
        if !signature.isDetached { found.append("The signature carries its content; it must be detached.") }
        if signature.contentType != Self.data { found.append("The signature is not one of plain data.") }
        if signature.signerCount != 1 { found.append("The signature has \(signature.signerCount) signers instead of one.") }
        if !signature.hasFittingVersions { found.append("The signature's version is not the one of its form.") }
        if signature.digestAlgorithm != Self.sha256 {
            found.append("The signature's digest is \(signature.digestAlgorithm) instead of SHA-256.")
        }
        if ![Self.rsaEncryption, Self.sha256WithRSA].contains(signature.signatureAlgorithm) {
            found.append("The signature's algorithm is \(signature.signatureAlgorithm) instead of RSA.")
        }
        if !signature.hasPlainAlgorithms { found.append("An algorithm of the signature has parameters.") }
        if signature.messageDigest == nil {
            found.append("The signature has no message digest: its attributes are missing.")
        } else if signature.messageDigest != manifestDigest {
            found.append("The signature is not one of this manifest.json: its message digest differs.")
        }
        if let time = signature.signingTime {
            if time > self.nowEpochSeconds + PackageVerifier.clockSkewSeconds {
                found.append("The signing time \(RFC3339.format(epochSeconds: time)) lies in the future.")
            }
        } else {
            found.append("The signature has no signing time.")
        }
        return found
    }

    private func chainViolations(_ signature: SignatureAnatomy) -> [String] {
        guard let leaf = signature.signer else { return ["The signer's certificate is not in the signature."] }
        var found: [String] = []
        if leaf.text(Self.orderTypeMarker) == nil {
            found.append("The signer's certificate has no order type (extension \(Self.orderTypeMarker)).")
        }
        if !leaf.purposes.contains(Self.orderSigningPurpose) {
            found.append("The signer's certificate is not for order bundles (purpose \(Self.orderSigningPurpose)).")
        }
        guard let intermediate = signature.certificates.first(where: {
            $0.subject == leaf.issuer && $0.subject != leaf.subject
        }) else {
            return found + ["The intermediate certificate that issued the signer's is not in the signature."]
        }
        if intermediate.extensions[Self.intermediateMarker] == nil {
            found.append("The intermediate certificate lacks the marker \(Self.intermediateMarker).")
        }
        if !self.roots.contains(where: { $0.subject == intermediate.issuer && $0.subject == $0.issuer }) {
            found.append("The chain is not signer, intermediate, root: the intermediate was not issued by a given root.")
        }
        for (certificate, name) in [(leaf, "signer's"), (intermediate, "intermediate")] {
            if !(certificate.notBefore...max(certificate.notBefore, certificate.notAfter)).contains(self.nowEpochSeconds) {
                found.append("The \(name) certificate is not valid now.")
            }
        }
        return found
    }
}
