public import Redis

/// The holders of what merchants claim for themselves, such as an origin or a key: what is written down stays, whoever
/// else claims it later.
///
/// Not rebuilt from Kafka: a merchant that is served writes its claims down again.
public struct ClaimHolders: Sendable {
    /// The most claims of all merchants; more are not written down.
    static let limit: Int64 = 100_000

    private let redis: RedisClient

    public init(redis: RedisClient) { self.redis = redis }

    /// Removes what is released by its holder, and writes down what is taken and has no holder, in one step.
    ///
    /// - Parameters:
    ///   - taken: the new holders by claim.
    ///   - released: the former holders by claim; an entry of another holder stays.
    /// - Returns: all holders by claim, also those of other replicas.
    public func settle(
        taken: [String: String] = [:], released: [String: String] = [:]
    ) async throws(StoreError) -> [String: String] {
        var arguments: [RedisArgument] = [.integer(Self.limit), .integer(Int64(released.count))]
        for (claim, holder) in released { arguments += [.string(claim), .string(holder)] }
        for (claim, holder) in taken { arguments += [.string(claim), .string(holder)] }
        let what = "settling who holds what"
        let reply = try await self.redis.reply(
            to: RedisInvocation(StoreScripts.settleClaims, keys: [StoreKeys.claims], arguments: arguments), what)
        guard let pairs = reply.array else { throw StoreError(.unavailable, "\(what): an unexpected reply") }
        var holders: [String: String] = [:]
        for index in stride(from: 0, to: pairs.count - 1, by: 2) {
            if let claim = pairs[index].text, let holder = pairs[index + 1].text { holders[claim] = holder }
        }
        return holders
    }
}

extension StoreScripts {
    /// KEYS: claims. ARGV: the most claims, the number of those that are released, and claim and holder of each of
    /// these, then of each that is taken. Returns all claims with their holders.
    static let settleClaims = RedisScript(
        """
        local most, released = tonumber(ARGV[1]), tonumber(ARGV[2])
        for i = 3, #ARGV - 1, 2 do
          if i < 3 + 2 * released then
            if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then redis.call('HDEL', KEYS[1], ARGV[i]) end
          elseif redis.call('HEXISTS', KEYS[1], ARGV[i]) == 0 and redis.call('HLEN', KEYS[1]) < most then
            redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
          end
        end
        return redis.call('HGETALL', KEYS[1])
        """)
}
