public import Redis

/// The offsets up to which the pushers have notified devices of the records of each partition. They are kept in
/// addition to the offsets that their group has committed, and survive a group that loses those.
///
/// Bounded: an entry for each partition of each cluster that there ever was.
public struct NotifiedPositions: Sendable {
    /// A position, and when it was noted.
    public struct Mark: Hashable, Sendable {
        /// The next offset to notify devices of.
        public let offset: Int64
        /// Milliseconds since 1970. A younger record is not one that devices were notified of: its topic was
        /// recreated, or lost its end.
        public let epochMilliseconds: Int64

        /// The clock difference among services and brokers that does no harm, in milliseconds.
        static let clockMilliseconds: Int64 = 60_000

        public init(offset: Int64, epochMilliseconds: Int64) {
            self.offset = offset
            self.epochMilliseconds = epochMilliseconds
        }

        /// Returns true if devices were notified of a record.
        public func covers(offset: Int64, epochMilliseconds: Int64) -> Bool {
            offset < self.offset && epochMilliseconds >= 0
                && epochMilliseconds < self.epochMilliseconds - Self.clockMilliseconds
        }
    }

    private let redis: RedisClient

    public init(redis: RedisClient) { self.redis = redis }

    /// Returns the prefix of the names of a topic's partitions; the number of a partition follows it.
    public static func name(cluster: String, topic: String) -> String { "\(cluster)/\(topic)/" }

    /// Returns all positions, by name of the partition.
    public func all() async throws(StoreError) -> [String: Mark] {
        let what = "reading notified positions"
        let reply = try await self.redis.reply(to: RedisCommand("HGETALL", .string(StoreKeys.notifiedPositions)), what)
        guard let pairs = reply.array else { throw StoreError(.unavailable, "\(what): an unexpected reply") }
        var marks: [String: Mark] = [:]
        for index in stride(from: 0, to: pairs.count - 1, by: 2) {
            guard let name = pairs[index].text, let parts = pairs[index + 1].text?.split(separator: ":"),
                parts.count == 2, let offset = Int64(parts[0]), let moment = Int64(parts[1])
            else { continue }
            marks[name] = Mark(offset: offset, epochMilliseconds: moment)
        }
        return marks
    }

    /// Records positions, by name of the partition; not empty.
    public func record(_ marks: [String: Mark]) async throws(StoreError) {
        let fields = marks.flatMap { name, mark -> [RedisArgument] in
            [.string(name), .string("\(mark.offset):\(mark.epochMilliseconds)")]
        }
        _ = try await self.redis.reply(
            to: RedisCommand("HSET", .string(StoreKeys.notifiedPositions), .encoded(RedisEncodedArguments(fields))),
            "noting notified positions")
    }
}
