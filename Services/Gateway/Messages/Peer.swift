/// The peer of a connection: a client, or a trusted proxy that names the client.
struct Peer: Sendable {
    /// The peer as a client.
    let client: ClientAddress
    /// All trusted proxies if the peer is one of them; nil for others, whose `X-Forwarded-For` is ignored.
    let proxies: TrustedProxies?

    /// True if the peer's `X-Forwarded-For` is trusted.
    var isTrusted: Bool { self.proxies != nil }

    /// Returns the client that sent a request which arrived from this peer.
    ///
    /// - Parameter forwardedFor: the values of the request's `X-Forwarded-For` headers, in their order.
    func client(forwardedFor: [String]) -> ClientAddress {
        guard let proxies = self.proxies, !forwardedFor.isEmpty else { return self.client }
        return ForwardedFor(forwardedFor).client(trusting: proxies).map { ClientAddress($0) } ?? self.client
    }
}
