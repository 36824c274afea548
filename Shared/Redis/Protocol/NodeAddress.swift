/// The address on which a server listens.
struct NodeAddress: Hashable, Sendable, CustomStringConvertible {
    /// Name or address, without brackets.
    let host: String
    let port: Int

    /// `host:port`, brackets around an IPv6 address.
    var description: String { self.host.contains(":") ? "[\(self.host)]:\(self.port)" : "\(self.host):\(self.port)" }

    init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// Parses `host:port` as servers announce it, an IPv6 address without brackets; nil for any other text.
    ///
    /// - Parameter asked: the server that announced it; its host replaces one that is empty or `?`, which means that
    ///   the server does not know.
    /// Source: Redis cluster specification, "MOVED Redirection"; CLUSTER SLOTS, "endpoint"
    init?(announced text: some StringProtocol, asked: NodeAddress) {
        guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
            (1...65535).contains(port)
        else { return nil }
        self.init(announcedHost: String(text[..<colon]), port: port, asked: asked)
    }

    /// As above, from separate parts.
    init(announcedHost host: String?, port: Int, asked: NodeAddress) {
        guard var host, !host.isEmpty, host != "?" else {
            self.init(host: asked.host, port: port)
            return
        }
        if host.hasPrefix("["), host.hasSuffix("]") { host = String(host.dropFirst().dropLast()) }
        self.init(host: host, port: port)
    }
}
