import NIOCore
import NIOSSL

/// The address of Redis, the credentials, and a client's deadlines and limits.
public struct RedisConfiguration: Sendable {
    /// Host name or address of the first server, without brackets.
    public var host: String { self.addresses[0].host }
    /// The first server's port.
    public var port: Int { self.addresses[0].port }
    /// The ACL user; nil authenticates the default user if there is a password.
    public let user: String?
    /// The number given to SELECT.
    public let database: Int
    /// PEM file of the roots that a `rediss://` server's certificate must lead to; nil trusts the system's.
    public let caFile: String?

    /// Time from submitting a command to its answer, including the wait for a connection. Default 2 s.
    public var commandDeadline: Duration = .seconds(2)
    /// Time for TCP, and again for TLS and authentication. Default 2 s.
    var connectDeadline: Duration = .seconds(2)
    /// Commands per connection that wait or are unanswered. Default 65,536.
    var commandLimit = 65_536
    /// Bytes of the commands that wait or are unanswered, per connection. Default 128 MiB.
    public var byteLimit = 128 << 20

    /// Called with the name of the first command of a pipeline, and the time until the last answer or the failure.
    ///
    /// It must not block: an event loop calls it.
    public var onAnswer: (@Sendable (_ operation: String, Duration) -> Void)?

    /// The configured servers, at least one: the server, nodes of a cluster, or sentinels.
    let addresses: [NodeAddress]
    /// The name by which the sentinels know the master; nil without sentinels.
    let masterName: String?
    let password: String?
    /// Set for `rediss://`.
    let tls: NIOSSLContext?

    /// Parses a URL: `redis://` or `rediss://` (TLS), `user:password@` or `:password@`, host, `:port`, `/database`.
    ///
    /// Several `host:port` separated by commas are nodes of a cluster; the client asks one of them to confirm that.
    /// With `redis+sentinel://` or `rediss+sentinel://` they are sentinels, and the path is `/master-name/database`.
    ///
    /// User and password are percent-decoded, IPv6 addresses are in brackets. For `rediss://` the CA file is read here,
    /// so that a bad one prevents the start.
    /// - Parameters:
    ///   - password: from a file, for example; the URL must then not have one.
    ///   - caFile: see the property; refused for `redis://`.
    /// - Throws: `RedisError` with code `.configuration`, which names the error and shows no password.
    public init(url: String, password: String? = nil, caFile: String? = nil) throws(RedisError) {
        let parsed = try RedisURL(url)
        guard password == nil || parsed.password == nil else {
            throw RedisError(
                .configuration, "reading the Redis URL: the password is given both in the URL and separately")
        }
        self.addresses = parsed.addresses
        self.masterName = parsed.masterName
        self.user = parsed.user
        self.database = parsed.database
        self.password = password ?? parsed.password
        self.caFile = caFile
        guard self.user == nil || self.password != nil else {
            throw RedisError(.configuration, "reading the Redis URL: a user without a password")
        }
        guard parsed.isEncrypted else {
            guard caFile == nil else {
                let needed = "rediss:// or rediss+sentinel://"
                throw RedisError(.configuration, "reading the Redis URL: a CA file needs \(needed)")
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

    /// True if more than one node of a cluster is configured.
    var isCluster: Bool { self.masterName == nil && self.addresses.count > 1 }

    /// AUTH, nil without a password. Source: Redis AUTH
    var authentication: RedisCommand? {
        guard let password else { return nil }
        return RedisCommand(["AUTH"] + (self.user.map { [.string($0)] } ?? []) + [.string(password)])
    }
}
