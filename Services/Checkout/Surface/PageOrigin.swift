import HTTPServer
import NIOHTTP1

/// The origin of a page, as browsers send it: `https://shop.example.com`, with any port but the scheme's default.
///
/// Source: RFC 6454 §6.2; Fetch standard, "Origin header"
struct PageOrigin: Hashable, Sendable, CustomStringConvertible {
    /// In lower case.
    let host: String
    let port: Int
    let isSecure: Bool

    /// - Parameter text: exactly as a browser serializes it. Nil for `null`, and for anything with a path, user
    ///   information, capital letters, or the default port.
    init?(_ text: String) {
        let isSecure = text.hasPrefix("https://")
        guard isSecure || text.hasPrefix("http://") else { return nil }
        let rest = text.dropFirst(isSecure ? 8 : 7)
        let parts = rest.split(separator: ":", omittingEmptySubsequences: false)
        let standard = isSecure ? 443 : 80
        guard (1...2).contains(parts.count), Self.isHost(parts[0]) else { return nil }
        var port = standard
        if parts.count == 2 {
            guard let given = Int(parts[1]), (1...65_535).contains(given), String(given) == parts[1], given != standard
            else { return nil }
            port = given
        }
        self.host = String(parts[0])
        self.port = port
        self.isSecure = isSecure
    }

    /// True if only pages of this machine have it.
    var isLoopback: Bool { self.host == "localhost" || self.host.hasSuffix(".localhost") || self.host == "127.0.0.1" }

    var description: String {
        let standard = self.isSecure ? 443 : 80
        return (self.isSecure ? "https://" : "http://") + self.host + (self.port == standard ? "" : ":\(self.port)")
    }

    /// True for a name with labels of lower-case letters, digits and hyphens, or an IPv4 address. Pages of IPv6
    /// addresses take no payments.
    static func isHost(_ text: some StringProtocol) -> Bool {
        let labels = text.split(separator: ".", omittingEmptySubsequences: false)
        return text.utf8.count <= 253
            && labels.allSatisfy { label in
                (1...63).contains(label.utf8.count) && label.first != "-"
                    && label.last != "-"
                    && label.utf8.allSatisfy { ($0.isLetter && $0 == $0.lowercasedASCII) || $0.isDigit || $0 == 0x2D }
            }
    }

    /// The fields that let a page of this origin read an answer. Credentials are never allowed.
    var fields: HTTPHeaders {
        [
            "access-control-allow-origin": self.description,
            "access-control-expose-headers": "X-Request-Id, Retry-After",
        ]
    }
}
