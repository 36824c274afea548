/// The HTTP proxy through which connections are made, by CONNECT.
///
/// Source: RFC 9110 §9.3.6
public struct APNSProxy: Hashable, Sendable, CustomStringConvertible {
    /// A name or an IP address, IPv6 without brackets.
    public let host: String
    public let port: Int
    /// `user:password` for `proxy-authorization: Basic`, percent-decoded; never part of a message.
    let basicCredential: String?

    /// - Parameter url: `http://[user:password@]host:port`; the port is required, because proxies have no default port.
    /// - Throws: `APNSError` with code `.configuration`; the message omits the URL, which may contain a password.
    public init(url: String) throws(APNSError) {
        let refusal = APNSError(
            .configuration, "reading the proxy's address: it looks like http://[user:password@]host:port")
        let scheme = "http://"
        guard url.lowercased().hasPrefix(scheme) else { throw refusal }
        var rest = url.dropFirst(scheme.count)
        if rest.last == "/" { rest = rest.dropLast() }
        if let at = rest.lastIndex(of: "@") {
            guard let credential = decodePercents(rest[..<at]), credential.contains(":") else { throw refusal }
            self.basicCredential = credential
            rest = rest[rest.index(after: at)...]
        } else {
            self.basicCredential = nil
        }
        guard let address = HostAndPort(rest), let port = address.port else { throw refusal }
        self.host = address.host
        self.port = port
    }

    /// `host:port`, without the credential.
    public var description: String { HostAndPort.text(self.host, self.port) }
}

/// - Returns: nil if an escape is malformed or the decoded bytes are not text allowed in a header.
private func decodePercents(_ text: Substring) -> String? {
    var bytes: [UInt8] = []
    var rest = text.utf8[...]
    while let byte = rest.popFirst() {
        guard byte == UInt8(ascii: "%") else {
            bytes.append(byte)
            continue
        }
        guard let high = rest.popFirst().flatMap(hexDigit), let low = rest.popFirst().flatMap(hexDigit) else {
            return nil
        }
        bytes.append(high << 4 | low)
    }
    guard bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else { return nil }
    return String(validating: bytes, as: UTF8.self)
}

private func hexDigit(_ byte: UInt8) -> UInt8? { Character(Unicode.Scalar(byte)).hexDigitValue.map(UInt8.init) }
