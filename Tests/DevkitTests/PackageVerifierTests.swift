import Cryptography
import Model
import TestKit
import Testing

@testable import Devkit

@Suite(.timeLimit(.minutes(2)))
struct PackageVerifierTests {
    static let checks = [PackageVerifier.SignatureCheck.cryptography, .openssl]
    let stage: PackageStage

    init() throws { self.stage = try PackageStage.shared.get() }

    @Test(arguments: checks)
    func aPackageOfTheBuilderPasses(_ check: PackageVerifier.SignatureCheck) async throws {
        #expect(try await self.stage.violations(package: self.stage.package, check: check) == [])
        #expect(self.stage.files.map(\.name).starts(with: ["order.json", "manifest.json", "signature"]))
        #expect(self.stage.files.count > 3)
    }

    @Test func theReportSaysWhatIsInThePackage() async throws {
        let verifier = try PackageVerifier(rootsPEM: self.stage.pem["root"] ?? [])
        let report = await verifier.verify(self.stage.package, nowEpochSeconds: self.stage.nowEpochSeconds)
        #expect(report.signingEpochSeconds == self.stage.nowEpochSeconds)
        #expect(report.updatedAtEpochSeconds == 1_800_000_000)
        #expect(report.files.map(\.name) == self.stage.files.map(\.name))
        #expect(report.summary.contains("updated 2027-01-15T08:00:00Z"))
    }

    /// What the other tests spoil is good before: packed by Python, signed anew, by us and by `openssl`.
    @Test(arguments: checks)
    func whatIsPackedAnewWithoutAChangePasses(_ check: PackageVerifier.SignatureCheck) async throws {
        let stage = self.stage
        #expect(try await stage.violations(stage.files, check: check) == [])
        #expect(try await stage.violations(stage.changedOrder { _ in }, check: check) == [])
        let signed = try stage.signedByOpenSSL(Self.signer)
        #expect(try await stage.violations(signed, check: check) == [])
    }

    // MARK: files and manifest

    @Test func aChangedOrderIsNoticed() async throws {
        let content = self.stage.content("order.json") + [UInt8(ascii: " ")]
        let found = try await self.stage.violations(
            self.stage.changed("order.json", content, manifest: false, sign: false))
        #expect(found == ["The SHA-256 of \"order.json\" is not the one in manifest.json."])
    }

    @Test func anExtraFileIsNoticed() async throws {
        let found = try await self.stage.violations(self.stage.changed("extra.txt", [1], manifest: false, sign: false))
        #expect(found == ["The file \"extra.txt\" does not stand in manifest.json."])
    }

    @Test(arguments: [".DS_Store", "__MACOSX/a.png", "en.lproj/.hidden"])
    func whatFinderLeavesBehindIsNoticedEvenInTheManifest(_ name: String) async throws {
        let found = try await self.stage.violations(self.stage.changed(name, [1]))
        #expect(found == ["The file \"\(name)\" does not belong into a package."])
    }

    @Test func aFileMissingFromTheManifestIsNoticed() async throws {
        let found = try await self.stage.violations(self.changedManifest { $0["logo.png"] = nil })
        #expect(found == ["The file \"logo.png\" does not stand in manifest.json."])
    }

    @Test func aWrongDigestIsNoticed() async throws {
        let wrong = JSON.string(String(repeating: "0", count: 64))
        let found = try await self.stage.violations(self.changedManifest { $0["logo.png"] = wrong })
        #expect(found == ["The SHA-256 of \"logo.png\" is not the one in manifest.json."])
        let upper = SHA256.hex(self.stage.content("logo.png")).uppercased()
        #expect(try await self.stage.violations(self.changedManifest { $0["logo.png"] = .string(upper) }).count == 1)
    }

    @Test(arguments: ["ghost.png", "manifest.json", "signature"])
    func aNameInTheManifestThatMustNotBeThereIsNoticed(_ name: String) async throws {
        let found = try await self.stage.violations(self.changedManifest { $0[name] = "00" })
        #expect(found == ["manifest.json names \"\(name)\", which must not be or is not there."])
    }

