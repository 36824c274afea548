import Cryptography
public import Model

/// A link to an order that may stand in a mail for weeks: it answers a page, and only the page's button leads on.
///
/// `GET /v1/orders/{type}/{id}/mail?expires={UNIX seconds}&signature={signature}`. The signature is HMAC-SHA256 with
/// the order's authentication token as the key, in lower-case hexadecimal digits, of `mail:<type>/<id>:<expires>`. So
/// it ends with the token: when the order gets another one, all its links are void.
/// Source: Wallet Orders §6
public struct MailLink: Hashable, Sendable {
    /// The longest time until a link may expire, in days; 0 for none at all.
    public static let dayRange = 0...90
    public static let defaultDays = 60

    public let key: OrderKey
    /// The first second in which the link is no longer valid.
    public let expiresEpochSeconds: Int64

    public init(key: OrderKey, expiresEpochSeconds: Int64) {
        self.key = key
        self.expiresEpochSeconds = expiresEpochSeconds
    }

    /// Returns the signature.
    ///
    /// - Parameter token: the order's, as it is stored.
    public func signature(_ token: AuthenticationToken) -> String {
        let message = Array("mail:\(self.key):\(self.expiresEpochSeconds)".utf8)
        let digits = Hexadecimal.digits(HMACSHA256.authenticate(message, key: Array(token.rawValue.utf8)))
        return String(decoding: digits, as: UTF8.self)
    }

    /// Checks a link in constant time. The expiry is only revealed for a valid signature.
    ///
    /// - Parameter longestSeconds: the time for which links may be valid.
    public func verdict(
        signature: String, token: AuthenticationToken, longestSeconds: Int64, nowEpochSeconds: Int64
    ) -> PackageLink.Verdict {
        guard constantTimeEqual(Array(signature.utf8), Array(self.signature(token).utf8)) else { return .forged }
        if self.expiresEpochSeconds <= nowEpochSeconds { return .expired }
        return self.expiresEpochSeconds - longestSeconds > nowEpochSeconds ? .tooFarAhead : .valid
    }
}
