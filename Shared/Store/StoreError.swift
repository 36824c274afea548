import Redis

/// What went wrong between us and Redis.
public struct StoreError: Error, CustomStringConvertible {
    public enum Code: Hashable, Sendable {
        /// Redis did not answer or not now; asking again later may help.
        case unavailable
        /// What stands in Redis is not what we write there.
        case corrupt
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
}
