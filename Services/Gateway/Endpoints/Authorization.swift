import HTTPServer
import NIOHTTP1

/// Parses the `Authorization` header of orders.
///
/// Source: Wallet Orders §1.2a: scheme name in any case, exactly one space, the token is the rest
enum Authorization {
    static func token(_ header: String?) -> String? {
        guard let header else { return nil }
        let scheme: StaticString = "appleorder"
        let length = scheme.utf8CodeUnitCount
        let bytes = header.utf8.span
        guard bytes.count > length + 1, bytes[length] == .space, bytes[length + 1] != .space,
            bytes.extracting(0..<length).isEqualIgnoringCase(scheme)
        else { return nil }
        return String(header.utf8.dropFirst(length + 1))
    }
}

extension Answer {
    /// An unknown order and a wrong token look the same, so that a client cannot find out which orders exist.
    ///
    /// Source: Wallet Orders §1.2a; RFC 9110 §11.6.1 wants the challenge
    static let unauthorized = Answer.failure(
        .unauthorized, "the authentication token is missing or wrong", headers: ["www-authenticate": "AppleOrder"])

    /// The same for a wrong token. One that is right for an order that no longer exists is not a guess.
    static let wrongToken = Answer.unauthorized.asGuess

    /// Data lost by Redis is being restored: at the moment it is unknown what does not exist.
    static let restoring = Answer.unavailable("the stored orders are being restored", retryAfterSeconds: 10)
}
