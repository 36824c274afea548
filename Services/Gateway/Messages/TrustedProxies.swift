import NIOCore

/// The proxies whose word about a client's address is taken.
struct TrustedProxies: Hashable, Sendable {
    private let networks: [AddressNetwork]

    /// Nobody's word is taken.
    static let none = TrustedProxies(networks: [])

    private init(networks: [AddressNetwork]) { self.networks = networks }

    /// - Parameter text: addresses and networks, separated by commas; nil if one of them is none.
    init?(_ text: String) {
        let parts = text.split(separator: ",", omittingEmptySubsequences: false).map { part in
            AddressNetwork(part.split(separator: " ").joined(separator: " "))
        }
        let networks = parts.compactMap(\.self)
        guard networks.count == parts.count else { return nil }
        self.networks = networks
    }

    func contains(_ address: IPAddress) -> Bool { self.networks.contains { $0.contains(address) } }

    /// The other end of a connection.
    func peer(_ remote: SocketAddress?) -> Peer {
        let address = remote.flatMap { IPAddress($0) }
        let isTrusted = address.map { self.contains($0) } ?? false
        return Peer(client: ClientAddress(remote), proxies: isTrusted ? self : nil)
    }
}
