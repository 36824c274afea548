import Cryptography
import Model

/// Authentication tokens as any upstream system derives them at checkout; the first of the secrets mints new tokens.
///
/// Source: Design §5: the first 32 hexadecimal digits of HMAC-SHA256(secret, "<type>/<id>")
struct DerivedTokens: Sendable {
    private let secrets: [[UInt8]]

    /// - Parameter file: one secret per line, the first one mints.
    init(file: String) throws(ToolError) {
        // Spaces are a part of a secret, as they are for the services.
        self.secrets = try readFile(file).split(separator: UInt8(ascii: "\n"))
            .map { Array($0.last == UInt8(ascii: "\r") ? $0.dropLast() : $0) }.filter { !$0.isEmpty }
        guard !self.secrets.isEmpty else {
            throw ToolError(.input, "reading the secrets of \(file): there is none in it")
        }
    }

    /// - Parameter secret: a secret as in the file.
    init(secret: String) { self.secrets = [Array(secret.utf8)] }

    /// Returns the token of an order.
    func token(for key: OrderKey) -> String { Self.token(for: key, secret: self.secrets[0]) }

    /// Returns the tokens of an order under all secrets.
    func tokens(for key: OrderKey) -> [String] { self.secrets.map { Self.token(for: key, secret: $0) } }

    private static func token(for key: OrderKey, secret: [UInt8]) -> String {
        String(hex(HMACSHA256.authenticate(Array(key.description.utf8), key: secret)).prefix(32))
    }
}
