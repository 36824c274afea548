public import NIOCore

/// The time limits and bounds of a client; the defaults suit APNs itself.
public struct APNSConfiguration: Sendable {
    // MARK: Requests

    /// The longest time for a request from its first start, retries included, and the longest time that a request waits
    /// while the queue makes no progress.
    public var requestTimeout: TimeAmount = .seconds(10)
    /// The longest time that a notification waits for its start while others are answered.
    var queueTimeout: TimeAmount = .seconds(60)
    /// The maximum number of waiting notifications; any more are refused with `.queueFull`.
    public var queueLimit = 100_000
    /// The maximum number of streams used on a connection, whatever the peer allows.
    public var streamCap = 1_000
    /// The number of streams used on a new connection, which might fail every request; each good answer doubles it.
    var firstStreams = 8

    // MARK: Connections

    /// The minimum and maximum number of connections that accept requests; none before the first notification.
    public var connections = 2...8
    /// The shortest time between two openings of connections; the first is not delayed.
    public var openSpacing: TimeAmount = .seconds(1)
    /// A connection is added if requests have waited this long for a stream while all connections are full …
    var growAge: TimeAmount = .milliseconds(500)
    /// … and this state has lasted for this long.
    var growSustain: TimeAmount = .seconds(1)
    /// A connection is retired if half of the others' streams would have been enough during all of this time.
    var shrinkAfter: TimeAmount = .minutes(10)
    /// The longest time for name resolution, connecting, the proxy and the TLS handshake together.
    public var connectTimeout: TimeAmount = .seconds(10)
    /// The time for which notifications may wait without any connection until APNs is reported as unreachable.
    var reachTimeout: TimeAmount = .seconds(4)
    /// The waits after failed attempts to connect.
    public var backoff = ConnectBackoff()
    /// The lifetime below which a connection that worked is short-lived: after three in a row the next ones wait.
    var shortLife: TimeAmount = .seconds(30)
    /// The age from which an open connection without an answer counts as one that worked: nobody needed it.
    var provenAge: TimeAmount = .seconds(60)
    /// The time during which an address that failed is tried after the others.
    var addressMemory: TimeAmount = .minutes(1)

    // MARK: Liveness

    /// The silence after which a PING is sent if an answer is outstanding; also the time allowed for the PING's answer.
    var pingInterval: TimeAmount = .seconds(5)
    /// The idle time after which a connection gets a PING together with its next request, and the time allowed for the
    /// PING's answer.
    var idleToPing: TimeAmount = .seconds(60)
    var idlePingPatience: TimeAmount = .seconds(2)
    /// The number of time-outs in a row after which a connection accepts no new requests.
    var timeoutsToRetire = 3
    /// The interval at which deadlines are checked while there are any.
    public var tick: TimeAmount = .milliseconds(100)
    /// The longest time that `close` waits for the requests already accepted.
    public var closeTimeout: TimeAmount = .seconds(10)
    /// Receives the events of the connections, on the event loop; must not block.
    public var onEvent: (@Sendable (APNSEvent) -> Void)?

    /// The last stream identifier that a connection uses; tests lower it because they cannot use up all 2^30.
    var lastStreamIdentifier = Int32.max
    /// The resolver of host names, which is asked again for each connection.
    var resolver = HostResolver.system

    public init() {}
}

/// The credential presented to APNs. One client, and so each connection, has exactly one.
///
/// Source: Wallet Orders §4.4
public enum APNSCredential: Sendable {
    /// The order type's certificate, presented in the TLS handshake.
    ///
    /// - Parameters:
    ///   - chainPEM: the certificate, followed by the intermediates.
    ///   - keyPEM: the certificate's private key, unencrypted.
    case certificate(chainPEM: [UInt8], keyPEM: [UInt8])
    /// A signed token in every request. Share one source among all clients of the same key.
    case token(ProviderTokenSource)
}

/// The destination of notifications: APNs, or a simulator.
///
/// Source: Wallet Orders §4.2
public struct APNSEndpoint: Hashable, Sendable, CustomStringConvertible {
    /// A name or an IP address, IPv6 without brackets.
    public let host: String
    /// 443, or 2197 if a firewall allows only that.
    public let port: Int

    /// - Parameter url: `https://host[:port]`; the port is 443 if it is not given.
    /// - Throws: `APNSError` with code `.configuration` if the URL has another form.
    public init(url: String) throws(APNSError) {
        let refusal = APNSError(
            .configuration, "reading \"\(url.prefix(100))\": an endpoint looks like https://host:port")
        let scheme = "https://"
        guard url.lowercased().hasPrefix(scheme) else { throw refusal }
        var rest = url.dropFirst(scheme.count)
        if rest.last == "/" { rest = rest.dropLast() }
        guard let address = HostAndPort(rest) else { throw refusal }
        self.host = address.host
        self.port = address.port ?? 443
    }

    /// True if the host is an IP address. Through a proxy such an endpoint cannot be verified: TLS compares the address
    /// of the peer, which is the proxy.
    public var isAddress: Bool { (try? SocketAddress(ipAddress: self.host, port: 0)) != nil }

    /// The value of `:authority`, with the port only if it is not the scheme's default.
    ///
    /// Source: RFC 9113 §8.3.1
    var authority: String {
        if self.port != 443 { return self.description }
        return self.host.contains(":") ? "[\(self.host)]" : self.host
    }

    /// `host:port`
    public var description: String { HostAndPort.text(self.host, self.port) }
}

/// `host`, `host:port`, `[address]` or `[address]:port`, as written in a URL.
struct HostAndPort {
    /// A name or an IP address, IPv6 without brackets.
    let host: String
    let port: Int?

    /// - Returns: nil if the text has another form; a host has at most 253 bytes (RFC 1035 §2.3.4).
    init?(_ text: Substring) {
        var host = text
        var portText: Substring?
        if text.first == "[" {
            guard let end = text.firstIndex(of: "]") else { return nil }
            let after = text[text.index(after: end)...]
            guard after.isEmpty || after.first == ":" else { return nil }
            if !after.isEmpty { portText = after.dropFirst() }
            host = text[text.index(after: text.startIndex)..<end]
            guard host.utf8.allSatisfy(isIPv6Character) else { return nil }
        } else {
            if let colon = text.firstIndex(of: ":") {
                portText = text[text.index(after: colon)...]
                host = text[..<colon]
            }
            guard host.utf8.allSatisfy(isHostCharacter) else { return nil }
        }
        guard !host.isEmpty, host.utf8.count <= 253 else { return nil }
        self.host = String(host)
        guard let portText else {
            self.port = nil
            return
        }
        guard let port = UInt16(portText), port > 0 else { return nil }
        self.port = Int(port)
    }

    /// Formats what `init` parses.
    static func text(_ host: String, _ port: Int) -> String {
        host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
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
