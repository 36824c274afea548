/// A host and a port to listen on.
public struct ListenAddress: Hashable, Sendable, CustomStringConvertible {
    public let host: String
    /// 0 asks the system for a free port.
    public let port: Int

    public init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// - Parameter text: `host:port`; an IPv6 address is in brackets. Nil if it is not of that form.
    public init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            return nil
        }
        var host = text[..<colon]
        if host.hasPrefix("[") && host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            return nil
        }
        guard !host.isEmpty else { return nil }
        self.init(host: String(host), port: Int(port))
    }

    /// True if only this machine can connect to it.
    public var isLoopback: Bool { self.host == "localhost" || self.host == "::1" || self.host.hasPrefix("127.") }

    /// The address at which this machine reaches a server that listens on it.
    var connectable: ListenAddress {
        switch self.host {
        case "0.0.0.0": ListenAddress(host: "127.0.0.1", port: self.port)
        case "::": ListenAddress(host: "::1", port: self.port)
        default: self
        }
    }

    public var description: String {
        self.host.contains(":") ? "[\(self.host)]:\(self.port)" : "\(self.host):\(self.port)"
    }
}
