import Fetch
import NIOCore

/// The identity of a client for limits per address: its IPv4 address, or the /64 of its IPv6 address.
///
/// A household or a machine is given at least a /64, and may use any address of it for each connection. The port does
/// not count. All clients whose address is not known, such as those of a Unix domain socket, count as one.
/// Source: RFC 4291 §2.5.4, RFC 6177 §2
public struct ClientAddress: Hashable, Sendable {
    private let key: UInt128

    init(_ address: IPAddress) {
        self.key = address.isVersion4 ? address.bits : address.bits & ~UInt128(UInt64.max)
    }

    /// - Parameter remote: the remote address of a connection.
    init(_ remote: SocketAddress?) {
        guard let address = remote.flatMap({ IPAddress($0) }) else {
            self = .unknown
            return
        }
        self.init(address)
    }

    /// The network of the address: roughly its owner.
    public var network: ClientNetwork { ClientNetwork(IPAddress(bits: self.key)) }

    private init(key: UInt128) { self.key = key }

    /// All clients whose address is not known. No address has this key: a network's last 64 bits are zero.
    static let unknown = ClientAddress(key: 1)
}

/// The neighbourhood of a client, for limits that one customer of a network must not evade by using many addresses: the
/// /48 of an IPv6 address, the /24 of an IPv4 address.
///
/// A /48 is assigned to a site, with 65,536 of the /64 that count as one address. A /24 is the smallest IPv4 network
/// that is routed by itself, so the smallest that is rented; strangers may share one, such as the customers of a
/// carrier-grade NAT. Source: RFC 6177 §2, RFC 7454 §6.1.3
public struct ClientNetwork: Hashable, Sendable {
    private let prefix: UInt128

    init(_ address: IPAddress) {
        self.prefix = address.bits & UInt128.max << (address.isVersion4 ? 8 : 80)
    }
}

extension IPAddress {
    /// Takes the address of a socket; nil if it has none, such as a Unix domain socket.
    init?(_ address: SocketAddress) {
        guard let text = address.ipAddress else { return nil }
        self.init(text)
    }
}
