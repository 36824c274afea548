import Cryptography
import Glibc
public import Model

/// The secrets that authentication tokens are derived from.
///
/// Any upstream system that has the first secret can compute an order's token at checkout without asking us.
/// Source: Design §5
public struct TokenSecrets: Sendable {
    /// The reason why a file of secrets is refused. Never contains a secret.
    public struct Failure: Error, CustomStringConvertible, Sendable {
        public let message: String
        public var description: String { self.message }

        public init(message: String) { self.message = message }
    }

    /// The length of the shortest secret, in bytes: derived tokens have 128 bits, so a secret should not have fewer.
    static let shortest = 16

    /// The secrets: the first one mints, all of them are accepted.
    private let secrets: [[UInt8]]
    /// Lines of the file, from 1, whose secrets look as if a person had made them up.
    public let weakLines: [Int]

    /// The secret that new tokens and links are made with.
    var minting: [UInt8] { self.secrets[0] }
    /// The secrets with which tokens and links are accepted.
    var all: [[UInt8]] { self.secrets }

    /// - Parameter file: one secret per line; empty lines are ignored.
    public init(file: [UInt8]) throws(Failure) {
        var secrets: [[UInt8]] = []
        var weakLines: [Int] = []
        for (index, line) in file.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).enumerated() {
            let secret = line.last == UInt8(ascii: "\r") ? line.dropLast() : line
            guard !secret.isEmpty else { continue }
            guard secret.count >= Self.shortest else {
                throw Failure(message: "line \(index + 1): a secret must have at least \(Self.shortest) bytes")
            }
            secrets.append(Array(secret))
            if Self.bits(of: secrets[secrets.count - 1]) < Self.fewestBits { weakLines.append(index + 1) }
        }
        guard !secrets.isEmpty else { throw Failure(message: "the file must have at least one secret, one a line") }
        self.secrets = secrets
        self.weakLines = weakLines
    }

    /// A random secret that no other system has: nothing is valid under it.
    public static var unknown: TokenSecrets {
        TokenSecrets(random: (0..<32).map { _ in UInt8.random(in: .min ... .max) })
    }

    private init(random secret: [UInt8]) {
        self.secrets = [secret]
        self.weakLines = []
    }

    /// The fewest bits of a secret that looks random: 22 characters of base64, which are 128 random bits, have more.
    private static let fewestBits = 80.0

    /// Returns the information in a secret, in bits, as estimated from the frequencies of its bytes.
    private static func bits(of secret: [UInt8]) -> Double {
        var counts: [UInt8: Double] = [:]
        for byte in secret { counts[byte, default: 0] += 1 }
        let length = Double(secret.count)
        return counts.values.reduce(0) { $0 + $1 * log2(length / $1) }
    }

    /// Identifiers of the secrets, the minting one first, which do not reveal them.
    public var fingerprints: [String] {
        self.secrets.map {
            String(decoding: Hexadecimal.digits(HMACSHA256.authenticate([], key: $0)).prefix(16), as: UTF8.self)
        }
    }

    /// Returns true if the secret that mints here is among the others.
    public func mints(underOneOf others: TokenSecrets) -> Bool { others.secrets.contains(self.secrets[0]) }

    /// Returns the token of an order that does not bring its own: the first 32 hexadecimal digits of
    /// HMAC-SHA256(secret, `<type>/<id>`).
    public func token(for key: OrderKey) -> AuthenticationToken { Self.token(for: key, secret: self.secrets[0]) }

    /// Returns another token of such an order, one of 2^64: 16 hexadecimal digits as salt, then the first 32 of
    /// HMAC-SHA256(secret, `renewed:<type>/<id>:<salt>`).
    ///
    /// Everything bound to the order's token ends with it, and `isToken` is true for it as for the first one.
    public func renewedToken(for key: OrderKey) -> AuthenticationToken {
        let salt = Hexadecimal.digits((0..<8).map { _ in UInt8.random(in: .min ... .max) })
        return Self.token(for: key, salt: String(decoding: salt, as: UTF8.self), secret: self.secrets[0])
    }

    /// Returns true for a token of `renewedToken` under any of the secrets.
    public func isRenewed(_ text: String, of key: OrderKey) -> Bool {
        AuthenticationToken.salt(ofRenewed: text) != nil && self.isToken(text, of: key)
    }

    /// Returns true if a text is a derived token of an order under any of the secrets, in constant time for each.
    public func isToken(_ text: String, of key: OrderKey) -> Bool { self.place(ofToken: text, of: key) != nil }

    /// The place of the secret under which a text is a derived token of an order, from 0, which is that of the
    /// minting one; nil if there is none. In constant time for each secret.
    public func place(ofToken text: String, of key: OrderKey) -> Int? {
        var place: Int?
        let salt = AuthenticationToken.salt(ofRenewed: text)
        for (index, secret) in self.secrets.enumerated() {
            let token = Self.token(for: key, salt: salt ?? "", secret: secret)
            if constantTimeEqual(Array(text.utf8), Array(token.rawValue.utf8)) { place = place ?? index }
        }
        return place
    }

    /// The number of secrets, at least 1.
    public var count: Int { self.secrets.count }

    /// - Parameter salt: of a renewed token; empty for the first one.
    private static func token(for key: OrderKey, salt: String = "", secret: [UInt8]) -> AuthenticationToken {
        let message = salt.isEmpty ? key.description : "renewed:\(key):\(salt)"
        let digest = HMACSHA256.authenticate(Array(message.utf8), key: secret)
        let digits = Hexadecimal.digits(Array(digest.prefix(16)))
        return AuthenticationToken(derived: salt + String(decoding: digits, as: UTF8.self))
    }
}
