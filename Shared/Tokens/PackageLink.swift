import Cryptography
public import Model

/// A link to an order's package for a "Track with Apple Wallet" button: anyone who has it may fetch the package for a
/// short while, without the order's token.
///
/// `GET /v1/orders/{type}/{id}/package?expires={UNIX seconds}&signature={signature}`. The signature is HMAC-SHA256, in
/// lower-case hexadecimal digits, of `link:<type>/<id>:<expires>`. No key of an order has a colon, so no link is a
/// token and no token is part of a link, though both are made with the same secrets.
/// Source: Wallet Orders §6: not guessable, not enumerable, short-lived
public struct PackageLink: Hashable, Sendable {
    /// The longest time until a link expires, in seconds. One that leaks is useless the next day.
    public static let longestSeconds: Int64 = 24 * 3600

    public let key: OrderKey
    /// The first second in which the link is no longer valid.
    public let expiresEpochSeconds: Int64

    /// The result of checking a link.
    public enum Verdict: Hashable, Sendable {
        case valid
        /// It was valid once.
        case expired
        /// It was signed, but for longer than a link may be valid.
        case tooFarAhead
        /// It was not signed with any of the secrets.
        case forged
    }

    public init(key: OrderKey, expiresEpochSeconds: Int64) {
        self.key = key
        self.expiresEpochSeconds = expiresEpochSeconds
    }

    /// Returns the signature with the minting secret.
    public func signature(_ secrets: TokenSecrets) -> String {
        String(decoding: self.signature(secrets.minting), as: UTF8.self)
    }

    /// Checks a link under any of the secrets, in constant time for each. The expiry is only revealed for a valid
    /// signature.
    public func verdict(signature: String, secrets: TokenSecrets, nowEpochSeconds: Int64) -> Verdict {
        let given = Array(signature.utf8)
        var isSigned = false
        for secret in secrets.all where constantTimeEqual(given, self.signature(secret)) { isSigned = true }
        guard isSigned else { return .forged }
        if self.expiresEpochSeconds <= nowEpochSeconds { return .expired }
        return self.expiresEpochSeconds - Self.longestSeconds > nowEpochSeconds ? .tooFarAhead : .valid
    }

    private func signature(_ secret: [UInt8]) -> [UInt8] {
        let message = Array("link:\(self.key):\(self.expiresEpochSeconds)".utf8)
        return Hexadecimal.digits(HMACSHA256.authenticate(message, key: secret))
    }
}
