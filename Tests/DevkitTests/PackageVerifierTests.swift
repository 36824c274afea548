import Cryptography
import Model
import TestKit
import TestTraits
import Testing

@testable import Devkit

@Suite(.timeLimit(.minutes(2)))
struct PackageVerifierTests {
    static let checks = [SignatureCheck.cryptography, .openssl]
    let fixture: PackageFixture

    init() throws { self.fixture = try PackageFixture.shared.get() }

    @Test(.server, arguments: checks)
    func thePackagesOfTheBuilderPass(_ check: SignatureCheck) async throws {
        #expect(self.fixture.examples.count == 5)
        for (name, package) in self.fixture.examples + [("replayed", self.fixture.replayed)] {
            #expect(try await self.fixture.violations(package, check: check) == [], "\(name)")
        }
    }

    @Test(.server, arguments: checks)
    func aPackageInTwoLanguagesAndTwoResolutionsPasses(_ check: SignatureCheck) async throws {
        #expect(try await self.fixture.violations(self.fixture.package, check: check) == [])
        let names = self.fixture.files.map(\.name)
        #expect(names.suffix(3) == ["order.json", "manifest.json", "signature"])
        let special = ["de.lproj/order.strings", "en.lproj/plum.png", "logo@2x.png", "return-label.pdf"]
        #expect(Set(special).isSubset(of: names))
    }

    @Test func theReportSaysWhatIsInThePackage() async throws {
        let verifier = try PackageVerifier(rootsPEM: self.fixture.pem["root"] ?? [])
        let report = await verifier.verify(self.fixture.package, nowEpochSeconds: self.fixture.nowEpochSeconds)
        #expect(report.signingEpochSeconds == self.fixture.nowEpochSeconds)
        #expect(report.updatedAtEpochSeconds == 1_800_000_000)
        #expect(report.files.map(\.name) == self.fixture.files.map(\.name))
        #expect(report.summary.contains("updated 2027-01-15T08:00:00Z"))
        let json = report.json(file: "a.order").object
        #expect(json?["valid"] == true)
        #expect(json?["violations"] == [])
        #expect(json?["file"] == "a.order")
        #expect(json?["orderIdentifier"] == "SF-2025-00077")
        #expect(json?["files"]?.array?.count == self.fixture.files.count)
    }

    @Test func theJSONReportHasCodePlaceAndMessage() async throws {
        let verifier = try PackageVerifier(rootsPEM: self.fixture.pem["root"] ?? [])
        let report = await verifier.verify(Array("<html>".utf8), nowEpochSeconds: 0)
        let json = report.json(file: "a").object
        #expect(json?["valid"] == false)
        #expect(
            json?["violations"] == [
                ["code": "archive-unreadable", "place": "archive", "message": "It is too short to be a ZIP."]
            ])
        #expect(report.violations.map(\.description) == ["archive-unreadable: archive: It is too short to be a ZIP."])
    }

    /// The package is signed and archived by third-party programs.
    @Test(.server, arguments: checks)
    func aPackageByPythonAndOpenSSLPasses(_ check: SignatureCheck) async throws {
        var draft = PackageDraft(files: self.fixture.files)
        draft["signature"] = try self.fixture.signatureByOpenSSL(BrokenPackage.signer)
        let package = try PythonZip.archive(draft.files, compressing: ["order.json"])
        // The program signs at its own time, which is later than that of the fixture.
        #expect(try await self.fixture.violations(package, check: check, later: 600) == [])
    }

    @Test func severalViolationsAreReportedTogether() async throws {
        var draft = PackageDraft(files: self.fixture.files)
        draft["extra.pdf"] = SampleFile.pdf(text: "extra")
        try draft.order("status", "done")
        try draft.order("merchant.url", nil)
        draft["de.lproj/order.strings"] = nil
        let found = try await self.fixture.violations(ArchiveDraft(draft.files).bytes)
        #expect(
            Set(found.map(\.code)) == [
                .manifestFileUnlisted, .manifestFileMissing, .manifestDigestWrong, .orderValue, .orderMemberMissing,
                .localizationStringsMissing,
            ])
    }

    /// A reader of Wallet Passes writes image names without their suffix. Source: Wallet Orders §2.6
    @Test func aPictureMayBeNamedWithoutItsSuffix() async throws {
        var draft = PackageDraft(files: self.fixture.files)
        try draft.order("merchant.logo", "logo")
        try draft.order("lineItems.0.image", "trail5")
        draft.remakeManifest()
        try draft.sign(self.fixture)
        #expect(try await self.fixture.violations(ArchiveDraft(draft.files).bytes) == [])
    }

    @Test func contentThatWalletIgnoresIsNoViolation() async throws {
        var draft = PackageDraft(files: self.fixture.files)
        try draft.order("unheardOf", ["of": 1])
        try draft.order("payment.summaryItems", [])
        try draft.order("createdAt", "2025-01-08T19:30:05.25+01:00")
        draft.remakeManifest()
        try draft.sign(self.fixture)
        var archive = ArchiveDraft(draft.files)
        archive.entries.append(.init("de.lproj/", []))
        #expect(try await self.fixture.violations(archive.bytes) == [])
    }

    @Test func textFromThePackageCannotWriteToTheTerminal() async throws {
        var draft = PackageDraft(files: self.fixture.files)
        try draft.order("status", .string("\u{1B}[31m\n" + String(repeating: "x", count: 200)))
        draft["\u{1B}[2J.png"] = SampleFile.png(seed: 1)
        draft.remakeManifest()
        try draft.sign(self.fixture)
        let found = try await self.fixture.violations(ArchiveDraft(draft.files).bytes).map(\.description)
        #expect(found.count == 2)
        #expect(!found.contains { $0.unicodeScalars.contains { $0.value < 0x20 } || $0.count > 300 }, "\(found)")
    }

    /// A changed byte never causes a trap, and never lets a package with other content pass.
    @Test func aChangedPackageByteNeverTrapsOrAltersTheContent() async throws {
        let package = self.fixture.examples[3].package
        let verifier = try PackageVerifier(rootsPEM: self.fixture.pem["root"] ?? [])
        for index in stride(from: 0, to: package.count, by: 7) {
            var changed = package
            changed[index] ^= UInt8(truncatingIfNeeded: 1 << (index % 8))
            let report = await verifier.verify(changed, nowEpochSeconds: self.fixture.nowEpochSeconds)
            guard report.violations.isEmpty else { continue }
            // Accepted changes affect only times, versions and attributes of the entries, not their content.
            let entries = ZipReader(changed).entries
            #expect(entries.map(\.content) == ZipReader(package).entries.map(\.content), "byte \(index)")
        }
    }
}
