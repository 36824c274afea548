import FoundationEssentials
import HTTPServer

/// The key in a request: the user name of Basic with an empty password, a Bearer token, or `X-Api-Key`.
///
/// Source: RFC 7617 §2, RFC 6750 §2.1
enum KeyReading {
    /// The longest key that is accepted, in bytes.
    static let lengthLimit = 255

    /// - Throws: `key_refused` without a key, `malformed_request` for two different keys.
    static func key(_ fields: Request.Fields) throws(CheckoutFailure) -> String {
        guard !fields.isRepeated(.key) else {
            throw CheckoutFailure(.malformedRequest, "there is more than one X-Api-Key")
        }
        let header = fields[.key]
        let authorized = fields.authorization.flatMap { Self.key(authorization: $0) }
        if let header, let authorized, header != authorized {
            throw CheckoutFailure(.malformedRequest, "Authorization and X-Api-Key have different keys: send one")
        }
        guard let key = authorized ?? header, !key.isEmpty, key.utf8.count <= Self.lengthLimit else {
            throw Self.refused
        }
        return key
    }

    /// The refusal of a key, the same for a missing, an unknown and a revoked one.
    static var refused: CheckoutFailure {
        var failure = CheckoutFailure(.keyRefused, "the secret key is missing or wrong")
        failure.headers = ["www-authenticate": "Basic realm=\"waybill\""]
        return failure
    }

    private static func key(authorization: String) -> String? {
        guard let (scheme, credential) = Self.parts(of: authorization) else { return nil }
        switch scheme {
        case "bearer": return credential
        case "basic":
            guard let data = Data(base64Encoded: credential), let text = String(validating: data, as: UTF8.self),
                text.last == ":"
            else { return nil }
            return String(text.dropLast())
        default: return nil
        }
    }

    /// Returns `user:password` of `Authorization: Basic`; nil for another scheme.
    static func credential(basic authorization: String) -> [UInt8]? {
        guard let (scheme, credential) = self.parts(of: authorization), scheme == "basic" else { return nil }
        return Data(base64Encoded: credential).map { [UInt8]($0) }
    }

    private static func parts(of authorization: String) -> (scheme: String, credential: String)? {
        guard let space = authorization.firstIndex(of: " ") else { return nil }
        let credential = authorization[authorization.index(after: space)...].drop { $0 == " " }
        return (authorization[..<space].lowercased(), String(credential))
    }
}
