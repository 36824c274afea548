import Cryptography

/// The provider tokens seen on one connection.
struct APNSSimulatorTokenHistory: Hashable {
    /// The header of the last accepted token.
    fileprivate(set) var authorization: String?
    fileprivate(set) var token: APNSSimulatorProviderToken?
    fileprivate(set) var takenEpochSeconds: Int64 = 0

    /// True after a request with a valid token; from then on more than one stream is allowed.
    var isProven: Bool { self.token != nil }
}

/// The rules for provider tokens.
///
/// A signature is verified once per token, not once per request: up to `knownLimit` verified tokens are kept.
/// Source: Wallet Orders §4.4, §4.6
struct APNSSimulatorTokenCheck {
    /// Keys that may sign; if empty, any token of the right form and age is accepted without checking its signature.
    let keys: [APNSSimulatorProviderKey]
    private var known: [String: APNSSimulatorProviderToken] = [:]

    /// The age beyond which a token has expired.
    static let lifetimeSeconds: Int64 = 3600
    /// The time that must pass on a connection before another token is accepted.
    static let updateIntervalSeconds: Int64 = 1200
    /// The most seconds that `iat` may be in the future, for clocks that disagree.
    static let skewSeconds: Int64 = 300
    /// The most verified tokens that are kept.
    static let knownLimit = 64

    init(keys: [APNSSimulatorProviderKey]) { self.keys = keys }

    /// - Returns: nil if the token is accepted.
    mutating func refusal(
        of authorization: String?, history: inout APNSSimulatorTokenHistory, nowEpochSeconds: Int64
    ) -> APNSSimulatorAnswer? {
        guard let authorization else { return APNSSimulatorAnswer(403, "MissingProviderToken") }
        if authorization == history.authorization, let token = history.token {
            return Self.hasExpired(token, nowEpochSeconds) ? APNSSimulatorAnswer(403, "ExpiredProviderToken") : nil
        }
        guard let token = self.verified(authorization), token.issuedEpochSeconds <= nowEpochSeconds + Self.skewSeconds
        else { return APNSSimulatorAnswer(403, "InvalidProviderToken") }
        if let former = history.token {
            guard token.keyIdentifier == former.keyIdentifier else {
                return APNSSimulatorAnswer(403, "UnrelatedKeyIdInToken")
            }
            guard token.team == former.team else { return APNSSimulatorAnswer(403, "InvalidProviderToken") }
        }
        if Self.hasExpired(token, nowEpochSeconds) { return APNSSimulatorAnswer(403, "ExpiredProviderToken") }
        if history.token != nil, nowEpochSeconds - history.takenEpochSeconds < Self.updateIntervalSeconds {
            return APNSSimulatorAnswer(429, "TooManyProviderTokenUpdates")
        }
        history.authorization = authorization
        history.token = token
        history.takenEpochSeconds = nowEpochSeconds
        return nil
    }

    private static func hasExpired(_ token: APNSSimulatorProviderToken, _ nowEpochSeconds: Int64) -> Bool {
        token.issuedEpochSeconds < nowEpochSeconds - Self.lifetimeSeconds
    }

    private mutating func verified(_ authorization: String) -> APNSSimulatorProviderToken? {
        if let token = self.known[authorization] { return token }
        guard let token = APNSSimulatorProviderToken(authorization: authorization) else { return nil }
        if !self.keys.isEmpty {
            let key = self.keys.first { $0.keyIdentifier == token.keyIdentifier && $0.team == token.team }
            guard let key, key.publicKey.isValid(token.signature, for: token.signed) else { return nil }
        }
        if self.known.count >= Self.knownLimit { self.known.removeAll() }
        self.known[authorization] = token
        return token
    }
}
