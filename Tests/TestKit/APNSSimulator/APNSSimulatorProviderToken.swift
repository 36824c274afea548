import Foundation
import Model

/// A parsed provider token; only its form is checked.
///
/// Source: Wallet Orders §4.4; RFC 7515 §3.1
struct APNSSimulatorProviderToken: Hashable {
    /// `kid`: ten characters.
    let keyIdentifier: String
    /// `iss`: ten characters.
    let team: String
    /// `iat`.
    let issuedEpochSeconds: Int64
    /// The signed bytes: header and claims as received, with the dot.
    let signed: [UInt8]
    /// r and s, 32 bytes each.
    let signature: [UInt8]

    /// - Returns: nil unless the text is `bearer` with an ES256 JSON Web Token whose members have the right form.
    init?(authorization: String) {
        let words = authorization.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 2, words[0].lowercased() == "bearer" else { return nil }
        let parts = words[1].split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3,
            let header = Self.object(parts[0]), let claims = Self.object(parts[1]),
            let signature = Self.bytes(parts[2]), signature.count == 64,
            header["alg"]?.string == "ES256",
            let key = header["kid"]?.string, key.utf8.count == 10,
            let team = claims["iss"]?.string, team.utf8.count == 10,
            let issued = claims["iat"]?.integer, issued >= 0
        else { return nil }
        self.keyIdentifier = key
        self.team = team
        self.issuedEpochSeconds = issued
        self.signed = Array(parts[0].utf8) + [UInt8(ascii: ".")] + Array(parts[1].utf8)
        self.signature = signature
    }

    private static func object(_ part: Substring) -> JSONObject? {
        Self.bytes(part).flatMap { try? JSON(parsing: $0).object }
    }

    /// Source: RFC 4648 §5, without padding
    private static func bytes(_ part: Substring) -> [UInt8]? {
        guard part.utf8.allSatisfy({ $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "=") })
        else { return nil }
        let plain = String(part.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 })
        let padding = String(repeating: "=", count: (4 - plain.utf8.count % 4) % 4)
        return Data(base64Encoded: plain + padding).map { [UInt8]($0) }
    }
}
