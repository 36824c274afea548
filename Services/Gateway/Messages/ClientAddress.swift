import NIOCore

/// Who a client is for limits that hold per address: its IPv4 address, or the /64 of its IPv6 address.
///
/// A household or a machine is given a /64 at least, and may take any address of it for each connection. The port does
/// not count. Clients whose address is not known, such as those of a Unix domain socket, are one.
/// Source: RFC 4291 §2.5.4, RFC 6177 §2
struct ClientAddress: Hashable, Sendable {
    private let key: UInt128

    init(_ address: IPAddress) {
        self.key = address.isVersion4 ? address.bits : address.bits & ~UInt128(UInt64.max)
    }

    /// - Parameter remote: the other end of a connection.
    init(_ remote: SocketAddress?) {
        guard let address = remote.flatMap({ IPAddress($0) }) else {
            self = .unknown
            return
        }
        self.init(address)
    }

    private init(key: UInt128) { self.key = key }

    /// All clients whose address is not known. No address has this key: a network's last 64 bits are zero.
    static let unknown = ClientAddress(key: 1)
}
