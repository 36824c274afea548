import Cryptography
import FoundationEssentials
import HTTPServer
import Model

/// A source of events that another system sends, signed, to `POST /v1/checkout/sources/{name}`. No I/O, no clock.
struct Webhook: Sendable {
    /// The scheme of a signature, by the provider that uses it: HMAC with SHA-256.
    enum Scheme: String, CaseIterable, Sendable {
        /// Base64, of the body.
        case shopify
        /// `t=<UNIX seconds>,v1=<hex>`, of `<UNIX seconds>.<body>`; several `v1` while Stripe changes its secret.
        case stripe
        /// Base64, of the body, with a key in hexadecimal digits.
        case adyen

        /// The field that has the signature.
        var field: RequestField.Name {
            switch self {
            case .shopify: .shopifySignature
            case .stripe: .stripeSignature
            case .adyen: .adyenSignature
            }
        }
    }

    /// Most bytes of a body.
    static let bodyLimit = 256 << 10
    /// Most seconds between the time of a signature and the present, for a scheme whose signatures have a time.
    static let tolerance: Int64 = 300
    /// Most secrets: the present one, and the former one during a rotation.
    static let secretLimit = 2

    let name: String
    let topic: String
    let scheme: Scheme
    let secrets: [[UInt8]]
    /// The names that lead to the member of the body whose value is the record's key; empty for no key.
    let key: [String]

    /// Returns the code by which one of the secrets signs a body; nil if none does. Compares in constant time.
    ///
    /// Source: Shopify, "Deliver webhooks through HTTPS"; Stripe, "Verify webhook signatures"; Adyen, "Verify HMAC
    /// signatures", webhooks with the signature in the header
    func code(of body: [UInt8], by signature: String, nowEpochSeconds now: Int64) -> [UInt8]? {
        var (signed, given): ([UInt8], [[UInt8]]) = (body, [])
        switch self.scheme {
        case .shopify, .adyen: given = Data(base64Encoded: signature).map { [[UInt8]($0)] } ?? []
        case .stripe:
            var time: Substring?
            for part in signature.split(separator: ",") {
                if part.hasPrefix("t=") { time = part.dropFirst(2) }
                if part.hasPrefix("v1="), let code = Hexadecimal.bytes(String(part.dropFirst(3))) { given.append(code) }
            }
            guard let time, let seconds = Int64(time),
                (now - Self.tolerance...now + Self.tolerance).contains(seconds)
            else { return nil }
            signed = Array("\(time).".utf8) + body
        }
        var found: [UInt8]?
        for secret in self.secrets {
            let code = HMACSHA256.authenticate(signed, key: secret)
            for other in given where constantTimeEqual(other, code) { found = code }
        }
        return found
    }

    /// Returns the key of a body's record: the member's text or whole number; nil without one.
    func recordKey(of body: [UInt8]) -> [UInt8]? {
        guard !self.key.isEmpty, var value = try? JSON(parsing: body) else { return nil }
        for name in self.key { value = value.object?[name] ?? .null }
        return (value.string ?? value.integer.map { String($0) }).map { Array($0.utf8) }
    }
}
