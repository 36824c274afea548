import HTTPServer
import NIOHTTP1

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
