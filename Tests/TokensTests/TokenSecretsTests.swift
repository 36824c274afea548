import Model
import TestKit
import Testing
import Tokens

@Suite struct TokenSecretsTests {
    private let key = Result { try OrderKey("order.com.example.shop/A-17~x") }

    private func secrets(_ file: String) throws -> TokenSecrets { try TokenSecrets(file: Array(file.utf8)) }

    @Test func aTokenIsTheTruncatedHMACSHA256OfItsOrderKey() throws {
        let key = try self.key.get()
        let token = try self.secrets("sixteen bytes or more\n").token(for: key).rawValue
        let python = """
            import hashlib, hmac, sys
            print(hmac.new(sys.argv[1].encode(), sys.argv[2].encode(), hashlib.sha256).hexdigest()[:32])
            """
        let computed = try Program.run("python3", ["-c", python, "sixteen bytes or more", "\(key)"])
        #expect(computed == "\(token)\n")
        let directory = try TemporaryDirectory("token")
        let openssl = try OpenSSLProgram.run([
            "dgst", "-sha256", "-hmac", "sixteen bytes or more", try directory.write("message", "\(key)"),
        ])
        #expect(openssl.split(separator: " ").last?.prefix(32) == token[...])
    }

    @Test func theFirstSecretSignsAndEverySecretVerifies() throws {
        let key = try self.key.get()
        let old = try self.secrets("the old secret of the shop")
        let new = try self.secrets("the new secret of the shop\nthe old secret of the shop\n")
        #expect(new.token(for: key) != old.token(for: key))
        #expect(new.isToken(old.token(for: key).rawValue, of: key))
        #expect(new.isToken(new.token(for: key).rawValue, of: key))
        #expect(!old.isToken(new.token(for: key).rawValue, of: key))
        #expect(new.count == 2)
        #expect(new.place(ofToken: new.token(for: key).rawValue, of: key) == 0)
        #expect(new.place(ofToken: old.token(for: key).rawValue, of: key) == 1)
        #expect(old.place(ofToken: new.token(for: key).rawValue, of: key) == nil)
    }

    @Test func aTokenIsValidOnlyForItsOrder() throws {
        let secrets = try self.secrets("sixteen bytes or more")
        let other = try OrderKey("order.com.example.shop/A-18")
        #expect(!secrets.isToken(secrets.token(for: try self.key.get()).rawValue, of: other))
        #expect(!secrets.isToken("", of: other))
        #expect(!secrets.isToken(String(secrets.token(for: other).rawValue.dropLast()), of: other))
    }

    @Test func emptyLinesAndWindowsLineEndingsAreIgnoredInSecretFiles() throws {
        let key = try self.key.get()
        let plain = try self.secrets("sixteen bytes or more").token(for: key)
        #expect(try self.secrets("\r\n\nsixteen bytes or more\r\n\r\n").token(for: key) == plain)
    }

    @Test func aShortSecretErrorNamesItsLineButNotTheSecret() throws {
        let error = #expect(throws: TokenSecrets.Failure.self) {
            try self.secrets("sixteen bytes or more\n\nhunter2\n")
        }
        #expect(error?.message == "line 3: a secret must have at least 16 bytes")
    }

    @Test(arguments: ["", "\n", "\r\n\r\n"])
    func aFileWithoutASecretIsRefused(_ file: String) {
        let error = #expect(throws: TokenSecrets.Failure.self) { try self.secrets(file) }
        #expect(error?.message.contains("at least one secret") == true)
    }
}
