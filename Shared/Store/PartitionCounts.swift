public import Redis

/// The numbers of partitions that the compacted topics had when all their keys were where they belong.
public struct PartitionCounts: Sendable {
    private let redis: RedisClient

    public init(redis: RedisClient) { self.redis = redis }

    /// Returns all counts, by topic.
    public func all() async throws(StoreError) -> [String: Int] {
        let what = "reading partition counts"
        let reply = try await self.redis.reply(to: RedisCommand("HGETALL", .string(StoreKeys.partitions)), what)
        guard let pairs = reply.array else { throw StoreError(.unavailable, "\(what): an unexpected reply") }
        var counts: [String: Int] = [:]
        for index in stride(from: 0, to: pairs.count - 1, by: 2) {
            guard let topic = pairs[index].text, let count = pairs[index + 1].integer else { continue }
            counts[topic] = Int(clamping: count)
        }
        return counts
    }

    /// Records the number of partitions with which all keys of a topic are where they belong.
    public func record(_ count: Int, of topic: String) async throws(StoreError) {
        _ = try await self.redis.reply(
            to: RedisCommand("HSET", .string(StoreKeys.partitions), .string(topic), .integer(Int64(count))),
            "noting partition counts")
    }
}
