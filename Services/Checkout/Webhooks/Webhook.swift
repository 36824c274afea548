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

    /// Most bytes of a body without a `bodyLimit`: Shopify sends a megabyte for an order of many lines.
    static let defaultBodyLimit = 1 << 20
    /// Bytes that the topic of any webhook must accept.
    static let usualBody = 256 << 10
    /// The bytes that `bodyLimit` may name. The producer takes messages of twice as much.
    static let bodyLimits = 16 << 10...RequestLimits.largestBody
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
    /// Most bytes of a body.
    var bodyLimit = Webhook.defaultBodyLimit

    var claims: [MerchantClaim] { [.webhook(self.name), .topic(self.topic)] }

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

    /// Returns the key of a body's record: the text or number of its member; nil without one.
    ///
    /// The key decides the partition, and so the sequence: no fault, depth or size of the rest costs it.
    func recordKey(of body: [UInt8]) -> [UInt8]? {
        self.key.isEmpty ? nil : JSONScan.text(at: self.key, in: body).map { Array($0.utf8) }
    }
}
