/// Decides which addresses may be connected to: those of the public internet.
///
/// It judges the address of the connection itself, not the earlier result of a look-up, so that a name that changes its
/// address in between (DNS rebinding) gains nothing.
/// Source: IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890)
public struct AddressPolicy: Sendable {
    /// No exceptions.
    static let publicOnly = AddressPolicy(exceptions: [])

    private let exceptions: Set<IPAddress>

    /// - Parameter exceptions: single addresses that are allowed nevertheless, for tests and development, whose servers
    ///   listen on loopback.
    public init(exceptions: Set<IPAddress>) { self.exceptions = exceptions }

    /// Returns true if a connection to the address may be made.
    public func allows(_ address: IPAddress) -> Bool {
        if self.exceptions.contains(address) { return true }
        switch address.bytes.count {
        case 4: return !Self.special.contains { $0.contains(address.bytes) }
        case 16:
            // The address embedded in a carrier address is the one that is finally reached.
            if Self.carriers.contains(where: { $0.contains(address.bytes) }) {
                return !Self.special.contains { $0.contains(Array(address.bytes[12...])) }
            }
            return Self.globalUnicast.contains(address.bytes)
                && !Self.specialUnicast.contains { $0.contains(address.bytes) }
        default: return false
        }
    }

    /// The leading bits that a range of addresses has in common.
    private struct Prefix: Sendable {
        let bytes: [UInt8]
        let length: Int

        init(_ bytes: UInt8..., length: Int) {
            self.bytes = bytes
            self.length = length
        }

        func contains(_ address: [UInt8]) -> Bool {
            for index in 0..<(self.length + 7) / 8 {
                let bits = min(8, self.length - index * 8)
                let mask = UInt8(truncatingIfNeeded: 0xFF00 >> bits)
                let own = index < self.bytes.count ? self.bytes[index] : 0
                guard index < address.count, address[index] & mask == own & mask else { return false }
            }
            return true
        }
    }

    private static let special: [Prefix] = [
        Prefix(0, length: 8),  // this network
        Prefix(10, length: 8),  // private
        Prefix(100, 64, length: 10),  // shared by carriers (CGNAT)
        Prefix(127, length: 8),  // loopback
        Prefix(169, 254, length: 16),  // link-local, and clouds' metadata services
        Prefix(172, 16, length: 12),  // private
        Prefix(192, 0, 0, length: 24),  // protocol assignments
        Prefix(192, 0, 2, length: 24),  // documentation
        Prefix(192, 88, 99, length: 24),  // 6to4 relays
        Prefix(192, 168, length: 16),  // private
        Prefix(198, 18, length: 15),  // benchmarks
        Prefix(198, 51, 100, length: 24),  // documentation
        Prefix(203, 0, 113, length: 24),  // documentation
        Prefix(224, length: 4),  // multicast
        Prefix(240, length: 4),  // reserved, and broadcast
    ]

    /// IPv4 in the last four bytes: mapped addresses, and NAT64, which a network without IPv4 needs to reach anything.
    ///
    /// Source: RFC 4291 §2.5.5.2, RFC 6052 §2.1
    private static let carriers: [Prefix] = [
        Prefix(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, length: 96),
        Prefix(0x00, 0x64, 0xFF, 0x9B, length: 96),
    ]

    /// Everything else is loopback, unspecified, link-local, unique local, multicast or unassigned. Source: RFC 4291
    /// §2.4
    private static let globalUnicast = Prefix(0x20, length: 3)

    private static let specialUnicast: [Prefix] = [
        Prefix(0x20, 0x01, 0x00, length: 23),  // protocol assignments: Teredo, ORCHID, benchmarks
        Prefix(0x20, 0x01, 0x0D, 0xB8, length: 32),  // documentation
        Prefix(0x20, 0x02, length: 16),  // 6to4, deprecated: RFC 7526
        Prefix(0x3F, 0xFF, 0x00, length: 20),  // documentation
    ]
}
