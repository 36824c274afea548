import Redis

/// What went wrong between us and Redis.
public struct StoreError: Error, CustomStringConvertible {
    public enum Code: Hashable, Sendable {
        /// Redis did not answer or not now; asking again later may help.
        case unavailable
        /// What stands in Redis is not what we write there.
        case corrupt
        /// The view is being restored, or nobody has judged it since Redis changed: what is missing may exist.
        case incomplete
    }
    public let code: Code
    public let message: String
    public var description: String { self.message }

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    init(_ operation: String, _ error: RedisError) {
        self.init(.unavailable, "\(operation): \(error.message)")
    }

    /// Judges an error reply.
    ///
    /// A key of another type is damage that waiting does not heal. All else (LOADING, BUSY, READONLY, NOPERM) is about
    /// the server and says nothing about what stands there. Before Redis 7.0 a script's error has the name inside.
    init(_ operation: String, reply message: String) {
        self.init(message.contains("WRONGTYPE") ? .corrupt : .unavailable, "\(operation): \(message)")
    }
}
