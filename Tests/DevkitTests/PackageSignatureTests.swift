import Cryptography
import Model
import TestKit
import Testing

@testable import Devkit

/// Signatures that Wallet refuses, each with the sentence that says why, whoever does the arithmetic.
@Suite(.timeLimit(.minutes(2)))
struct PackageSignatureTests {
    static let signer = PackageVerifierTests.signer
    let stage: PackageStage

    init() throws { self.stage = try PackageStage.shared.get() }

    private func expect(
        _ files: [(name: String, content: [UInt8])], _ sentences: String..., location: SourceLocation = #_sourceLocation
    ) async throws {
        for check in PackageVerifierTests.checks {
            let found = try await self.stage.violations(files, check: check)
            for sentence in sentences {
                #expect(found.contains { $0.contains(sentence) }, "\(found)", sourceLocation: location)
            }
        }
    }

    private func signed(
        _ content: [UInt8], _ pem: [String: [UInt8]]? = nil, later: Int64 = 0
    ) throws -> [(name: String, content: [UInt8])] {
        let signature = try self.stage.identity(pem ?? self.stage.pem).sign(
            content, signingEpochSeconds: self.stage.nowEpochSeconds + later)
        return try self.stage.changed("signature", signature, manifest: false, sign: false)
    }

    @Test func aSignatureOfOtherContentIsNoticed() async throws {
        try await self.expect(
            self.signed(Array("{}".utf8)), "not one of this manifest.json", "The signature does not verify")
    }

    @Test func aChangedSignatureIsNoticed() async throws {
        var signature = self.stage.content("signature")
        signature[signature.count - 1] ^= 1
        let files = try self.stage.changed("signature", signature, manifest: false, sign: false)
        for check in PackageVerifierTests.checks {
            let found = try await self.stage.violations(files, check: check)
            #expect(found.count == 1 && found[0].hasPrefix("The signature does not verify"), "\(found)")
        }
    }

    @Test func aCertificateForAnotherOrderTypeIsNoticed() async throws {
        let files = try self.signed(self.stage.content("manifest.json"), self.stage.strangerPEM)
        let package = try PythonZip.archive(files)
        for check in PackageVerifierTests.checks {
            let found = try await self.stage.violations(
                package: package, check: check, roots: self.stage.strangerPEM["root"])
            let sentence = "order.json's orderTypeIdentifier is not the certificate's, \"order.com.example.other\"."
            #expect(found == [sentence])
        }
    }

    @Test func anExpiredCertificateIsNoticed() async throws {
        let files = try self.signed(self.stage.content("manifest.json"), self.stage.expiredPEM)
        try await self.expect(files, "The signer's certificate is not valid now.")
    }

    @Test func aPackageOutlivesItsCertificateByNoSecond() async throws {
        let year: Int64 = 365 * 86_400
        #expect(try await self.stage.violations(package: self.stage.package, later: year - 60) == [])
        let found = try await self.stage.violations(package: self.stage.package, later: year + 60)
        #expect(found == ["The signer's certificate is not valid now."])
    }

    @Test func aSignatureWithoutSignedAttributesHasNoSigningTime() async throws {
        let files = try self.stage.signedByOpenSSL(Self.signer + ["-noattr"])
        try await self.expect(files, "The signature has no signing time.", "has no message digest")
    }

    @Test func aSigningTimeInTheFutureIsNoticed() async throws {
        let manifest = self.stage.content("manifest.json")
        try await self.expect(self.signed(manifest, later: 3600), "lies in the future")
        #expect(try await self.stage.violations(self.signed(manifest, later: 30)) == [])
    }

    @Test func aChainWithoutTheIntermediateIsNoticed() async throws {
        let files = try self.stage.signedByOpenSSL(["-signer", "certificate.pem", "-inkey", "key.pem"])
        try await self.expect(files, "The intermediate certificate that issued the signer's is not in the signature.")
    }

    @Test func aSignatureWithoutCertificatesIsNoticed() async throws {
        let files = try self.stage.signedByOpenSSL(Self.signer + ["-nocerts"])
        try await self.expect(files, "The signer's certificate is not in the signature.")
    }

