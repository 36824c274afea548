import NIOCore

/// The destination of notifications: APNs, or a simulator.
///
/// Source: Wallet Orders §4.2
public struct APNSEndpoint: Hashable, Sendable, CustomStringConvertible {
    /// A name or an IP address, IPv6 without brackets.
    public let host: String
    /// 443, or 2197 if a firewall allows only that.
    public let port: Int

    /// - Parameter url: `https://host[:port]`; the port is 443 if it is not given.
    /// - Throws: `APNSError` with code `.configuration` if the URL has another form.
    public init(url: String) throws(APNSError) {
        let refusal = APNSError(
            .configuration, "reading \"\(url.prefix(100))\": an endpoint looks like https://host:port")
        let scheme = "https://"
        guard url.lowercased().hasPrefix(scheme) else { throw refusal }
        var rest = url.dropFirst(scheme.count)
        if rest.last == "/" { rest = rest.dropLast() }
        guard let address = HostAndPort(rest) else { throw refusal }
        self.host = address.host
        self.port = address.port ?? 443
    }

    /// True if the host is an IP address. Through a proxy such an endpoint cannot be verified: TLS compares the address
    /// of the peer, which is the proxy.
    public var isAddress: Bool { (try? SocketAddress(ipAddress: self.host, port: 0)) != nil }

    /// The value of `:authority`, with the port only if it is not the scheme's default.
    ///
    /// Source: RFC 9113 §8.3.1
    var authority: String {
        if self.port != 443 { return self.description }
        return self.host.contains(":") ? "[\(self.host)]" : self.host
    }

    /// `host:port`
    public var description: String { HostAndPort.text(self.host, self.port) }
}
