import Cryptography
import Model

/// Reads the `Authorization` header of orders.
///
/// Source: Wallet Orders §1.2a: scheme name without regard to case, exactly one space, the token is the rest
enum Authorization {
    static func token(_ header: String?) -> String? {
        guard let header, let space = header.utf8.firstIndex(of: UInt8(ascii: " ")),
            header[..<space].lowercased() == "appleorder"
        else { return nil }
        let token = header[header.utf8.index(after: space)...]
        return token.isEmpty || token.hasPrefix(" ") ? nil : String(token)
    }

    /// Compares in a time that does not depend on where the texts differ.
    static func isEqual(_ given: String, _ expected: AuthenticationToken) -> Bool {
        constantTimeEqual(Array(given.utf8), Array(expected.rawValue.utf8))
    }
}
