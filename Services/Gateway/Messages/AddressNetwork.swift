/// A network of IPv4 or IPv6 addresses, such as `10.0.0.0/8`.
struct AddressNetwork: Hashable, Sendable {
    private let prefix: UInt128
    private let mask: UInt128

    /// Parses an address, or an address with the length of its network's prefix; bits after the prefix are ignored.
    ///
    /// Source: RFC 4632 §3.1, RFC 4291 §2.3
    /// - Parameter text: `192.0.2.0/24`, `2001:db8::/32`, or one address. Nil if it is none of them.
    init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count <= 2, let address = IPAddress(parts[0]) else { return nil }
        // A mapped address is written as IPv6, with a length of up to 128; a plain one has up to 32.
        let isPlain = !parts[0].contains(":")
        var length = isPlain ? 32 : 128
        if parts.count == 2 {
            let digits = parts[1]
            guard !digits.isEmpty, digits.utf8.count <= 3,
                digits.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
                let given = Int(digits), given <= length
            else { return nil }
            length = given
        }
        let ignored = isPlain ? 32 - length : 128 - length
        // A shift by all 128 bits gives zero: the network of all addresses.
        self.mask = UInt128.max << UInt128(ignored)
        self.prefix = address.bits & self.mask
    }

    func contains(_ address: IPAddress) -> Bool { address.bits & self.mask == self.prefix }
}
