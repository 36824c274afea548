import Cryptography
import HTTPServer
import Model

/// A secret key of a merchant's servers, stored in `merchant.json` as its digest.
struct APIKey: Sendable {
    /// The groups of routes to which a key gives access.
    enum Scope: String, CaseIterable, Sendable {
        case details, links, confirm, notify
        /// Reserved; gives access to no route.
        case read
        /// Publishing changes of orders.
        case orders
    }

    /// For logs and metrics.
    let name: String
    /// SHA-256 of the key.
    private let digest: [UInt8]
    let scopes: Set<Scope>
    let orderTypes: Set<OrderTypeIdentifier>

    /// - Parameter sha256: 64 hexadecimal digits. Nil for any other text.
    init?(name: String, sha256: String, scopes: Set<Scope>, orderTypes: Set<OrderTypeIdentifier>) {
        let digits = sha256.utf8.compactMap(\.hexadecimalValue)
        guard digits.count == 64, sha256.utf8.count == 64 else { return nil }
        self.name = name
        self.digest = stride(from: 0, to: 64, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
        self.scopes = scopes
        self.orderTypes = orderTypes
    }

    static func digest(_ key: String) -> [UInt8] { SHA256.digest(Array(key.utf8)) }

    /// Derives a key of 32 bytes for one purpose, which nobody can compute without `merchant.json` or the key itself.
    func derived(_ purpose: String) -> [UInt8] { HMACSHA256.authenticate(Array(purpose.utf8), key: self.digest) }

    var claims: [MerchantClaim] {
        [.key(digest: String(decoding: Hexadecimal.digits(self.digest), as: UTF8.self), name: self.name)]
    }

    /// True for the same secret, whatever its name and scopes.
    func isSame(as other: APIKey) -> Bool { self.digest == other.digest }

    /// Compares the digests in constant time.
    func matches(_ digest: [UInt8]) -> Bool { constantTimeEqual(self.digest, digest) }
}

/// The server that sent a request, identified by its key.
struct Caller: Sendable {
    let merchant: Merchant
    let key: APIKey
    /// The trace that its request belongs to.
    var trace: TraceContext?

    /// - Throws: `scope_missing`, `capability_required`.
    func require(_ scope: APIKey.Scope) throws(CheckoutFailure) {
        guard self.key.scopes.contains(scope) else {
            throw CheckoutFailure(.scopeMissing, "this key does not have the scope \(scope.rawValue)")
        }
        guard self.merchant.capabilities.contains(.orderTracking) else {
            throw CheckoutFailure(
                .capabilityRequired,
                "the merchant does not have the capability \(Merchant.Capability.orderTracking.rawValue)")
        }
    }

    /// - Throws: `scope_missing` for an order type that the key does not cover.
    func require(_ type: OrderTypeIdentifier) throws(CheckoutFailure) {
        guard self.key.orderTypes.contains(type) else {
            throw CheckoutFailure(.scopeMissing, "this key is not for orders of this type")
        }
    }
}
