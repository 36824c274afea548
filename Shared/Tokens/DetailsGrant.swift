import Cryptography
public import Model

/// A permission for one page to get the order details of one order for a short while, without a key.
///
/// `base64url(message) + "." + hex(HMAC-SHA256(secret, "details:" + message))`, where the message is
/// `<type>/<id>:<expires>:<origin>`.
/// The prefix separates grants from links (`link:`) and from tokens, whose messages have no colon, though all are made
/// with the same secrets. A grant may be used repeatedly: until it expires it returns the same details.
public struct DetailsGrant: Hashable, Sendable {
    /// The longest time until a grant expires, in seconds.
    public static let longestSeconds: Int64 = 3600
    /// The longest text that is parsed, in bytes.
    private static let textLimit = 4096

    public let key: OrderKey
    /// The first second in which the grant is no longer valid.
    public let expiresEpochSeconds: Int64
    /// The origin of the page: `https://shop.example.com`.
    public let origin: String

    public init(key: OrderKey, expiresEpochSeconds: Int64, origin: String) {
        self.key = key
        self.expiresEpochSeconds = expiresEpochSeconds
        self.origin = origin
    }

    /// Parses a valid grant.
    ///
    /// Accepts any of the secrets, in constant time for each. Nil for a grant that is forged, expired, valid for too
    /// long, or bound to another origin: the client does not learn which.
    /// - Parameter origin: the origin of the page that sent the grant.
    public init?(verifying text: String, origin: String, tokens: TokenAuthority, nowEpochSeconds: Int64) {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard text.utf8.count <= Self.textLimit, parts.count == 2, let bytes = Base64URL.decode(Array(parts[0])),
            let message = String(validating: bytes, as: UTF8.self)
        else { return nil }
        let fields = message.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
        guard fields.count == 3, let key = try? OrderKey(String(fields[0])), let expires = Int64(fields[1]) else {
            return nil
        }
        self.init(key: key, expiresEpochSeconds: expires, origin: String(fields[2]))
        var isSigned = false
        let secrets = tokens.secrets(for: key.orderType)
        for secret in secrets.all where constantTimeEqual(Array(parts[1]), self.signature(secret)) { isSigned = true }
        guard isSigned, self.message == message, self.origin == origin, expires > nowEpochSeconds,
            expires - Self.longestSeconds <= nowEpochSeconds
        else { return nil }
    }

    /// Returns the grant as text, signed with the minting secret.
    public func text(_ secrets: TokenSecrets) -> String {
        let signature = String(decoding: self.signature(secrets.minting), as: UTF8.self)
        return "\(Base64URL.encode(Array(self.message.utf8))).\(signature)"
    }

    private var message: String { "\(self.key):\(self.expiresEpochSeconds):\(self.origin)" }

    private func signature(_ secret: [UInt8]) -> [UInt8] {
        Hexadecimal.digits(HMACSHA256.authenticate(Array("details:\(self.message)".utf8), key: secret))
    }
}
