/// Decides which addresses may be asked: those of the public internet.
///
/// It judges the address of the connection itself for each request, not the earlier result of a look-up, so that a name
/// that changes its address in between (DNS rebinding) gains nothing.
/// Source: IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890)
public struct AddressPolicy: Sendable {
    /// No exceptions.
    static let publicOnly = AddressPolicy(exceptions: [])

    /// Every address: for servers that an operator chose.
    public static let any = AddressPolicy(exceptions: [], allowsAll: true)

    private let exceptions: Set<IPAddress>
    private let allowsAll: Bool

    /// - Parameter exceptions: single addresses that are allowed nevertheless, for tests and development, whose servers
    ///   listen on loopback.
    public init(exceptions: Set<IPAddress>) { self.init(exceptions: exceptions, allowsAll: false) }

    private init(exceptions: Set<IPAddress>, allowsAll: Bool) {
        self.exceptions = exceptions
        self.allowsAll = allowsAll
    }

    /// Returns true if a connection to the address may be made.
    public func allows(_ address: IPAddress) -> Bool {
        if self.allowsAll || self.exceptions.contains(address) { return true }
        // The IPv4 address inside another one is the one that is finally reached.
        let inner = IPAddress(version4: UInt32(truncatingIfNeeded: address.bits))
        if address.isVersion4 || Self.translated.contains(address) {
            return !Self.special.contains { $0.contains(inner) }
        }
        return Self.globalUnicast.contains(address) && !Self.specialUnicast.contains { $0.contains(address) }
    }

    /// - Parameter texts: constants, each a network.
    private static func networks(_ texts: String...) -> [AddressNetwork] { texts.compactMap { AddressNetwork($0) } }

    private static let special = networks(
        "0.0.0.0/8",  // this network
        "10.0.0.0/8",  // private
        "100.64.0.0/10",  // shared by carriers (CGNAT)
        "127.0.0.0/8",  // loopback
        "169.254.0.0/16",  // link-local, and clouds' metadata services
        "172.16.0.0/12",  // private
        "192.0.0.0/24",  // protocol assignments
        "192.0.2.0/24",  // documentation
        "192.88.99.0/24",  // 6to4 relays
        "192.168.0.0/16",  // private
        "198.18.0.0/15",  // benchmarks
        "198.51.100.0/24",  // documentation
        "203.0.113.0/24",  // documentation
        "224.0.0.0/4",  // multicast
        "240.0.0.0/4"  // reserved, and broadcast
    )

    /// IPv4 in the last four bytes: NAT64, which a network without IPv4 needs to reach anything. Source: RFC 6052 §2.1
    private static let translated = AddressNetwork(IPAddress(bits: 0x64_FF9B << 96), length: 96)

    /// Everything else is loopback, unspecified, link-local, unique local, multicast or unassigned. Source: RFC 4291
    /// §2.4
    private static let globalUnicast = AddressNetwork(IPAddress(bits: 0x2 << 124), length: 3)

    private static let specialUnicast = networks(
        "2001::/23",  // protocol assignments: Teredo, ORCHID, benchmarks
        "2001:db8::/32",  // documentation
        "2002::/16",  // 6to4, deprecated: RFC 7526
        "3fff::/20"  // documentation
    )
}
