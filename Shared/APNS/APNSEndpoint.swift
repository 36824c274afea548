/// Where notifications go: APNs, or a simulator.
///
/// Source: Wallet Orders §4.2
public struct APNSEndpoint: Hashable, Sendable, CustomStringConvertible {
    /// A name or an IP address, IPv6 without brackets.
    public let host: String
    public let port: Int

    /// - Parameter url: `https://host[:port]`; the port is 443 if it is not given.
    /// - Throws: `APNSError` with code `.configuration`.
    public init(url: String) throws(APNSError) {
        let refusal = APNSError(
            .configuration, "reading \"\(url.prefix(100))\": an endpoint looks like https://host:port")
        let scheme = "https://"
        guard url.lowercased().hasPrefix(scheme) else { throw refusal }
        var rest = url.dropFirst(scheme.count)
        if rest.last == "/" { rest = rest.dropLast() }
        var portText: Substring?
        if rest.first == "[" {
            guard let end = rest.firstIndex(of: "]") else { throw refusal }
            let after = rest[rest.index(after: end)...]
            guard after.isEmpty || after.first == ":" else { throw refusal }
            if !after.isEmpty { portText = after.dropFirst() }
            rest = rest[rest.index(after: rest.startIndex)..<end]
            guard rest.utf8.allSatisfy(isIPv6Character) else { throw refusal }
        } else {
            if let colon = rest.firstIndex(of: ":") {
                portText = rest[rest.index(after: colon)...]
                rest = rest[..<colon]
            }
            guard rest.utf8.allSatisfy(isHostCharacter) else { throw refusal }
        }
        guard !rest.isEmpty, rest.utf8.count <= 253 else { throw refusal }
        self.host = String(rest)
        guard let portText else {
            self.port = 443
            return
        }
        guard let port = UInt16(portText), port > 0 else { throw refusal }
        self.port = Int(port)
    }

    /// What stands in `:authority`: the port only when it is not the scheme's own.
    ///
    /// Source: RFC 9113 §8.3.1
    var authority: String {
        let host = self.host.contains(":") ? "[\(self.host)]" : self.host
        return self.port == 443 ? host : "\(host):\(self.port)"
    }

    /// `host:port`
    public var description: String {
        self.host.contains(":") ? "[\(self.host)]:\(self.port)" : "\(self.host):\(self.port)"
    }
}

private func isHostCharacter(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
        true
    default: false
    }
}

private func isIPv6Character(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "f"), UInt8(ascii: "A")...UInt8(ascii: "F"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: ":"), UInt8(ascii: "."):
        true
    default: false
    }
}
