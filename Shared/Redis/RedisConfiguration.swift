import NIOCore
import NIOSSL

/// Where Redis is, who we are there, and how long and how much a client waits.
public struct RedisConfiguration: Sendable {
    /// Host name or address, without brackets.
    public let host: String
    public let port: Int
    /// The ACL user; nil authenticates the default user if there is a password.
    public let user: String?
    /// The number given to SELECT.
    public let database: Int
    /// PEM file of the roots that a `rediss://` server's certificate must lead to; nil trusts the system's.
    public let caFile: String?

    /// From handing a command in to its answer: waiting for a connection included. Default 2 s.
    public var commandDeadline: Duration = .seconds(2)
    /// For TCP, and then again for TLS and authentication. Default 2 s.
    public var connectDeadline: Duration = .seconds(2)
    /// Commands per connection that wait or are unanswered. Default 65,536.
    public var commandLimit = 65_536
    /// Bytes of those commands. Default 128 MiB.
    public var byteLimit = 128 << 20

    let password: String?
    /// Present for `rediss://`.
    let tls: NIOSSLContext?

    /// Reads a URL: `redis://` or `rediss://` (TLS), `user:password@` or `:password@`, host, `:port`, `/database`.
    ///
    /// User and password are percent-decoded, IPv6 addresses stand in brackets. For `rediss://` the CA file is read
    /// here, so that a bad one stops the start.
    /// - Parameters:
    ///   - password: from a file, say; the URL must not have one then.
    ///   - caFile: see the property; refused for `redis://`.
    /// - Throws: `RedisError` with code `.configuration`, which says what is wrong and shows no password.
    public init(url: String, password: String? = nil, caFile: String? = nil) throws(RedisError) {
        let parsed = try RedisURL(url)
        guard password == nil || parsed.password == nil else {
            throw RedisError(.configuration, "reading the Redis URL: a password stands in it and beside it")
        }
        self.host = parsed.host
        self.port = parsed.port
        self.user = parsed.user
        self.database = parsed.database
        self.password = password ?? parsed.password
        self.caFile = caFile
        guard self.user == nil || self.password != nil else {
            throw RedisError(.configuration, "reading the Redis URL: a user without a password")
        }
        guard parsed.isEncrypted else {
            guard caFile == nil else {
                throw RedisError(.configuration, "reading the Redis URL: a CA file needs rediss://")
            }
            self.tls = nil
            return
        }
        var tls = TLSConfiguration.makeClientConfiguration()
        if let caFile { tls.trustRoots = .file(caFile) }
        do {
            self.tls = try NIOSSLContext(configuration: tls)
        } catch {
            throw RedisError(.configuration, "loading the CA file \(caFile ?? "of the system"): \(error)")
        }
    }

    /// `host:port` for messages.
    var address: String { self.host.contains(":") ? "[\(self.host)]:\(self.port)" : "\(self.host):\(self.port)" }

    /// What a new connection sends first. PING notices a server that still loads its data or wants a password.
    ///
    /// Source: Redis commands AUTH, SELECT, PING.
    var preparation: [RedisCommand] {
        var commands: [RedisCommand] = []
        if let password {
            commands.append(RedisCommand(["AUTH"] + (self.user.map { [.string($0)] } ?? []) + [.string(password)]))
        }
        if self.database != 0 { commands.append(RedisCommand("SELECT", .integer(Int64(self.database)))) }
        return commands + [RedisCommand("PING")]
    }
}
