import NIOCore
import NIOHTTP1

/// One request of the tools.
struct HTTPRequest: Sendable {
    var method: HTTPMethod = .GET
    /// `http` or `https`, with host, port and path.
    var url: String
    var headers: [(String, String)] = []
    var body: [UInt8] = []
}

/// One complete answer.
struct HTTPResponse: Sendable {
    var status: Int
    var headers: HTTPHeaders
    var body: [UInt8]
    /// True if the connection may carry another request.
    var isKeepAlive: Bool

    /// Returns the first header with that name.
    func header(_ name: String) -> String? { self.headers.first(name: name) }
}

/// The destination of a connection.
struct HTTPOrigin: Hashable, Sendable {
    let isSecure: Bool
    let host: String
    let port: Int

    /// The value of `Host`.
    var authority: String { self.port == (self.isSecure ? 443 : 80) ? self.host : "\(self.host):\(self.port)" }

    /// Splits a URL into the address to connect to and the request target. No user information, no IPv6 literals: the
    /// tools need none.
    static func split(_ url: String) throws(ToolError) -> (origin: HTTPOrigin, target: String) {
        let isSecure = url.hasPrefix("https://")
        guard isSecure || url.hasPrefix("http://") else {
            throw ToolError(.input, "reading the URL \(url): it must start with http:// or https://")
        }
        let rest = url.dropFirst(isSecure ? 8 : 7)
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        var target = String(rest.dropFirst(authority.count))
        if !target.hasPrefix("/") { target = "/" + target }
        let parts = authority.split(separator: ":", omittingEmptySubsequences: false)
        let port = parts.count == 2 ? Int(parts[1]) : (isSecure ? 443 : 80)
        guard (1...2).contains(parts.count), !parts[0].isEmpty, let port, (1...65_535).contains(port) else {
            throw ToolError(.input, "reading the URL \(url): no host and port in it")
        }
        return (HTTPOrigin(isSecure: isSecure, host: String(parts[0]), port: port), target)
    }
}
