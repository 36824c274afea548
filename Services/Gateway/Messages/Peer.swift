/// The other end of a connection: a client, or a trusted proxy that says who the client is.
struct Peer: Sendable {
    /// The peer as a client.
    let client: ClientAddress
    /// All trusted proxies if the peer is one of them; nil for others, whose `X-Forwarded-For` is not looked at.
    let proxies: TrustedProxies?

    /// Whether the peer's `X-Forwarded-For` counts.
    var isTrusted: Bool { self.proxies != nil }

    /// Who sent a request that arrived from this peer.
    ///
    /// - Parameter forwardedFor: the values of the request's `X-Forwarded-For` headers, in their order.
    func client(forwardedFor: [String]) -> ClientAddress {
        guard let proxies = self.proxies, !forwardedFor.isEmpty else { return self.client }
        return ForwardedFor(forwardedFor).client(trusting: proxies).map { ClientAddress($0) } ?? self.client
    }
}
