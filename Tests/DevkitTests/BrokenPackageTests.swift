import TestTraits
import Testing

@testable import Devkit

/// Packages with one defect are refused for that defect and for nothing else.
@Suite(.timeLimit(.minutes(5)))
struct BrokenPackageTests {
    let fixture: PackageFixture

    init() throws { self.fixture = try PackageFixture.shared.get() }

    @Test(arguments: BrokenPackage.archives + BrokenPackage.manifests)
    func aBrokenContainerOrManifestIsRefusedForItsReason(_ broken: BrokenPackage) async throws {
        try await self.judge(broken, by: .cryptography)
    }

    @Test(arguments: BrokenPackage.orders + BrokenPackage.languages)
    func aBrokenOrderOrLanguageIsRefusedForItsReason(_ broken: BrokenPackage) async throws {
        try await self.judge(broken, by: .cryptography)
    }

    /// Checked by our own cryptography and by openssl.
    @Test(.server, arguments: BrokenPackage.signatures, [SignatureCheck.cryptography, .openssl])
    func aBrokenSignatureIsRefusedForItsReason(_ broken: BrokenPackage, _ check: SignatureCheck) async throws {
        try await self.judge(broken, by: check)
    }

    private func judge(_ broken: BrokenPackage, by check: SignatureCheck) async throws {
        // The openssl program signs at its own time, which is later than that of the fixture.
        let found = try await self.fixture.violations(broken.package(self.fixture), check: check, later: 600)
        #expect(found.map(\.code.rawValue).sorted() == broken.codes.map(\.rawValue).sorted(), "\(found)")
        #expect(found.contains { $0.description.contains(broken.mention) }, "\(found)")
    }

    /// Without a change, the package is good, even though the tests' own archive writer made it and it is signed again.
    @Test(.server, arguments: [SignatureCheck.cryptography, .openssl], [BrokenPackage.Seal.all, .signature, .nothing])
    func withoutTheChangeAPackagePasses(_ check: SignatureCheck, _ seal: BrokenPackage.Seal) async throws {
        let whole = BrokenPackage("nothing", mention: "", seal: seal) { _, _ in }
        #expect(try await self.fixture.violations(whole.package(self.fixture), check: check, later: 600) == [])
    }

    @Test func eachCodeHasACaseOrIsTestedElsewhere() {
        let cases =
            BrokenPackage.archives + BrokenPackage.manifests + BrokenPackage.signatures + BrokenPackage.orders
            + BrokenPackage.languages
        let names = Dictionary(grouping: cases, by: \.name)
        #expect(names.filter { $0.value.count > 1 }.isEmpty)
        #expect(cases.count >= 100)
        // Covered by `ZipReaderTests` and `PackageSignatureTests`, or reported only if a program is missing.
        let elsewhere: Set<ViolationCode> = [
            .archiveTooManyEntries, .entryLost, .entryOverlap, .entryTooLarge, .signatureContentType,
            .signatureVersion, .signingTimeMissing, .rootUnknown, .signatureNotChecked,
        ]
        #expect(Set(cases.flatMap(\.codes)) == Set(ViolationCode.allCases).subtracting(elsewhere))
    }
}
