import Cryptography
import FoundationEssentials
import HTTPServer
import Model

/// A source of events that another system sends, signed, to `POST /v1/checkout/sources/{name}`. No I/O, no clock.
struct Webhook: Sendable {
    /// The scheme of a signature, by the provider that uses it: HMAC with SHA-256; or a password.
    enum Scheme: String, CaseIterable, Sendable {
        /// Base64, of the body.
        case shopify
        /// `t=<UNIX seconds>,v1=<hex>`, of `<UNIX seconds>.<body>`; several `v1` while Stripe changes its secret.
        case stripe
        /// Base64, of the body, with a key in hexadecimal digits.
        case adyen

        /// `user:password` of `Authorization: Basic`, for providers that sign a part of a body or nothing.
        case basic

        /// Returns the value of the field that has the signature; nil without one, or with several.
        func signature(in fields: Request.Fields) -> String? {
            switch self {
            case .shopify: fields[.shopifySignature]
            case .stripe: fields[.stripeSignature]
            case .adyen: fields[.adyenSignature]
            case .basic: fields.authorization
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

    /// Returns the code of a body by the secret that signs it, or that a request has as its password; nil if none does.
    /// Compares in constant time.
    ///
    /// Source: Shopify, "Deliver webhooks through HTTPS"; Stripe, "Verify webhook signatures"; Adyen, "Verify HMAC
    /// signatures", webhooks with the signature in the header; RFC 7617 §2
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
        case .basic:
            guard let password = KeyReading.credential(basic: signature),
                let secret = self.secrets.first(where: { constantTimeEqual(password, $0) })
            else { return nil }
            return HMACSHA256.authenticate(body, key: secret)
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
