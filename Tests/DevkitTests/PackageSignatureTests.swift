import Cryptography
import Model
import TestTraits
import Testing

@testable import Devkit

/// Signatures and certificates beyond the cases of `BrokenPackage`.
@Suite(.timeLimit(.minutes(2)))
struct PackageSignatureTests {
    let fixture: PackageFixture

    init() throws { self.fixture = try PackageFixture.shared.get() }

    /// Returns the violations that another signature causes, and expects the same ones from our check and from openssl.
    private func codes(
        _ signature: [UInt8], roots: [UInt8]? = nil, later: Int64 = 0
    ) async throws -> [ViolationCode] {
        var draft = PackageDraft(files: self.fixture.files)
        draft["signature"] = signature
        let package = ArchiveDraft(draft.files).bytes
        let byUs = try await self.fixture.violations(package, roots: roots, later: later).map(\.code)
        let byProgram = try await self.fixture.violations(package, check: .openssl, roots: roots, later: later).map(
            \.code)
        #expect(byUs == byProgram)
        return byUs
    }

    @Test(.server) func aPackageIsInvalidOutsideItsCertificatesValidity() async throws {
        let year: Int64 = 365 * 86_400
        let signature = self.fixture.content("signature")
        // Far from the end: how long ago the certificate was made is unknown.
        #expect(try await self.codes(signature, later: year - 7200) == [])
        #expect(try await self.codes(signature, later: year + 120) == [.certificateExpired])
        // Intermediate and root are valid for ten years.
        #expect(
            try await self.codes(signature, later: 11 * year) == [
                .certificateExpired, .certificateExpired, .certificateExpired,
            ])
        let early = try await self.codes(signature, later: -30 * 86_400)
        #expect(
            early == [.signingTimeFuture, .certificateNotYetValid, .certificateNotYetValid, .certificateNotYetValid])
    }

    @Test(.server) func aClockThatIsHalfAMinuteFastIsForgiven() async throws {
        let signature = try self.fixture.identity(self.fixture.pem).sign(
            self.fixture.content("manifest.json"), signingEpochSeconds: self.fixture.nowEpochSeconds + 30)
        #expect(try await self.codes(signature) == [])
    }

    @Test(.server) func anotherRootOfTheSameNameIsNoticed() async throws {
        let found = try await self.codes(self.fixture.content("signature"), roots: self.fixture.strangerPEM["root"])
        #expect(found == [.chainUntrusted])
    }

    @Test(.server) func theIntermediateIsNoRoot() async throws {
        let found = try await self.codes(self.fixture.content("signature"), roots: self.fixture.pem["intermediate"])
        #expect(found == [.rootUnknown])
    }

    @Test(.server) func oneOfSeveralRootsIsEnough() async throws {
        let roots = (self.fixture.strangerPEM["intermediate"] ?? []) + [10] + (self.fixture.pem["root"] ?? [])
        #expect(try await self.codes(self.fixture.content("signature"), roots: roots) == [])
    }

    @Test(.server) func anIncludedRootIsNoViolation() async throws {
        let signature = try self.fixture.signatureByOpenSSL(BrokenPackage.signer + ["-certfile", "root.pem"])
        #expect(try await self.codes(signature) == [])
    }

    @Test(.server) func anIntermediateMayNotSignAPackage() async throws {
        let signature = try self.fixture.signatureByOpenSSL(
            ["-signer", "intermediate.pem", "-inkey", "intermediate-key.pem", "-certfile", "root.pem"])
        #expect(try await self.codes(signature) == [.orderTypeMarker, .orderSigningPurpose, .chainLength])
    }

    @Test(
        arguments: [[0x30], [0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF], Array("signature".utf8), [0x30, 0x80, 0, 0]]
            as [[UInt8]])
    func bytesThatAreNoSignatureAreNoticed(_ bytes: [UInt8]) async throws {
        #expect(try await self.codes(bytes) == [.signatureUnreadable])
    }

    @Test func aLengthThatIsNotTheShortestIsNotDER() {
        #expect(throws: ToolError.self) { try DER([0x04, 0x81, 0x01, 0x00]) }
        #expect(throws: ToolError.self) { try DER([0x04, 0x82, 0x00, 0x80] + [UInt8](repeating: 0, count: 128)) }
        #expect(throws: Never.self) { try DER([0x04, 0x81, 0x80] + [UInt8](repeating: 0, count: 128)) }
    }

    @Test(.server) func aVersionThatDoesNotFitIsNoticed() async throws {
        // A signer named by its key identifier has version 3 and is accepted.
        #expect(try await self.codes(self.fixture.signatureByOpenSSL(BrokenPackage.signer + ["-keyid"])) == [])
        var signature = self.fixture.content("signature")
        // SignedData's version follows four headers and the type's eleven bytes.
        let place = try #require(
            signature.indices.dropFirst(15).first { signature[$0 - 2...$0].elementsEqual([2, 1, 1]) })
        signature[place] = 5
        #expect(try await self.codes(signature) == [.signatureVersion])
    }

    /// The attribute's type is changed, so that the time is present but not recognized.
    @Test(.server) func aMissingSigningTimeIsReported() async throws {
        var signature = self.fixture.content("signature")
        let type: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x09, 0x05]
        let place = try #require(signature.indices.dropLast(8).last { signature[$0..<$0 + 9].elementsEqual(type) })
        signature[place + 8] = 0x0D
        // The change is inside the signed bytes, so the signature is wrong too.
        #expect(try await self.codes(signature) == [.signingTimeMissing, .signatureWrong])
    }

    @Test(.server) func anotherContentTypeIsNoticed() async throws {
        let signature = try self.fixture.signatureByOpenSSL(BrokenPackage.signer + ["-econtent_type", "1.2.3.4"])
        #expect(try await self.codes(signature).contains(.signatureContentType))
    }

    @Test func noChangedByteOfASignatureTrapsOrPasses() async throws {
        let signature = self.fixture.content("signature")
        let manifest = self.fixture.content("manifest.json")
        let policy = CertificatePolicy(
            roots: try CertificateAnatomy.certificates(pem: self.fixture.pem["root"] ?? []),
            nowEpochSeconds: self.fixture.nowEpochSeconds)
        for index in signature.indices {
            for value in [[0, 0x80, 0xFF][index % 3], signature[index] ^ 1] where value != signature[index] {
                var changed = signature
                changed[index] = value
                let anatomy = try? SignatureAnatomy(changed)
                let found = anatomy.map {
                    policy.formViolations($0, manifestDigest: SHA256.digest(manifest)) + policy.chainViolations($0)
                }
                _ = anatomy.flatMap { policy.orderType(of: $0) }
                guard found?.isEmpty == true, value == signature[index] ^ 1 else { continue }
                #expect(throws: CryptographyError.self, "byte \(index): \(value)") {
                    try CMS.verify(signature: changed, content: manifest, rootsPEM: self.fixture.pem["root"] ?? [])
                }
            }
        }
    }
}
