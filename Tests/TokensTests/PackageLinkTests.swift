import Model
import Testing
import Tokens

@Suite struct PackageLinkTests {
    static let now: Int64 = 1_767_268_800
    private let key = Result { try OrderKey("order.com.example.shop/A-17~x") }

    private func secrets(_ file: String = "sixteen bytes or more\n") throws -> TokenSecrets {
        try TokenSecrets(file: Array(file.utf8))
    }

    private func verdict(_ expires: Int64, _ signature: String? = nil, at now: Int64 = now) throws
        -> PackageLink.Verdict
    {
        let link = PackageLink(key: try self.key.get(), expiresEpochSeconds: expires)
        let secrets = try self.secrets()
        return link.verdict(signature: signature ?? link.signature(secrets), secrets: secrets, nowEpochSeconds: now)
    }

    @Test func aLinkIsValidUntilItExpires() throws {
        #expect(try self.verdict(Self.now + 1) == .valid)
        #expect(try self.verdict(Self.now) == .expired)
        #expect(try self.verdict(0) == .expired)
        #expect(try self.verdict(Self.now + PackageLink.longestSeconds) == .valid)
        #expect(try self.verdict(Self.now + PackageLink.longestSeconds + 1) == .tooFarAhead)
        for extreme in [Int64.min, .max] { #expect(try self.verdict(extreme) != .valid) }
        #expect(try self.verdict(.min, at: .min) == .expired)
    }

    @Test func aSignatureIsBoundToItsOrderAndExpiry() throws {
        let secrets = try self.secrets()
        let link = PackageLink(key: try self.key.get(), expiresEpochSeconds: Self.now + 60)
        let signature = link.signature(secrets)
        #expect(signature.utf8.count == 64)
        let others = [
            PackageLink(key: link.key, expiresEpochSeconds: Self.now + 61),
            PackageLink(key: try OrderKey("order.com.example.shop/A-17~y"), expiresEpochSeconds: Self.now + 60),
        ]
        for other in others {
            #expect(other.verdict(signature: signature, secrets: secrets, nowEpochSeconds: Self.now) == .forged)
        }
        for forged in [
            "", "0", String(signature.dropLast()), signature + "0", signature.uppercased(), "é\(signature.dropFirst())",
        ] {
            #expect(link.verdict(signature: forged, secrets: secrets, nowEpochSeconds: Self.now) == .forged)
        }
    }

    @Test func anExpiredLinkWithAForgedSignatureIsReportedAsForged() throws {
        #expect(try self.verdict(Self.now - 1, String(repeating: "0", count: 64)) == .forged)
    }

    @Test func theFirstSecretSignsAndEverySecretVerifies() throws {
        let old = try self.secrets("the old secret of the shop")
        let new = try self.secrets("the new secret of the shop\nthe old secret of the shop\n")
        let link = PackageLink(key: try self.key.get(), expiresEpochSeconds: Self.now + 60)
        #expect(link.signature(new) != link.signature(old))
        #expect(link.verdict(signature: link.signature(old), secrets: new, nowEpochSeconds: Self.now) == .valid)
        #expect(link.verdict(signature: link.signature(new), secrets: new, nowEpochSeconds: Self.now) == .valid)
        #expect(link.verdict(signature: link.signature(new), secrets: old, nowEpochSeconds: Self.now) == .forged)
    }

    @Test func aLinkSignatureIsNotAnOrderToken() throws {
        let secrets = try self.secrets()
        let link = PackageLink(key: try self.key.get(), expiresEpochSeconds: Self.now + 60)
        let signature = link.signature(secrets)
        #expect(!secrets.isToken(signature, of: link.key))
        #expect(!secrets.isToken(String(signature.prefix(32)), of: link.key))
        #expect(throws: IdentifierError.self) { try OrderKey("link:order.com.example.shop/A-17~x:\(Self.now + 60)") }
    }
}
