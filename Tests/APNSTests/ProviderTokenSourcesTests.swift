import Testing

@testable import APNS

/// One key has one token, for all order types that use it. Source: Wallet Orders §4.4
@Suite struct ProviderTokenSourcesTests {
    private func source(
        of sources: ProviderTokenSources, _ key: KeyPath<Certificates, [UInt8]>, identifier: String = "KEY1234567",
        team: String = "TEAM123456"
    ) throws -> ProviderTokenSource {
        let certificates = try Certificates.shared.get()
        return try sources.source(
            privateKeyPEM: certificates[keyPath: key], keyIdentifier: identifier, teamIdentifier: team)
    }

    @Test func aKeyAlwaysGetsTheSameTokenSource() throws {
        let sources = ProviderTokenSources()
        let first = try self.source(of: sources, \.providerKey)
        #expect(try self.source(of: sources, \.providerKey) === first)
        #expect(try self.source(of: sources, \.providerKey).authorization() == first.authorization())
    }

    @Test func aKeyUsedAgainKeepsItsToken() throws {
        let sources = ProviderTokenSources()
        let before = try self.source(of: sources, \.providerKey).authorization()
        _ = try self.source(of: sources, \.strangeProviderKey).authorization()
        #expect(try self.source(of: sources, \.providerKey).authorization() == before)
    }

    @Test func eachKeyIdentifierAndTeamHasItsOwnTokenSource() throws {
        let sources = ProviderTokenSources()
        let first = try self.source(of: sources, \.providerKey)
        #expect(try self.source(of: sources, \.strangeProviderKey) !== first)
        #expect(try self.source(of: sources, \.providerKey, identifier: "KEY7654321") !== first)
        #expect(try self.source(of: sources, \.providerKey, team: "TEAM654321") !== first)
    }

    @Test func anInvalidKeyIsRefused() {
        #expect(throws: (any Error).self) {
            try ProviderTokenSources().source(
                privateKeyPEM: Array("no key".utf8), keyIdentifier: "KEY1234567", teamIdentifier: "TEAM123456")
        }
    }
}
