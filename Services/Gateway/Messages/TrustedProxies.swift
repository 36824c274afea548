import NIOCore

/// The proxies trusted to report a client's address.
struct TrustedProxies: Hashable, Sendable {
    private let networks: [AddressNetwork]

    /// No proxy is trusted.
    static let none = TrustedProxies(networks: [])

    private init(networks: [AddressNetwork]) { self.networks = networks }

    /// - Parameter text: addresses and networks, separated by commas; nil if one of them is invalid.
    init?(_ text: String) {
        let parts = text.split(separator: ",", omittingEmptySubsequences: false).map { part in
            AddressNetwork(part.split(separator: " ").joined(separator: " "))
        }
        let networks = parts.compactMap(\.self)
        guard networks.count == parts.count else { return nil }
        self.networks = networks
    }

    func contains(_ address: IPAddress) -> Bool { self.networks.contains { $0.contains(address) } }

    /// Returns the peer of a connection.
    func peer(_ remote: SocketAddress?) -> Peer {
        let address = remote.flatMap { IPAddress($0) }
        let isTrusted = address.map { self.contains($0) } ?? false
        return Peer(client: ClientAddress(remote), proxies: isTrusted ? self : nil)
    }
}
