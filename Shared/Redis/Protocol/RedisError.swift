/// The reason why a command has no answer, or was answered with an error.
public struct RedisError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kinds of failure that a caller may want to distinguish.
    public enum Code: String, Hashable, Sendable {
        /// No connection within the deadline, or the connection was lost after the command was written.
        case connection
        /// The command was written and not answered within its deadline: it may or may not have taken effect.
        case timeout
        /// The client was closed.
        case closed
        /// The server sent something other than RESP2, or more than is allowed.
        case `protocol`
        /// The URL, the password or the CA file cannot be used.
        case configuration
        /// Redis answered with an error; the message is Redis's own text.
        case server
        /// Too many commands, or too many bytes of commands, wait for their answers.
        case queueFull
        /// The server is older than Waybill requires.
        case unsupported
        /// A cluster cannot serve the command: no key is known to be in it, or its keys are in several slots.
        case unroutable
    }

    /// The kind of failure.
    public let code: Code
    /// The operation, the value and the result. Never a password or an argument of a command.
    public let message: String

    /// Makes an error; modules above use it for replies that they did not expect.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// True if the same command may succeed a little later. Does not mean that repeating it is harmless: after
    /// `.timeout` and `.connection` it may have taken effect.
    public var isRetriable: Bool {
        switch self.code {
        // A server that is too old may be replaced.
        case .connection, .timeout, .queueFull, .unsupported: true
        case .closed, .protocol, .configuration, .unroutable: false
        case .server: Self.passingServerErrors.contains(self.serverPrefix)
        }
    }

    /// Errors of a server that is starting, failing over or busy.
    ///
    /// Source: Redis 7.0 server.c, `createSharedObjects`.
    private static let passingServerErrors = [
        "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", Self.unansweredPrefix,
    ]

    /// Our own error, in a pipeline over several servers: this server's commands were not answered and may have taken
    /// effect.
    static let unansweredPrefix = "UNANSWERED"

    /// The first word of a server's error, which is its kind by convention: `ERR`, `WRONGTYPE`, `NOSCRIPT`; else empty.
    public var serverPrefix: String {
        self.code == .server ? String(self.message.prefix { $0 != " " }) : ""
    }

    /// Code and message.
    public var description: String { "redis \(self.code.rawValue): \(self.message)" }
}
