/// The parts of a `redis://`, `rediss://`, `redis+sentinel://` or `rediss+sentinel://` URL.
///
/// Beyond the registered form there may be several addresses separated by commas, and a name before the database.
/// Source: IANA provisional URI schemes "redis" and "rediss"; RFC 3986 §3.2 for the authority.
struct RedisURL: Hashable, Sendable {
    let isEncrypted: Bool
    let user: String?
    let password: String?
    /// At least one.
    let addresses: [NodeAddress]
    /// The sentinels' name for the master; nil if the addresses are not those of sentinels.
    let masterName: String?
    let database: Int

    private static let schemes: [(text: String, isEncrypted: Bool, isSentinel: Bool)] = [
        ("redis://", false, false), ("rediss://", true, false), ("redis+sentinel://", false, true),
        ("rediss+sentinel://", true, true),
    ]
    /// More than enough to find the others.
    private static let addressLimit = 100

    /// - Throws: `RedisError` with code `.configuration`. No message shows the text before an `@`.
    init(_ text: String) throws(RedisError) {
        guard let scheme = Self.schemes.first(where: { text.hasPrefix($0.text) }) else {
            throw Self.error("it must begin with redis:// or rediss://, or either with +sentinel before the colon")
        }
        self.isEncrypted = scheme.isEncrypted
        let rest = text.dropFirst(scheme.text.count)
        guard !rest.contains(where: { $0 == "?" || $0 == "#" }) else {
            throw Self.error("no query and no fragment are understood (write ? as %3F and # as %23 in a password)")
        }
        let authority = rest.prefix { $0 != "/" }
        let path = rest.dropFirst(authority.count + 1)
        // A password may contain an @ that was not percent-encoded; the last one separates.
        let at = authority.lastIndex(of: "@")
        guard at != nil || !path.contains("@") else {
            throw Self.error("write / as %2F in a user or password")
        }
        (self.user, self.password) = try Self.credentials(at.map { authority[..<$0] })
        let all = (at.map { authority[authority.index(after: $0)...] } ?? authority)
            .split(separator: ",", omittingEmptySubsequences: false)
        guard all.count <= Self.addressLimit else { throw Self.error("more than \(Self.addressLimit) addresses") }
        var addresses: [NodeAddress] = []
        for address in all { addresses.append(try Self.address(address, port: scheme.isSentinel ? 26379 : 6379)) }
        self.addresses = addresses
        var number = path
        if scheme.isSentinel {
            let name = path.prefix { $0 != "/" }
            number = path.dropFirst(name.count + 1)
            guard let decoded = Self.percentDecoded(name), !decoded.isEmpty else {
                throw Self.error("the path must be the name of a master, then perhaps / and a database")
            }
            self.masterName = decoded
        } else {
            self.masterName = nil
        }
        guard let database = number.isEmpty ? 0 : Self.number(number), database <= Int(Int32.max) else {
            throw Self.error("the path must be the number of a database, found \"\(number)\"")
        }
        guard database == 0 || scheme.isSentinel || addresses.count == 1 else {
            throw Self.error("a cluster has database 0 only, found \"\(number)\"")
        }
        self.database = database
    }

    private static func credentials(_ text: Substring?) throws(RedisError) -> (String?, String?) {
        guard let text else { return (nil, nil) }
        let user = text.prefix { $0 != ":" }
        let hasPassword = user.endIndex < text.endIndex
        let password = hasPassword ? text[text.index(after: user.endIndex)...] : ""
        guard let user = Self.percentDecoded(user), let password = Self.percentDecoded(password) else {
            throw Self.error("a % in user or password is not followed by two hex digits (write it as %25)")
        }
        return (user.isEmpty ? nil : user, password.isEmpty ? nil : password)
    }

    private static func address(_ text: Substring, port usual: Int) throws(RedisError) -> NodeAddress {
        let host: Substring
        let behind: Substring
        if text.hasPrefix("[") {
            guard let end = text.firstIndex(of: "]") else {
                throw Self.error("the ] after the IPv6 address is missing")
            }
            host = text[text.index(after: text.startIndex)..<end]
            behind = text[text.index(after: end)...]
            guard host.contains(":") else { throw Self.error("the brackets contain no IPv6 address: \"\(host)\"") }
        } else {
            host = text.prefix { $0 != ":" }
            behind = text[host.endIndex...]
            guard !behind.dropFirst().contains(":") else {
                throw Self.error("an IPv6 address must be in brackets: \"\(text)\"")
            }
        }
        guard !host.isEmpty, host.allSatisfy({ !$0.isWhitespace && $0 != "%" }) else {
            throw Self.error("the host is \(host.isEmpty ? "missing" : "not one: \"\(host)\"")")
        }
        if behind.isEmpty { return NodeAddress(host: String(host), port: usual) }
        guard behind.first == ":", let port = Self.number(behind.dropFirst()), (1...65535).contains(port) else {
            throw Self.error("the port must be a number from 1 to 65535, found \"\(behind.dropFirst())\"")
        }
        return NodeAddress(host: String(host), port: port)
    }

    /// Digits only: `Int.init` would accept signs too.
    private static func number(_ text: Substring) -> Int? {
        text.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int(text) : nil
    }

    /// Decodes a text; nil for a bad escape or for bytes that are not UTF-8.
    private static func percentDecoded(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(Self.hexDigit), let low = rest.popFirst().flatMap(Self.hexDigit)
            else { return nil }
            bytes.append(high << 4 | low)
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func hexDigit(_ byte: UInt8) -> UInt8? {
        Character(UnicodeScalar(byte)).hexDigitValue.map(UInt8.init)
    }

    private static func error(_ reason: String) -> RedisError {
        RedisError(.configuration, "reading the Redis URL: \(reason)")
    }
}