    @Test(arguments: [
        ("[]", "manifest.json is not a JSON object."), ("{", "manifest.json cannot be read"),
        (#"{"order.json":1}"#, "manifest.json gives a number for \"order.json\"."),
    ])
    func aManifestThatIsNoneIsNoticed(_ text: String, _ sentence: String) async throws {
        let files = try self.stage.changed("manifest.json", Array(text.utf8), manifest: false)
        #expect(try await self.stage.violations(files).first?.hasPrefix(sentence) == true)
    }

    @Test(arguments: ["order.json", "manifest.json", "signature"])
    func aMissingPartIsNoticed(_ name: String) async throws {
        let found = try await self.stage.violations(self.stage.changed(name, nil))
        #expect(found.contains { $0.hasPrefix("The package has no \(name)") }, "\(found)")
    }

    // MARK: order.json

    @Test(arguments: [
        ("status", nil, "order.json has no status."), ("schemaVersion", 3, "order.json's schemaVersion is neither 1 nor 2."),
        ("orderTypeIdentifier", "order.com.example.other", "orderTypeIdentifier is not the certificate's"),
        ("webServiceURL", "http://wallet.example.com", "webServiceURL does not start with https://."),
        ("authenticationToken", "short", "authenticationToken is missing or shorter than 16 characters."),
        ("updatedAt", "2001-01-01T00:00:00Z", "updatedAt is before createdAt."),
        ("updatedAt", "yesterday", "createdAt or updatedAt is not an RFC 3339 date-time."),
        ("merchant", ["logo": "missing.png"], "order.json names the file \"missing.png\", which is not in the package."),
    ] as [(String, JSON?, String)])
    func aWrongMemberIsNamed(_ name: String, _ value: JSON?, _ sentence: String) async throws {
        let found = try await self.stage.violations(self.stage.changedOrder { $0[name] = value })
        #expect(found.count == 1 && found[0].contains(sentence), "\(found)")
    }

    @Test(arguments: [("{", "order.json cannot be read"), ("[]", "order.json is not a JSON object.")])
    func anOrderThatIsNoneIsNoticed(_ text: String, _ sentence: String) async throws {
        let found = try await self.stage.violations(self.stage.changed("order.json", Array(text.utf8)))
        #expect(found.count == 1 && found[0].hasPrefix(sentence), "\(found)")
    }

    // MARK: the archive

    @Test func aCutArchiveIsNoticed() async throws {
        let found = try await self.stage.violations(package: self.stage.package.dropLast(10))
        #expect(found.first?.contains("no end of central directory") == true)
        #expect(found.last == "The package has no manifest.json.")
    }

    @Test func aCommentAndExtraDataAreNoticed() async throws {
        let commented = try PythonZip.archive(self.stage.files, comment: "made by hand")
        #expect(try await self.stage.violations(package: commented) == ["The archive carries a comment."])
        let behind = try await self.stage.violations(package: self.stage.package + [0])
        #expect(behind.first?.contains("no end of central directory") == true)
        let before = try await self.stage.violations(package: [0] + self.stage.package)
        #expect(before.first?.contains("central directory does not end where") == true)
    }

    @Test func aPackageOfFiveMegabytesIsTooLarge() async throws {
        let found = try await self.stage.violations(
            self.stage.changed("large.pdf", [UInt8](repeating: 7, count: 5_000_000)))
        #expect(found.count == 1 && found[0].hasSuffix("it must be below 5 MB."), "\(found)")
    }

    private func changedManifest(
        _ change: (inout JSONObject) -> Void
    ) throws -> [(name: String, content: [UInt8])] {
        var manifest = try JSON(parsing: self.stage.content("manifest.json")).object ?? JSONObject()
        change(&manifest)
        return try self.stage.changed("manifest.json", JSON.object(manifest).serialized, manifest: false)
    }

    static let signer = ["-signer", "certificate.pem", "-inkey", "key.pem", "-certfile", "intermediate.pem"]
}
