import Cryptography
import Foundation
import Model

/// Checks an order package as Wallet would, apart from the code that builds packages.
///
/// Archive, manifest, certificate policy and order members are read by the tools' own readers; the signature is checked
/// by Shared/Cryptography or by the `openssl` program. Source: Wallet Orders §2
struct PackageVerifier: Sendable {
    /// Who does the arithmetic of the signature.
    enum SignatureCheck: Sendable { case cryptography, openssl }

    /// Packages must be below 5 MB. Source: Wallet Orders §2.1
    static let sizeLimit = 5_000_000
    /// How far the signer's clock may be ahead of ours.
    static let clockSkewSeconds: Int64 = 60

    let rootsPEM: [UInt8]
    let signatureCheck: SignatureCheck
    private let roots: [CertificateAnatomy]

    /// - Parameter rootsPEM: the root that stands for Apple's, in PEM.
    init(rootsPEM: [UInt8], signatureCheck: SignatureCheck = .cryptography) throws(ToolError) {
        self.rootsPEM = rootsPEM
        self.signatureCheck = signatureCheck
        self.roots = try CertificateAnatomy.certificates(pem: rootsPEM)
        guard !self.roots.isEmpty else { throw ToolError(.input, "reading the roots: no certificate in the file") }
    }

    /// Looks at everything; one violation does not hide the next where that is possible.
    /// - Parameter nowEpochSeconds: what the signing time and the validity of the certificates are compared with.
    func verify(_ package: [UInt8], nowEpochSeconds: Int64) async -> PackageReport {
        var report = PackageReport()
        if package.count >= Self.sizeLimit {
            report.violations.append("The package has \(package.count) bytes; it must be below 5 MB.")
        }
        let archive = ZipReader(package)
        report.violations += archive.violations
        report.files = archive.entries.map { ($0.name, $0.content.count) }
        let files = Dictionary(archive.entries.map { ($0.name, $0.content) }) { first, _ in first }
        for entry in archive.entries where Self.isStray(entry.name) {
            report.violations.append("The file \(quoted(entry.name)) does not belong into a package.")
        }
        let manifest = Self.checkManifest(files, &report)
        if let manifest, let signature = files["signature"] {
            await self.checkSignature(signature, of: manifest, files: files, nowEpochSeconds, &report)
        } else if manifest != nil {
            report.violations.append("The package has no signature.")
        }
        return report
    }

    /// Hidden files and what Finder leaves behind. Source: Wallet Orders §2.1
    private static func isStray(_ name: String) -> Bool {
        name.split(separator: "/").contains { $0.hasPrefix(".") || $0 == "__MACOSX" }
    }

    /// - Returns: the bytes of the manifest if it is there.
    private static func checkManifest(_ files: [String: [UInt8]], _ report: inout PackageReport) -> [UInt8]? {
        guard let bytes = files["manifest.json"] else {
            report.violations.append("The package has no manifest.json.")
            return nil
        }
        let members: JSONObject
        do {
            guard let object = try JSON(parsing: bytes).object else {
                report.violations.append("manifest.json is not a JSON object.")
                return bytes
            }
            members = object
        } catch {
            report.violations.append("manifest.json cannot be read: \(error).")
            return bytes
        }
        for member in members.members {
            guard let content = files[member.name], !["manifest.json", "signature"].contains(member.name) else {
                report.violations.append("manifest.json names \(quoted(member.name)), which must not be or is not there.")
                continue
            }
            guard let digest = member.value.string else {
                report.violations.append("manifest.json gives \(member.value.kind) for \(quoted(member.name)).")
                continue
            }
            if digest != SHA256.hex(content) {
                report.violations.append("The SHA-256 of \(quoted(member.name)) is not the one in manifest.json.")
            }
        }
        for name in files.keys.sorted() where members[name] == nil && name != "manifest.json" && name != "signature" {
            report.violations.append("The file \(quoted(name)) does not stand in manifest.json.")
        }
        return bytes
    }

    private func checkSignature(
        _ signature: [UInt8], of manifest: [UInt8], files: [String: [UInt8]], _ now: Int64,
        _ report: inout PackageReport
    ) async {
        var orderType: String?
        do {
            let anatomy = try SignatureAnatomy(signature)
            let policy = CertificatePolicy(roots: self.roots, nowEpochSeconds: now)
            report.violations += policy.violations(in: anatomy, manifestDigest: SHA256.digest(manifest))
            report.signingEpochSeconds = anatomy.signingTime
            orderType = policy.orderType(of: anatomy)
        } catch {
            report.violations.append("The signature cannot be read: \(error.message).")
        }
        if let reason = await self.refusal(of: signature, content: manifest) {
            report.violations.append("The signature does not verify: \(reason)")
        }
        guard let bytes = files["order.json"] else {
            report.violations.append("The package has no order.json.")
            return
        }
        do {
            let order = try JSON(parsing: bytes)
            report.order = order
            report.violations += OrderMembers.violations(in: order, certificateOrderType: orderType, files: Set(files.keys))
        } catch {
            report.violations.append("order.json cannot be read: \(error).")
        }
    }

    /// - Returns: why the signature is refused, nil when it is right.
    private func refusal(of signature: [UInt8], content: [UInt8]) async -> String? {
        switch self.signatureCheck {
        case .cryptography:
            do {
                _ = try CMS.verify(signature: signature, content: content, rootsPEM: self.rootsPEM)
                return nil
            } catch {
                return "\(error)"
            }
        case .openssl: return await SignatureByOpenSSL.refusal(of: signature, content: content, rootsPEM: self.rootsPEM)
        }
    }
}

/// The `openssl` program as a second opinion on a signature.
enum SignatureByOpenSSL {
    /// Source: the command of Wallet Orders §2.4
    /// - Returns: what the program said when it refused, nil when it accepted.
    static func refusal(of signature: [UInt8], content: [UInt8], rootsPEM: [UInt8]) async -> String? {
        do {
            return try await RunProgram.withScratchDirectory { directory in
                let path = { (name: String) in directory.appendingPathComponent(name).path }
                try Data(signature).write(to: URL(fileURLWithPath: path("signature")))
                try Data(content).write(to: URL(fileURLWithPath: path("manifest.json")))
                try Data(rootsPEM).write(to: URL(fileURLWithPath: path("roots.pem")))
                let outcome = try await RunProgram.run([
                    "openssl", "cms", "-verify", "-inform", "DER", "-in", path("signature"), "-content",
                    path("manifest.json"), "-binary", "-CAfile", path("roots.pem"), "-purpose", "any", "-out",
                    "/dev/null",
                ])
                return outcome.status == 0 ? nil : "openssl says \(quoted(outcome.output))"
            }
        } catch {
            return "\(error)"
        }
    }
}
