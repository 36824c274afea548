import Fetch
import NIOCore

/// The proxies trusted to report a client's address.
public struct TrustedProxies: Hashable, Sendable {
    private let networks: [AddressNetwork]

    /// No proxy is trusted.
    public static let none = TrustedProxies(networks: [])

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

/// The addresses of `X-Forwarded-For`, as far as they can be trusted.
///
/// Each proxy appends the address that it was called from, so the header is reliable from its right end up to the first
/// address that is not one of our proxies; anything left of that one was sent by the client and may be false. It is not
/// even parsed: a client that sends junk must not be counted as the proxy, which others share.
struct ForwardedFor: Hashable, Sendable {
    /// Most proxies that a request may have passed.
    static let hopLimit = 16

    private let values: [String]

    /// - Parameter values: those of the headers, in their order; several are one list. Source: RFC 9110 §5.3
    init(_ values: [String]) { self.values = values }

    /// Returns the right-most address that is not a trusted proxy, or the left-most one if all are.
    ///
    /// - Returns: nil if there is no address, one that had to be parsed is malformed, or there are too many proxies.
    func client(trusting proxies: TrustedProxies) -> IPAddress? {
        var furthest: IPAddress?
        var hops = 0
        for value in self.values.reversed() {
            var rest = Array(value.utf8)[...]
            while true {
                let comma = rest.lastIndex(of: UInt8(ascii: ","))
                let part = comma.map { rest[($0 + 1)...] } ?? rest
                guard hops < Self.hopLimit, let address = Self.address(part) else { return nil }
                guard proxies.contains(address) else { return address }
                furthest = address
                hops += 1
                guard let comma else { break }
                rest = rest[..<comma]
            }
        }
        return furthest
    }

    /// Parses one entry: an address, to which some proxies append the port (`192.0.2.1:4711`, `[2001:db8::1]:4711`).
    private static func address(_ bytes: ArraySlice<UInt8>) -> IPAddress? {
        let isBlank = { (byte: UInt8) in byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        var bytes = bytes.drop(while: isBlank)
        while let last = bytes.last, isBlank(last) { bytes.removeLast() }
        if bytes.first == UInt8(ascii: "[") {
            guard let end = bytes.lastIndex(of: UInt8(ascii: "]")), Self.isPort(bytes[(end + 1)...]) else { return nil }
            let inner = bytes[(bytes.startIndex + 1)..<end]
            return inner.contains(UInt8(ascii: ":")) ? Self.parse(inner) : nil
        }
        let colons = bytes.indices.filter { bytes[$0] == UInt8(ascii: ":") }
        guard colons.count == 1 else { return Self.parse(bytes) }
        return Self.isPort(bytes[colons[0]...]) ? Self.parse(bytes[..<colons[0]]) : nil
    }

    private static func parse(_ bytes: ArraySlice<UInt8>) -> IPAddress? {
        String(validating: bytes, as: UTF8.self).flatMap { IPAddress($0) }
    }

    /// True for the empty text, or a colon and one to five digits.
    private static func isPort(_ bytes: ArraySlice<UInt8>) -> Bool {
        guard let first = bytes.first else { return true }
        let digits = bytes.dropFirst()
        return first == UInt8(ascii: ":") && (1...5).contains(digits.count)
            && digits.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }
}
