import Cryptography
import Glibc
import Synchronization

/// The provider token of one key: kept for 40 to 50 minutes, and the same for every connection of the process.
///
/// TooManyProviderTokenUpdates does not replace it, and no answer of APNs replaces it within 20 minutes of the last
/// replacement; only a clock set back by more than a minute does.
/// Source: Wallet Orders §4.4; RFC 7515 §3.1, RFC 7518 §3.4
public final class ProviderTokenSource: Sendable {
    private struct State {
        var schedule = ProviderTokenSchedule()
        var version = 0
        var headerValue: [UInt8] = []
    }

    private let keyIdentifier: String
    private let teamIdentifier: String
    private let sign: @Sendable ([UInt8]) throws -> [UInt8]
    private let epochSeconds: @Sendable () -> Int64
    private let jitter: @Sendable () -> Double
    private let state = Mutex(State())

    /// - Parameters:
    ///   - keyIdentifier: the identifier of the `.p8` key, 10 characters.
    ///   - teamIdentifier: the identifier of the developer team, 10 characters.
    ///   - sign: signs the given bytes with ES256 and returns the signature r‖s, 64 bytes. Called under a lock: after
    ///     a success not for 20 minutes, after a failure again for the next request.
    ///   - epochSeconds: the wall clock.
    ///   - jitter: 0 to 1.
    public init(
        keyIdentifier: String, teamIdentifier: String, sign: @escaping @Sendable ([UInt8]) throws -> [UInt8],
        epochSeconds: @escaping @Sendable () -> Int64 = { wallClockEpochSeconds() },
        jitter: @escaping @Sendable () -> Double = { Double.random(in: 0...1) }
    ) {
        self.keyIdentifier = keyIdentifier
        self.teamIdentifier = teamIdentifier
        self.sign = sign
        self.epochSeconds = epochSeconds
        self.jitter = jitter
    }

    /// Returns the value of `authorization`, and a version number that changes with it.
    ///
    /// - Throws: `APNSError` with code `.credential` if there is no usable token and a new one cannot be signed.
    func authorization() throws(APNSError) -> (version: Int, value: [UInt8]) {
        let now = self.epochSeconds()
        return try self.state.withLock { state throws(APNSError) in
            guard state.schedule.isDue(epochSeconds: now) else { return (state.version, state.headerValue) }
            do {
                state.headerValue = Array("bearer ".utf8) + (try self.mint(epochSeconds: now))
            } catch {
                if state.schedule.isUsable(epochSeconds: now) { return (state.version, state.headerValue) }
                throw APNSError(.credential, "signing a provider token with key \(self.keyIdentifier): \(error)")
            }
            state.version += 1
            state.schedule.minted(epochSeconds: now, jitter: self.jitter())
            return (state.version, state.headerValue)
        }
    }

    /// Notes that APNs answered ExpiredProviderToken to a request with this version.
    func expired(version: Int) {
        self.state.withLock { if $0.version == version { $0.schedule.expired() } }
    }

    private func mint(epochSeconds: Int64) throws -> [UInt8] {
        // Both identifiers are letters and digits in every real key; characters that JSON would have to escape are
        // left out.
        let header = #"{"alg":"ES256","kid":"\#(plain(self.keyIdentifier))"}"#
        let claims = #"{"iss":"\#(plain(self.teamIdentifier))","iat":\#(epochSeconds)}"#
        let content = "\(Base64URL.encode(Array(header.utf8))).\(Base64URL.encode(Array(claims.utf8)))"
        return Array("\(content).\(Base64URL.encode(try self.sign(Array(content.utf8))))".utf8)
    }
}

/// Returns the time of the system's wall clock, in whole seconds since 1970.
public func wallClockEpochSeconds() -> Int64 { Int64(time(nil)) }

private func plain(_ text: String) -> String {
    String(decoding: text.utf8.filter { $0 >= 0x20 && $0 < 0x7F && $0 != 0x22 && $0 != 0x5C }, as: UTF8.self)
}

