import Cryptography
import Foundation
import Model

/// Authentication tokens as any upstream system computes them at checkout, from the first secret of the file.
///
/// Source: Design §5: the first 32 hexadecimal digits of HMAC-SHA256(secret, "<type>/<id>")
struct DerivedTokens: Sendable {
    private let secret: [UInt8]

    /// - Parameter file: one secret per line, the first one mints.
    init(file: String) throws(ToolError) {
        let text = String(decoding: try readFile(file), as: UTF8.self)
        let lines = text.split(whereSeparator: \.isNewline).map { $0.trimmingCharacters(in: .whitespaces) }
        guard let first = lines.first(where: { !$0.isEmpty }) else {
            throw ToolError(.input, "reading the secrets of \(file): there is none in it")
        }
        self.secret = Array(first.utf8)
    }

    /// - Parameter secret: as in the file.
    init(secret: String) { self.secret = Array(secret.utf8) }

    /// The token of an order.
    func token(for key: OrderKey) -> String {
        String(hex(HMACSHA256.authenticate(Array(key.description.utf8), key: self.secret)).prefix(32))
    }
}
