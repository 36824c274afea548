public import Model
import Redis

/// The brands of the packagers, as each of them announces them.
///
/// A packager that lacks a brand's folder must not treat the orders of that brand as unserved while another packager
/// serves them.
extension MaterializedView {
    /// The time without an announcement after which a packager counts as gone, in seconds.
    public static let brandsLife: Int64 = 60

    /// Announces the brands of one packager.
    ///
    /// - Parameters:
    ///   - types: those with a brand that is loaded, or that should be.
    ///   - name: that of the packager, unique.
    /// - Returns: the recent announcements of all packagers, by name.
    public func announce(
        _ types: Set<OrderTypeIdentifier>, as name: String
    ) async throws(StoreError) -> [String: Set<OrderTypeIdentifier>] {
        let replies = try await self.run(
            [
                RedisInvocation(
                    StoreScripts.announceBrands, keys: [StoreKeys.brands],
                    arguments: [
                        .string(name), .string(types.map(\.rawValue).sorted().joined(separator: ",")),
                        .integer(Self.brandsLife),
                    ])
            ], "announcing brands")
        let pairs = (replies.first?.array ?? []).map { $0.text ?? "" }
        var found: [String: Set<OrderTypeIdentifier>] = [:]
        for index in stride(from: 0, to: pairs.count - 1, by: 2) {
            found[pairs[index]] = Set(
                pairs[index + 1].split(separator: ",").compactMap { try? OrderTypeIdentifier(String($0)) })
        }
        return found
    }
}

extension StoreScripts {
    /// KEYS: brands. ARGV: packager, its types with commas between them, seconds after which another one counts as
    /// gone. Returns packager, types, …
    static let announceBrands = RedisScript(
        Self.clock + """
            -- First, so that a Redis that is full takes it.
            redis.call('HDEL', KEYS[1], ARGV[1])
            redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f:%s', now, ARGV[2]))
            redis.call('EXPIRE', KEYS[1], ARGV[3])
            local all, found = redis.call('HGETALL', KEYS[1]), {}
            for index = 1, #all, 2 do
              local heard, types = string.match(all[index + 1], '^(%d+):(.*)$')
              if heard and now - heard <= ARGV[3] * 1000 then
                found[#found + 1], found[#found + 2] = all[index], types
              else
                redis.call('HDEL', KEYS[1], all[index])
              end
            end
            return found
            """)
}