/// The token sources of a process: one for each key, shared by all clients that use the key.
///
/// Order types of one team may share a key, and a key that is removed and added again within 20 minutes must not sign
/// again. Thread: any. Bounded: the `limit` keys used last.
/// Source: Wallet Orders §4.4
public final class ProviderTokenSources: Sendable {
    /// The maximum number of keys, far above the number of brands of a process.
    static let limit = 1_000

    private struct Key: Hashable {
        let team: String
        let identifier: String
        let privateKey: [UInt8]
    }

    private let sources = Mutex<[(key: Key, source: ProviderTokenSource)]>([])

    public init() {}

    /// Returns the source of a key's tokens, the same for every call with that key.
    ///
    /// - Parameters:
    ///   - privateKeyPEM: the content of the `.p8` file.
    ///   - keyIdentifier: the identifier of the key, 10 characters.
    ///   - teamIdentifier: the identifier of the developer team, 10 characters.
    /// - Throws: `CryptographyError` if the file does not hold a P-256 key.
    public func source(
        privateKeyPEM: [UInt8], keyIdentifier: String, teamIdentifier: String
    ) throws -> ProviderTokenSource {
        let key = Key(team: teamIdentifier, identifier: keyIdentifier, privateKey: privateKeyPEM)
        let signer = try ES256Key(privateKeyPEM: privateKeyPEM)
        return self.sources.withLock { sources in
            if let index = sources.firstIndex(where: { $0.key == key }) {
                let known = sources.remove(at: index)
                sources.append(known)
                return known.source
            }
            let source = ProviderTokenSource(keyIdentifier: keyIdentifier, teamIdentifier: teamIdentifier) {
                try signer.sign($0)
            }
            if sources.count >= Self.limit { sources.removeFirst() }
            sources.append((key, source))
            return source
        }
    }
}

/// Decides when a provider token is replaced. A value: the clock is an argument.
///
/// Source: Wallet Orders §4.4: at most once every 20 minutes, at least once every 60
struct ProviderTokenSchedule: Sendable {
    /// The minimum age at replacement; APNs answers TooManyProviderTokenUpdates to tokens replaced more often.
    static let leastSeconds: Int64 = 20 * 60
    /// The maximum age; APNs answers ExpiredProviderToken to an older token.
    static let mostSeconds: Int64 = 60 * 60

    /// The maximum time by which a token may be issued in the future; beyond it the token is replaced regardless of the
    /// rule of 20 minutes.
    static let mostSkewSeconds: Int64 = 60

    private(set) var mintedEpochSeconds: Int64?
    private var refreshAfterSeconds: Int64 = 0
    private var isExpired = false

    /// - Returns: true if a new token is needed before the next request.
    func isDue(epochSeconds: Int64) -> Bool {
        guard let minted = self.mintedEpochSeconds else { return true }
        let age = epochSeconds.subtractingReportingOverflow(minted).partialValue
        // A token is from the future if the clock was set back; APNs refuses it like an old one.
        if age >= self.refreshAfterSeconds || age < -Self.mostSkewSeconds { return true }
        return self.isExpired && age >= Self.leastSeconds
    }

    /// Notes that a token was made.
    ///
    /// - Parameter jitter: 0 to 1; spreads the replacements in a fleet over 40 to 50 minutes.
    mutating func minted(epochSeconds: Int64, jitter: Double) {
        self.mintedEpochSeconds = epochSeconds
        self.refreshAfterSeconds = 40 * 60 + Int64(min(max(jitter, 0), 1) * 600)
        self.isExpired = false
    }

    /// Notes that APNs answered ExpiredProviderToken: a new token is due as soon as the rule of 20 minutes allows.
    mutating func expired() { self.isExpired = true }

    /// - Returns: true if the present token may still be used when a new one cannot be made.
    func isUsable(epochSeconds: Int64) -> Bool {
        guard let minted = self.mintedEpochSeconds else { return false }
        let age = epochSeconds.subtractingReportingOverflow(minted).partialValue
        return (-Self.leastSeconds...Self.mostSeconds).contains(age)
    }
}
