import Cryptography
import Foundation
import Model

/// Judges an order package as Wallet would, independently of the code that builds packages.
///
/// The tools' own readers parse archive, certificates, languages and the rules of order.json. They use only the JSON
/// syntax of Model and the digest of Cryptography. Shared/Cryptography or the `openssl` program checks the signature.
/// Source: Wallet Orders §2, §3
struct PackageVerifier: Sendable {
    /// Packages must be below 5 MB. Source: Wallet Orders §2.1
    static let sizeLimit = 5_000_000
    /// The most seconds by which the signer's clock may be ahead of ours.
    static let clockSkewSeconds: Int64 = 60

    let rootsPEM: [UInt8]
    let signatureCheck: SignatureCheck
    private let roots: [CertificateAnatomy]

    /// - Parameter rootsPEM: the root used in place of Apple's, in PEM.
    init(rootsPEM: [UInt8], signatureCheck: SignatureCheck = .cryptography) throws(ToolError) {
        self.rootsPEM = rootsPEM
        self.signatureCheck = signatureCheck
        self.roots = try CertificateAnatomy.certificates(pem: rootsPEM)
        guard !self.roots.isEmpty else { throw ToolError(.input, "reading the roots: no certificate in the file") }
    }

    /// Checks everything; one violation does not hide the next, and the consequences of one are not reported again.
    /// - Parameter nowEpochSeconds: the time that the signing time and the validity of the certificates are compared
    ///   with.
    func verify(_ package: [UInt8], nowEpochSeconds: Int64) async -> PackageReport {
        var report = PackageReport()
        if package.count >= Self.sizeLimit {
            report.violations.note(
                .packageTooLarge, "archive", "It has \(package.count) bytes; it must be below 5 MB. Use smaller files.")
        }
        let archive = ZipReader(package)
        report.violations += archive.violations
        report.files = archive.entries.map { entry in
            PackageReport.File(
                name: entry.name, size: entry.content.count, sha256: SHA256.hex(Array(entry.content)))
        }
        guard archive.isReadable else { return report }
        let files = PackageFiles(archive)
        report.violations += files.violations
        // Every name differs from the expected one.
        guard !report.violations.contains(where: { $0.code == .enclosingFolder }) else { return report }
        if let manifest = files["manifest.json"] {
            report.violations += ManifestRules.violations(manifest, files: files)
        }
        let orderType = await self.checkSignature(files, nowEpochSeconds, &report)
        if let bytes = files["order.json"] {
            do throws(JSONError) {
                let order = try JSON(parsing: bytes)
                report.order = order
                report.violations += OrderRules.violations(order, certificateOrderType: orderType, files: files)
                report.guidelines = OrderGuideline.findings(in: order) { files.shortSide(ofPicture: $0) }
            } catch {
                let hint =
                    bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? " It starts with a byte order mark; leave that out." : ""
                report.violations.note(.orderUnreadable, "order.json", "It is no JSON: \(error).\(hint)")
            }
        }
        report.violations += Localization.violations(files)
        return report
    }

    /// - Returns: the order type of the signer's certificate; nil if unknown.
    private func checkSignature(_ files: PackageFiles, _ now: Int64, _ report: inout PackageReport) async -> String? {
        guard let signature = files["signature"] else { return nil }
        guard !signature.starts(with: Array("-----BEGIN".utf8)) else {
            report.violations.note(.signatureNotDER, "signature", "It is PEM; write it in DER (-outform DER).")
            return nil
        }
        let anatomy: SignatureAnatomy
        do {
            anatomy = try SignatureAnatomy(signature)
        } catch {
            report.violations.note(.signatureUnreadable, "signature", "It is no detached CMS in DER: \(error.message).")
            return nil
        }
        let policy = CertificatePolicy(roots: self.roots, nowEpochSeconds: now)
        report.signingEpochSeconds = anatomy.signingTime
        let chain = policy.chainViolations(anatomy)
        guard let manifest = files["manifest.json"] else {
            report.violations += chain
            return policy.orderType(of: anatomy)
        }
        let form = policy.formViolations(anatomy, manifestDigest: SHA256.digest(manifest))
        report.violations += form + chain
        // Skips the cryptographic check if it could only fail for a reason that is already reported.
        let decided: Set<ViolationCode> = [
            .signatureAttached, .signatureSigners, .signatureOtherContent, .signerMissing,
        ]
        if decided.isDisjoint(with: (form + chain).map(\.code)) {
            let certificates = policy.chain(of: anatomy)
            let start = certificates.map(\.notBefore).max() ?? now
            let end = certificates.map(\.notAfter).min() ?? now
            let question = SignatureCheck.Question(
                signature: signature, content: manifest, rootsPEM: self.rootsPEM, checksChain: certificates.count == 3,
                chainEpochSeconds: start <= end ? start : nil)
            if let violation = await self.signatureCheck.violation(question) { report.violations.append(violation) }
        }
        return policy.orderType(of: anatomy)
    }

    /// Judges a package at the present time, and checks its signature with the `openssl` program.
    static func byOpenSSL(_ package: [UInt8], roots: [UInt8]) async -> PackageReport {
        do {
            return try await PackageVerifier(rootsPEM: roots, signatureCheck: .openssl).verify(
                package, nowEpochSeconds: Int64(Date().timeIntervalSince1970))
        } catch {
            return PackageReport(violations: [PackageViolation(.signatureNotChecked, "signature", error.message)])
        }
    }
}
