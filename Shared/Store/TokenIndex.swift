public import Model
public import Redis

/// The order that a token was handed out for, for requests that bring a token and nothing else.
///
/// Not rebuilt from Kafka. An entry expires after `keptSeconds`.
public struct TokenIndex: Sendable {
    /// The time for which an entry is kept, in seconds.
    public static let keptSeconds: Int64 = 90 * 86_400

    private let redis: RedisClient

    public init(redis: RedisClient) { self.redis = redis }

    /// Remembers the order of a token. Only the token's digest is kept.
    public func remember(_ token: AuthenticationToken, of key: OrderKey) async throws(StoreError) {
        _ = try await self.send(
            RedisCommand(
                "SET", .string(StoreKeys.token(token.rawValue)), .string(key.description), "EX",
                .integer(Self.keptSeconds)))
    }

    /// Returns the order of a token; nil if it is not known.
    public func order(of token: String) async throws(StoreError) -> OrderKey? {
        try await self.send(RedisCommand("GET", .string(StoreKeys.token(token)))).text.flatMap { try? OrderKey($0) }
    }

    private func send(_ command: RedisCommand) async throws(StoreError) -> RedisValue {
        try await self.redis.reply(to: command, "looking up a token")
    }
}
