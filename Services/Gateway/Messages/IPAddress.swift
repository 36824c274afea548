import NIOCore

/// An IPv4 or IPv6 address.
///
/// Both are one number of 128 bits: an IPv4 address is the IPv6 address that it is mapped to (`::ffff:a.b.c.d`), so the
/// two spellings of one client are equal. Source: RFC 4291 §2.5.5.2
struct IPAddress: Hashable, Sendable {
    let bits: UInt128

    private static let mappedPrefix: UInt128 = 0xFFFF << 32

    init(bits: UInt128) { self.bits = bits }

    init(version4 value: UInt32) { self.bits = Self.mappedPrefix | UInt128(value) }

    /// Takes the address of a socket; nil if it has none, such as a Unix domain socket.
    init?(_ address: SocketAddress) {
        guard let text = address.ipAddress else { return nil }
        self.init(text)
    }

    /// Parses the dotted form of IPv4 or any of the forms of IPv6.
    ///
    /// Strict: no leading zeros in IPv4 (which some parse as octal), no zone, no brackets, no blanks.
    /// Source: RFC 4291 §2.2, RFC 6943 §3.1.1
    init?(_ text: some StringProtocol) { self.init(bytes: Array(text.utf8)[...]) }

    /// Parses the same forms from the bytes of a text.
    init?(bytes: ArraySlice<UInt8>) {
        if bytes.contains(Self.colon) {
            guard let bits = Self.version6(bytes) else { return nil }
            self.init(bits: bits)
        } else {
            guard let value = Self.version4(bytes) else { return nil }
            self.init(version4: value)
        }
    }

    /// True if it is an IPv4 address, mapped or not.
    var isVersion4: Bool { self.bits >> 32 == 0xFFFF }

    private static let colon = UInt8(ascii: ":")
    private static let dot = UInt8(ascii: ".")

    private static func version4(_ bytes: ArraySlice<UInt8>) -> UInt32? {
        // 255.255.255.255
        guard bytes.count <= 15 else { return nil }
        let parts = bytes.split(separator: self.dot, omittingEmptySubsequences: false)
        guard parts.count == 4 else { return nil }
        var value: UInt32 = 0
        for part in parts {
            guard (1...3).contains(part.count), part.count == 1 || part.first != UInt8(ascii: "0") else { return nil }
            var number: UInt32 = 0
            for byte in part {
                guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
                number = number * 10 + UInt32(byte - UInt8(ascii: "0"))
            }
            guard number <= 255 else { return nil }
            value = value << 8 | number
        }
        return value
    }

    private static func version6(_ bytes: ArraySlice<UInt8>) -> UInt128? {
        // ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255
        guard bytes.count <= 45 else { return nil }
        let gap = bytes.indices.dropLast().first { bytes[$0] == self.colon && bytes[$0 + 1] == self.colon }
        guard let gap else {
            guard let groups = self.groups(bytes), groups.count == 8 else { return nil }
            return self.joined(groups)
        }
        guard let front = gap == bytes.startIndex ? [] : self.groups(bytes[..<gap], mayEndInVersion4: false),
            let back = gap + 2 == bytes.endIndex ? [] : self.groups(bytes[(gap + 2)...]),
            // The gap represents at least one group; a gap in the back is an empty group, so there is only one gap.
            front.count + back.count <= 7
        else { return nil }
        return self.joined(front + Array(repeating: 0, count: 8 - front.count - back.count) + back)
    }

    private static func joined(_ groups: [UInt16]) -> UInt128 { groups.reduce(0) { $0 << 16 | UInt128($1) } }

    private static func groups(_ bytes: ArraySlice<UInt8>, mayEndInVersion4: Bool = true) -> [UInt16]? {
        var groups: [UInt16] = []
        let parts = bytes.split(separator: self.colon, omittingEmptySubsequences: false)
        for (index, part) in parts.enumerated() {
            if mayEndInVersion4, index == parts.count - 1, part.contains(self.dot) {
                guard let value = self.version4(part) else { return nil }
                groups += [UInt16(value >> 16), UInt16(value & 0xFFFF)]
            } else {
                guard (1...4).contains(part.count) else { return nil }
                var group: UInt16 = 0
                for byte in part {
                    guard let digit = Character(UnicodeScalar(byte)).hexDigitValue else { return nil }
                    group = group << 4 | UInt16(digit)
                }
                groups.append(group)
            }
        }
        return groups
    }
}
