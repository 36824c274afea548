import Brands
import Foundation
import Model
import TestKit
import Testing
import Tokens

/// The secrets that brands share, and those of single brands.
@Suite struct TokenAuthorityTests {
    private static let shared = "the secret that all brands share\n"
    private let orderType = "order.com.example.shop"

    private func with(
        _ body: (_ directory: TemporaryDirectory, BrandLibrary, TokenAuthority, OrderKey) throws -> Void
    ) throws {
        let directory = try TemporaryDirectory("tokens")
        try BrandFolder.with { folder in
            let brands = directory.path("brands")
            try FileManager.default.createDirectory(atPath: brands, withIntermediateDirectories: true)
            try FileManager.default.copyItem(atPath: folder.path, toPath: brands + "/shop")
            let library = try BrandLibrary(directory: brands, webServiceURL: BrandFolder.webServiceURL)
            let tokens = try TokenAuthority(
                path: try directory.write("secrets", Self.shared), content: Array(Self.shared.utf8), brands: library)
            try body(directory, library, tokens, try OrderKey("\(self.orderType)/17"))
        }
    }

    private func minted(_ secret: String, _ key: OrderKey) throws -> AuthenticationToken {
        try TokenSecrets(file: Array(secret.utf8)).token(for: key)
    }

    private func configure(_ directory: TemporaryDirectory, secrets: String?) throws {
        var object = BrandFolder.configuration(self.orderType).object ?? JSONObject()
        object["tokenSecrets"] = secrets.map { _ in "token-secrets" }
        try directory.write("brands/shop/brand.json", JSON.object(object).text)
        if let secrets { try directory.write("brands/shop/token-secrets", secrets) }
    }

    private func look(_ library: BrandLibrary) -> [BrandEvent] {
        library.look(isForced: true, nowEpochSeconds: Int64(Date().timeIntervalSince1970))
    }

    @Test func tokensOfAllPresentSecretsAreInterchangeable() throws {
        let key = try OrderKey("\(self.orderType)/17")
        let secrets = ["the new secret of all brands", "the old secret of all brands"]
        let tokens = TokenAuthority(try TokenSecrets(file: Array(secrets.joined(separator: "\n").utf8)))
        let (new, old) = (try self.minted(secrets[0], key), try self.minted(secrets[1], key))
        #expect(tokens.token(for: key) == new)
        #expect(tokens.opens(new.rawValue, key, stored: old))
        #expect(tokens.opens(old.rawValue, key, stored: new))
        let own = try AuthenticationToken("the-token-that-it-brought")
        #expect(tokens.opens(own.rawValue, key, stored: own))
        #expect(!tokens.opens(new.rawValue, key, stored: own))
        #expect(!tokens.opens(own.rawValue, key, stored: new))
        // The token of a withdrawn secret opens packages made under that secret, and no others.
        let after = TokenAuthority(try TokenSecrets(file: Array(secrets[0].utf8)))
        #expect(after.opens(old.rawValue, key, stored: old))
        #expect(!after.opens(old.rawValue, key, stored: new))
    }

    @Test func aBrandWithItsOwnSecretsRefusesSharedTokens() throws {
        try self.with { directory, library, tokens, key in
            let shared = try self.minted(Self.shared, key)
            #expect(tokens.token(for: key) == shared)
            try self.configure(directory, secrets: "the secret of this shop alone\n")
            #expect(self.look(library) == [.changed(key.orderType)])
            let own = try self.minted("the secret of this shop alone", key)
            #expect(tokens.token(for: key) == own)
            #expect(tokens.isToken(own.rawValue, of: key))
            #expect(!tokens.isToken(shared.rawValue, of: key))
            #expect(tokens.opens(shared.rawValue, key, stored: shared), "packaged before")
            #expect(!tokens.opens(shared.rawValue, key, stored: own))
            let other = try OrderKey("order.com.example.other/17")
            #expect(tokens.token(for: other) == (try self.minted(Self.shared, other)))
            // Both secrets are valid for a while, the shared one as the second line.
            try self.configure(directory, secrets: "the secret of this shop alone\n" + Self.shared)
            #expect(self.look(library) == [.changed(key.orderType)])
            #expect(tokens.token(for: key) == own)
            #expect(tokens.opens(shared.rawValue, key, stored: own))
        }
    }

    @Test func aBrokenBrandNeverFallsBackToSharedSecrets() throws {
        try self.with { directory, _, _, key in
            try self.configure(directory, secrets: "the secret of this shop alone\n")
            try directory.write("brands/shop/certificate.pem", "nonsense")
            // Another brand, so that at least one loads.
            let other = "order.com.example.other"
            try BrandFolder.with(.init(orderType: other)) { folder in
                try FileManager.default.copyItem(atPath: folder.path, toPath: directory.path("brands/other"))
            }
            func start() throws -> TokenAuthority {
                let library = try BrandLibrary(
                    directory: directory.path("brands"), webServiceURL: BrandFolder.webServiceURL)
                return try TokenAuthority(
                    path: directory.path("secrets"), content: Array(Self.shared.utf8), brands: library)
            }
            let own = try self.minted("the secret of this shop alone", key)
            #expect(try start().isToken(own.rawValue, of: key))
            try directory.write("brands/shop/token-secrets", "short")
            let closed = try start()
            for token in [own, try self.minted(Self.shared, key)] {
                #expect(!closed.isToken(token.rawValue, of: key))
            }
        }
    }

    @Test func theSharedSecretsFileIsLoadedOnceItIsStable() throws {
        try self.with { directory, _, tokens, key in
            #expect(tokens.look(isForced: false) == nil)
            let new = "another secret that all brands share\n"
            try directory.write("secrets", new + Self.shared)
            #expect(tokens.look(isForced: false) == nil, "it may be half written")
            #expect(tokens.look(isForced: false) == .loaded)
            #expect(tokens.token(for: key) == (try self.minted(new, key)))
            #expect(tokens.isToken(try self.minted(Self.shared, key).rawValue, of: key))
            try directory.write("secrets", "short\n")
            #expect(tokens.look(isForced: true) == .failed("line 1: a secret must have at least 16 bytes"))
            #expect(tokens.look(isForced: true) == nil, "told once")
            #expect(tokens.token(for: key) == (try self.minted(new, key)))
            try directory.write("secrets", new + Self.shared)
            #expect(tokens.look(isForced: true) == .loaded, "the alarm ends")
            try FileManager.default.removeItem(atPath: directory.path("secrets"))
            guard case .failed(let reason) = tokens.look(isForced: true) else { return #expect(Bool(false), "gone") }
            #expect(reason.contains(directory.path("secrets")))
        }
    }

    @Test func weakSecretsAreListedByLine() throws {
        let hex = "0123456789abcdef"
        let base64 = "K3v9xQ2mZr8LwTbY5nHcJ1"
        let made = ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "secretsecretsecret"]
        let lines = [hex + hex, made[0], "", made[1], base64]
        #expect(try TokenSecrets(file: Array(lines.joined(separator: "\n").utf8)).weakLines == [2, 4])
    }
}
