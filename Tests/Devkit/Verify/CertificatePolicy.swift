import Model

/// Wallet's checks of the certificates and of the form of a signature.
///
/// Source: Wallet Orders §2.4 (form) and §2.5 (policy)
struct CertificatePolicy: Sendable {
    let roots: [CertificateAnatomy]
    /// The time against which validity and signing time are checked.
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

    /// Returns the order type of the signer's certificate.
    func orderType(of signature: SignatureAnatomy) -> String? {
        guard signature.signerCount == 1 else { return nil }
        return signature.signer.flatMap { $0.text(Self.orderTypeMarker) ?? $0.userIdentifier }
    }

    /// Returns the violations in the form of the signature.
    func formViolations(_ signature: SignatureAnatomy, manifestDigest: [UInt8]) -> [PackageViolation] {
        var found: [PackageViolation] = []
        func note(_ code: ViolationCode, _ message: String) { found.note(code, "signature", message) }
        if !signature.isDetached {
            note(.signatureAttached, "It carries its content; it must be detached (openssl: no -nodetach).")
        }
        if signature.contentType != Self.data {
            note(.signatureContentType, "It signs content of type \(signature.contentType) instead of plain data.")
        }
        guard signature.signerCount == 1 else {
            note(.signatureSigners, "It has \(signature.signerCount) signers instead of one.")
            return found
        }
        if !signature.hasFittingVersions { note(.signatureVersion, "Its version is not the one of its form.") }
        if signature.digestAlgorithm != Self.sha256 {
            note(.signatureDigest, "Its digest is \(signature.digestAlgorithm) instead of SHA-256.")
        }
        if ![Self.rsaEncryption, Self.sha256WithRSA].contains(signature.signatureAlgorithm) {
            note(.signatureAlgorithm, "Its algorithm is \(signature.signatureAlgorithm) instead of RSA (PKCS #1 v1.5).")
        } else if !signature.hasPlainAlgorithms {
            note(.signatureAlgorithm, "One of its algorithms has parameters.")
        }
        return found + self.attributeViolations(signature, manifestDigest)
    }

    /// Source: RFC 5652 §5.3, §11
    private func attributeViolations(_ signature: SignatureAnatomy, _ manifestDigest: [UInt8]) -> [PackageViolation] {
        var found: [PackageViolation] = []
        func note(_ code: ViolationCode, _ message: String) { found.note(code, "signature", message) }
        guard signature.hasAttributes else {
            note(
                .signatureAttributes,
                "It has no signed attributes; contentType, messageDigest and signingTime are needed (no -noattr).")
            return found
        }
        if signature.signedContentType != signature.contentType {
            note(.signatureAttributes, "Its signed attribute contentType is missing or another one than the content's.")
        }
        if let digest = signature.messageDigest {
            // A digest with another algorithm has already been reported.
            if digest != manifestDigest, signature.digestAlgorithm == Self.sha256 {
                note(
                    .signatureOtherContent,
                    "It is not one of this manifest.json: the message digest differs. Sign the exact bytes, last.")
            }
        } else {
            note(.signatureAttributes, "Its signed attribute messageDigest is missing.")
        }
        if let time = signature.signingTime {
            if time > self.nowEpochSeconds + PackageVerifier.clockSkewSeconds {
                note(
                    .signingTimeFuture,
                    "Its signing time \(RFC3339.format(epochSeconds: time)) lies in the future; check the clock.")
            }
        } else {
            note(.signingTimeMissing, "Its signed attribute signingTime is missing.")
        }
        return found
    }

    /// Returns the violations of the certificates themselves, and of their chain.
    func chainViolations(_ signature: SignatureAnatomy) -> [PackageViolation] {
        // With several signers, the chain to check is undefined.
        guard signature.signerCount == 1 else { return [] }
        let chain = self.chain(of: signature)
        guard let leaf = chain.first else {
            return [
                PackageViolation(
                    .signerMissing, "signature", "The signer's certificate is not inside; it must be, with the WWDR's.")
            ]
        }
        var found: [PackageViolation] = []
        if leaf.text(Self.orderTypeMarker) == nil {
            found.note(
                .orderTypeMarker, "signer's certificate",
                "It has no order type (extension \(Self.orderTypeMarker)): it is no Order Type ID certificate.")
        }
        if !leaf.purposes.contains(Self.orderSigningPurpose) {
            found.note(
                .orderSigningPurpose, "signer's certificate",
                "It is not for order bundles (extended key usage \(Self.orderSigningPurpose)).")
        }
        if chain.count > 1, chain[1].extensions[Self.intermediateMarker] == nil {
            found.note(
                .intermediateMarker, "intermediate certificate",
                "It lacks the marker \(Self.intermediateMarker) of Apple's WWDR certificates.")
        }
        found += self.lengthViolations(chain, signature)
        for (certificate, name) in zip(chain, ["signer's", "intermediate", "root"]) {
            found += self.validityViolations(certificate, "\(name) certificate")
        }
        return found
    }

    /// Returns the signer's certificate, the intermediate that issued it and the root above that, as far as present.
    func chain(of signature: SignatureAnatomy) -> [CertificateAnatomy] {
        guard let leaf = signature.signer else { return [] }
        // A root is not an intermediate, regardless of its position.
        let issuer = signature.certificates.first { $0.subject == leaf.issuer && $0.subject != $0.issuer }
        guard let issuer, issuer.subject != leaf.subject else { return [leaf] }
        return [leaf, issuer] + (self.root(of: issuer).map { [$0] } ?? [])
    }

    /// Source: Wallet Orders §2.5: exactly three certificates up to the anchor
    private func lengthViolations(
        _ chain: [CertificateAnatomy], _ signature: SignatureAnatomy
    ) -> [PackageViolation] {
        guard let last = chain.last, chain.count < 3 else { return [] }
        if chain.count == 1 {
            let isTwo = self.root(of: last) != nil
            return [
                isTwo
                    ? PackageViolation(
                        .chainLength, "signature",
                        "A root issued the signer's certificate itself; signer, intermediate and root are needed.")
                    : PackageViolation(
                        .intermediateMissing, "signature",
                        "The intermediate that issued the signer's certificate is not inside; add that WWDR certificate."
                    )
            ]
        }
        let hasMore = signature.certificates.contains { $0.subject == last.issuer && $0.subject != $0.issuer }
        return [
            hasMore
                ? PackageViolation(.chainLength, "signature", "The chain has more than signer, intermediate and root.")
                : PackageViolation(
                    .rootUnknown, "intermediate certificate", "It was not issued by a root that was given.")
        ]
    }

    private func root(of certificate: CertificateAnatomy) -> CertificateAnatomy? {
        self.roots.first { $0.subject == certificate.issuer && $0.subject == $0.issuer }
    }

    private func validityViolations(_ certificate: CertificateAnatomy, _ place: String) -> [PackageViolation] {
        if self.nowEpochSeconds < certificate.notBefore {
            let date = RFC3339.format(epochSeconds: certificate.notBefore)
            return [PackageViolation(.certificateNotYetValid, place, "It is valid from \(date) only.")]
        }
        if self.nowEpochSeconds > certificate.notAfter {
            let date = RFC3339.format(epochSeconds: certificate.notAfter)
            return [PackageViolation(.certificateExpired, place, "It ended \(date); sign with a renewed one.")]
        }
        return []
    }
}
