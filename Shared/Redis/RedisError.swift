/// Why a command has no answer, or was answered with an error.
public struct RedisError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kinds of failure a caller may want to tell apart.
    public enum Code: String, Hashable, Sendable {
        /// No connection within the deadline, or the connection was lost after the command was written.
        case connection
        /// The command was written and not answered within its deadline: it may or may not have taken effect.
        case timeout
        /// The client was closed.
        case closed
        /// The server sent what is not RESP2, or more than is allowed.
        case `protocol`
        /// The URL, the password or the CA file cannot be used.
        case configuration
        /// Redis answered with an error; the message is Redis's own text.
        case server
        /// Too many commands, or too many bytes of commands, are waiting for their answers.
        case queueFull
        /// The server is older than what Waybill needs.
        case unsupported
        /// A cluster cannot serve the command: no key is known to stand in it, or its keys lie in several slots.
        case unroutable
    }

    /// What kind of failure this is.
    public let code: Code
    /// What was being done, with which value, and what came of it. Never a password or an argument of a command.
    public let message: String

    /// Makes an error; modules above use it for replies that they did not expect.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// True if the same command may succeed a little later. Says nothing about whether repeating it is harmless: after
    /// `.timeout` and `.connection` it may have taken effect.
    public var isRetriable: Bool {
        switch self.code {
        // A server that is too old may be replaced.
        case .connection, .timeout, .queueFull, .unsupported: true
        case .closed, .protocol, .configuration, .unroutable: false
        case .server: Self.passingServerErrors.contains(self.serverPrefix)
        }
    }

    /// Errors of a server that starts, fails over or is busy.
    ///
    /// Source: Redis 7.0 server.c, `createSharedObjects`.
    private static let passingServerErrors = [
        "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", Self.unansweredPrefix,
    ]

    /// Ours, in a pipeline over several servers: this one's commands were not answered and may have taken effect.
    static let unansweredPrefix = "UNANSWERED"

    /// The first word of a server's error, which is its kind by convention: `ERR`, `WRONGTYPE`, `NOSCRIPT`; else empty.
    public var serverPrefix: String {
        self.code == .server ? String(self.message.prefix { $0 != " " }) : ""
    }

    /// Code and message.
    public var description: String { "redis \(self.code.rawValue): \(self.message)" }
}
