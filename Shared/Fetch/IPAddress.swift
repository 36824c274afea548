import CCurl
import Glibc

/// An IPv4 or IPv6 address.
///
/// Both are one number of 128 bits: an IPv4 address is the IPv6 address that it is mapped to (`::ffff:a.b.c.d`), so the
/// two spellings of one address are equal. Source: RFC 4291 §2.5.5.2
public struct IPAddress: Hashable, Sendable, CustomStringConvertible {
    public let bits: UInt128

    private static let mappedPrefix: UInt128 = 0xFFFF << 32

    public init(bits: UInt128) { self.bits = bits }

    public init(version4 value: UInt32) { self.bits = Self.mappedPrefix | UInt128(value) }

    /// Parses `192.0.2.1` or any of the forms of IPv6; nil for anything else.
    ///
    /// Strict: no leading zeros in IPv4 (which some parse as octal), no zone, no brackets, no blanks.
    /// Source: RFC 4291 §2.2, RFC 6943 §3.1.1; inet_pton(3)
    public init?(_ text: String) {
        guard !text.utf8.contains(0) else { return nil }
        var bytes = [UInt8](repeating: 0, count: 16)
        if unsafe inet_pton(AF_INET, text, &bytes) == 1 {
            self.init(version4: UInt32(truncatingIfNeeded: Self.number(bytes[..<4])))
        } else if unsafe inet_pton(AF_INET6, text, &bytes) == 1 {
            self.init(bits: Self.number(bytes[...]))
        } else {
            return nil
        }
    }

    /// Reads the address that libcurl is about to connect to; nil for one of another family.
    init?(_ address: UnsafeMutablePointer<curl_sockaddr>) {
        // The member is declared, so it has an offset.
        let offset = MemoryLayout<curl_sockaddr>.offset(of: \.addr)!
        let start = unsafe UnsafeRawPointer(address) + offset
        let raw = unsafe UnsafeRawBufferPointer(start: start, count: Int(address.pointee.addrlen))
        unsafe self.init(family: address.pointee.family, raw)
    }

    /// Reads a socket address; nil for one of another family.
    ///
    /// Layout: `sockaddr_in` has its address in bytes 4 to 7, `sockaddr_in6` in bytes 8 to 23.
    /// Source: netinet/in.h
    init?(family: Int32, _ raw: UnsafeRawBufferPointer) {
        switch (family, raw.count) {
        case (AF_INET, MemoryLayout<sockaddr_in>.size...):
            self.init(version4: unsafe UInt32(truncatingIfNeeded: Self.number(Array(raw[4..<8])[...])))
        case (AF_INET6, MemoryLayout<sockaddr_in6>.size...):
            self.init(bits: unsafe Self.number(Array(raw[8..<24])[...]))
        default: return nil
        }
    }

    /// True if it is an IPv4 address, mapped or not.
    public var isVersion4: Bool { self.bits >> 32 == 0xFFFF }

    /// As libcurl takes it after a host and port: IPv6 in brackets.
    var pinned: String { self.isVersion4 ? "\(self)" : "[\(self)]" }

    public var description: String {
        func part(_ index: Int, of size: Int) -> UInt128 {
            self.bits >> UInt128(index * size) & (1 << UInt128(size) - 1)
        }
        return self.isVersion4
            ? (0..<4).reversed().map { "\(part($0, of: 8))" }.joined(separator: ".")
            : (0..<8).reversed().map { String(part($0, of: 16), radix: 16) }.joined(separator: ":")
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt128 { bytes.reduce(0) { $0 << 8 | UInt128($1) } }
}

/// A network of IPv4 or IPv6 addresses, such as `10.0.0.0/8`.
public struct AddressNetwork: Hashable, Sendable {
    private let prefix: UInt128
    private let mask: UInt128

    /// Parses an address, or an address with the length of its network's prefix; bits after the prefix are ignored.
    ///
    /// Source: RFC 4632 §3.1, RFC 4291 §2.3
    /// - Parameter text: `192.0.2.0/24`, `2001:db8::/32`, or one address. Nil if it is none of them.
    public init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count <= 2, let address = IPAddress(String(parts[0])) else { return nil }
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
        self.init(address, length: isPlain ? 96 + length : length)
    }

    /// - Parameter length: that of the prefix, of 128 bits.
    init(_ address: IPAddress, length: Int) {
        // A shift by all 128 bits gives zero: the network of all addresses.
        self.mask = UInt128.max << UInt128(128 - length)
        self.prefix = address.bits & self.mask
    }

    public func contains(_ address: IPAddress) -> Bool { address.bits & self.mask == self.prefix }
}
