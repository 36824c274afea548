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
