public import Model
public import Redis

/// Changes of orders that did not exist in time, kept in addition to their dead letters until the order is created. A
/// removed order does not exist.
///
/// They are part of the view alone: changes that are lost with Redis are still among the dead letters.
public struct EarlyChanges: Sendable {
    /// Most changes that are kept of an order.
    public static let limit = 32
    /// Most bytes of a record that is kept.
    public static let recordLimit = 64 << 10
    /// The time that they are kept, in seconds: as long as Kafka keeps the dead letters by default.
    public static let seconds: Int64 = 7 * 24 * 3600

    /// A record as its owner encodes it.
    public struct Kept: Hashable, Sendable {
        /// Distinguishes it from all others of its order.
        public let place: String
        public let bytes: [UInt8]

        public init(place: String, bytes: [UInt8]) {
            self.place = place
            self.bytes = bytes
        }
    }

    /// The result of keeping an order's changes.
    public enum Keeping: Hashable, Sendable {
        case kept
        /// The order exists by now: nothing was kept.
        case orderExists
        /// There is no room for all of them, or Redis refused them, with its error text.
        case refused(String)
    }

    private let redis: RedisClient

    public init(redis: RedisClient) { self.redis = redis }

    /// Keeps changes of orders, unless the orders exist.
    ///
    /// - Returns: one answer per order. Keeping again is safe.
    public func keep(_ orders: [(key: OrderKey, changes: [Kept])]) async throws(StoreError) -> [Keeping] {
        let invocations = orders.map { order in
            RedisInvocation(
                StoreScripts.keepEarly, keys: [StoreKeys.order(order.key), StoreKeys.early(order.key)],
                arguments: [.integer(Int64(Self.limit)), .integer(Self.seconds)]
                    + order.changes.flatMap { [.string($0.place), .bytes($0.bytes)] })
        }
        do {
            return try await self.redis.evaluate(invocations).map { reply in
                switch reply {
                case .integer(1): .kept
                case .integer(0): .orderExists
                case .error(let message): .refused(message)
                case .integer, .string, .array, .null, .status: .refused("there are \(Self.limit) already")
                }
            }
        } catch {
            throw StoreError("keeping early changes", error)
        }
    }

    /// - Returns: the changes that are kept of each order, in no particular sequence.
    public func read(_ keys: [OrderKey]) async throws(StoreError) -> [[Kept]] {
        guard !keys.isEmpty else { return [] }
        let replies: [RedisValue]
        do {
            replies = try await self.redis.pipeline(
                keys.map { RedisCommand("HGETALL", .string(StoreKeys.early($0))) })
        } catch {
            throw StoreError("reading early changes", error)
        }
        var kept: [[Kept]] = []
        for reply in replies {
            guard let values = reply.array else { throw StoreError("reading early changes", reply: "\(reply)") }
            kept.append(
                stride(from: 0, to: values.count - 1, by: 2).compactMap { index in
                    guard let place = values[index].text, let bytes = values[index + 1].bytes else { return nil }
                    return Kept(place: place, bytes: bytes)
                })
        }
        return kept
    }

    /// Forgets changes that were applied, or whose order was removed.
    public func forget(_ orders: [(key: OrderKey, places: [String])]) async throws(StoreError) {
        guard !orders.isEmpty else { return }
        do {
            let replies = try await self.redis.pipeline(
                orders.map { order in
                    RedisCommand(["HDEL", .string(StoreKeys.early(order.key))] + order.places.map { .string($0) })
                })
            for case .error(let message) in replies { throw StoreError("forgetting early changes", reply: message) }
        } catch let error as RedisError {
            throw StoreError("forgetting early changes", error)
        } catch let error as StoreError {
            throw error
        } catch {
            throw StoreError(.unavailable, "forgetting early changes: \(error)")
        }
    }
}

extension StoreScripts {
    /// Keeps changes of an order that does not exist.
    ///
    /// KEYS: the order, its early changes. ARGV: most changes, seconds to keep them, then place, record, …
    /// Returns 1 if they are kept, 0 if the order exists, -1 if there are too many.
    static let keepEarly = RedisScript(
        """
        local order = redis.call('HMGET', KEYS[1], 'version', 'removed')
        if order[1] and not order[2] then return 0 end
        local count, fields = redis.call('HLEN', KEYS[2]), {}
        for index = 3, #ARGV, 2 do
          if redis.call('HEXISTS', KEYS[2], ARGV[index]) == 0 then
            count = count + 1
            fields[#fields + 1], fields[#fields + 2] = ARGV[index], ARGV[index + 1]
          end
        end
        if count > tonumber(ARGV[1]) then return -1 end
        if #fields > 0 then redis.call('HSET', KEYS[2], unpack(fields)) end
        redis.call('EXPIRE', KEYS[2], ARGV[2])
        return 1
        """)
}