    @Test func anotherRootIsNoticed() async throws {
        for check in PackageVerifierTests.checks {
            let found = try await self.stage.violations(
                package: self.stage.package, check: check, roots: self.stage.strangerPEM["root"])
            // Both roots have the same name, so only the arithmetic can tell.
            #expect(found.count == 1 && found[0].hasPrefix("The signature does not verify"), "\(found)")
        }
    }

    @Test func theIntermediateIsNoRoot() async throws {
        let found = try await self.stage.violations(
            package: self.stage.package, roots: self.stage.pem["intermediate"])
        #expect(found.contains { $0.contains("the intermediate was not issued by a given root") }, "\(found)")
    }

    @Test func aSignatureThatCarriesItsContentIsNoticed() async throws {
        try await self.expect(self.stage.signedByOpenSSL(Self.signer + ["-nodetach"]), "it must be detached")
    }

    @Test func anotherDigestIsNoticed() async throws {
        try await self.expect(
            self.stage.signedByOpenSSL(Self.signer + ["-md", "sha512"]), "instead of SHA-256",
            "message digest differs")
    }

    @Test func anotherAlgorithmIsNoticed() async throws {
        let pss = ["-keyopt", "rsa_padding_mode:pss"]
        try await self.expect(
            self.stage.signedByOpenSSL(["-signer", "certificate.pem", "-inkey", "key.pem"] + pss
                + ["-certfile", "intermediate.pem"]), "1.2.840.113549.1.1.10 instead of RSA")
    }

    @Test func twoSignersAreOneTooMany() async throws {
        let files = try self.stage.signedByOpenSSL(
            Self.signer + ["-signer", "root.pem", "-inkey", "root-key.pem"])
        try await self.expect(files, "has 2 signers instead of one")
    }

    @Test func aCertificateThatIsNotForOrdersIsNoticed() async throws {
        let files = try self.stage.signedByOpenSSL(
            ["-signer", "intermediate.pem", "-inkey", "intermediate-key.pem", "-certfile", "root.pem"])
        try await self.expect(
            files, "has no order type (extension", "is not for order bundles (purpose", "lacks the marker")
    }

    @Test(arguments: [[], [0x30], [0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF], Array("signature".utf8)] as [[UInt8]])
    func bytesThatAreNoSignatureAreNoticed(_ bytes: [UInt8]) async throws {
        let files = try self.stage.changed("signature", bytes, manifest: false, sign: false)
        try await self.expect(files, "The signature cannot be read")
    }

    @Test func aVersionThatDoesNotFitIsNoticed() async throws {
        // The signer named by its key identifier is version 3 and fine.
        #expect(try await self.stage.violations(self.stage.signedByOpenSSL(Self.signer + ["-keyid"])) == [])
        var signature = self.stage.content("signature")
        // SignedData's version stands behind four headers and the type's eleven bytes.
        let place = try #require(signature.indices.dropFirst(15).first { signature[$0 - 2...$0].elementsEqual([2, 1, 1]) })
        signature[place] = 5
        try await self.expect(
            self.stage.changed("signature", signature, manifest: false, sign: false), "not the one of its form")
    }

    @Test func noChangedByteOfASignatureTrapsOrPasses() async throws {
        let signature = self.stage.content("signature")
        let manifest = self.stage.content("manifest.json")
        let policy = CertificatePolicy(
            roots: try CertificateAnatomy.certificates(pem: self.stage.pem["root"] ?? []),
            nowEpochSeconds: self.stage.nowEpochSeconds)
        for index in signature.indices {
            for value in [0, 0x80, 0xFF, signature[index] ^ 1] where value != signature[index] {
                var changed = signature
                changed[index] = value
                let anatomy = try? SignatureAnatomy(changed)
                let found = anatomy.map { policy.violations(in: $0, manifestDigest: SHA256.digest(manifest)) }
                _ = anatomy.flatMap { policy.orderType(of: $0) }
                guard found?.isEmpty == true, value == signature[index] ^ 1 else { continue }
                #expect(throws: CryptographyError.self, "byte \(index): \(value)") {
                    try CMS.verify(
                        signature: changed, content: manifest, rootsPEM: self.stage.pem["root"] ?? [])
                }
            }
        }
    }
}
