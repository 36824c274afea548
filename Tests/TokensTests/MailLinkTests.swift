import Model
import TestKit
import Testing
import Tokens

@Suite struct MailLinkTests {
    private static let now: Int64 = 1_767_268_800
    private static let longest: Int64 = 60 * 86_400
    private let key = Result { try OrderKey("order.com.example.shop/A-17~x") }
    private let secrets = Result { try TokenSecrets(file: Array("sixteen bytes or more\n".utf8)) }

    private func verdict(
        _ link: MailLink, _ signature: String, _ token: AuthenticationToken, at now: Int64 = now
    ) -> PackageLink.Verdict {
        link.verdict(signature: signature, token: token, longestSeconds: Self.longest, nowEpochSeconds: now)
    }

    @Test func theSignatureIsAnHMACWithTheOrdersToken() throws {
        let link = MailLink(key: try self.key.get(), expiresEpochSeconds: Self.now)
        let token = try AuthenticationToken("a-token-of-the-order")
        let python = """
            import hashlib, hmac, sys
            print(hmac.new(sys.argv[1].encode(), sys.argv[2].encode(), hashlib.sha256).hexdigest())
            """
        let message = "mail:order.com.example.shop/A-17~x:\(Self.now)"
        #expect(try Program.run("python3", ["-c", python, token.rawValue, message]) == "\(link.signature(token))\n")
    }

    @Test func aLinkIsValidUntilItExpiresAndNoLongerThanIsAllowed() throws {
        let token = try self.secrets.get().token(for: try self.key.get())
        for (seconds, expected) in [
            (0, PackageLink.Verdict.expired), (1, .valid), (Self.longest, .valid), (Self.longest + 1, .tooFarAhead),
        ] {
            let link = MailLink(key: try self.key.get(), expiresEpochSeconds: Self.now + seconds)
            #expect(self.verdict(link, link.signature(token), token) == expected)
        }
        for extreme in [Int64.min, .max] {
            let link = MailLink(key: try self.key.get(), expiresEpochSeconds: extreme)
            #expect(self.verdict(link, link.signature(token), token) != .valid)
        }
    }

    @Test func aLinkIsBoundToOrderExpiryAndToken() throws {
        let key = try self.key.get()
        let secrets = try self.secrets.get()
        let token = secrets.token(for: key)
        let link = MailLink(key: key, expiresEpochSeconds: Self.now + 60)
        let signature = link.signature(token)
        let others = [
            MailLink(key: key, expiresEpochSeconds: Self.now + 61),
            MailLink(key: try OrderKey("order.com.example.shop/A-17~y"), expiresEpochSeconds: Self.now + 60),
        ]
        for other in others { #expect(self.verdict(other, signature, token) == .forged) }
        for forged in ["", String(signature.dropLast()), signature + "0", signature.uppercased()] {
            #expect(self.verdict(link, forged, token) == .forged)
        }
        #expect(self.verdict(link, signature, secrets.renewedToken(for: key)) == .forged)
        // A link for a button is none for a mail, even with the secret.
        let button = PackageLink(key: key, expiresEpochSeconds: Self.now + 60)
        #expect(self.verdict(link, button.signature(secrets), token) == .forged)
        #expect(button.verdict(signature: signature, secrets: secrets, nowEpochSeconds: Self.now) == .forged)
        #expect(!secrets.isToken(signature, of: key))
    }

    @Test func aRenewedTokenIsOneOfTheOrdersTokensUnderItsSecret() throws {
        let key = try self.key.get()
        let other = try OrderKey("order.com.example.shop/A-18")
        let old = try self.secrets.get()
        let new = try TokenSecrets(file: Array("another secret of the shop\nsixteen bytes or more\n".utf8))
        let token = old.renewedToken(for: key)
        #expect(token != old.renewedToken(for: key))
        #expect(old.place(ofToken: token.rawValue, of: key) == 0)
        #expect(new.place(ofToken: token.rawValue, of: key) == 1)
        #expect(old.isRenewed(token.rawValue, of: key))
        #expect(!old.isRenewed(old.token(for: key).rawValue, of: key))
        #expect(!old.isToken(token.rawValue, of: other))
        let salt = "0123456789abcdef"
        #expect(!old.isToken(salt + token.rawValue.dropFirst(16), of: key), "the salt is part of it")
        #expect(!old.isToken(salt + old.token(for: key).rawValue, of: key))
        let authority = TokenAuthority(new)
        #expect(authority.opens(old.token(for: key).rawValue, key, stored: token), "devices keep the order")
        #expect(authority.opens(token.rawValue, key, stored: old.token(for: key)))
        #expect(authority.keeps(token, old.token(for: key), key))
        #expect(!authority.keeps(old.token(for: key), token, key))
        #expect(!authority.keeps(token, try AuthenticationToken("a-token-of-the-order"), key))
    }
}
