import FoundationEssentials
public import Model
public import NIOCore
public import Redis

/// The orders whose packages are asked for: gateways add them, and packagers take them.
///
/// Nothing depends on a request's arrival: a gateway repeats it as long as a client waits. Bounded: of more than
/// `limit` the oldest are forgotten.
public struct PackageRequests: Sendable {
    /// Most orders that are asked for at once.
    static let limit: Int64 = 10_000
    /// The place in the line that a further request of one brand costs, as time: longer than a package takes.
    private static let stepMilliseconds: Int64 = 10
    /// The time for which `take` waits, in seconds. Less than the deadline of a command.
    private static let waitSeconds: Int64 = 1

    private let redis: RedisClient

    /// - Parameter redis: to take requests, a client of its own: the command that waits holds up those behind it.
    public init(redis: RedisClient) { self.redis = redis }

    /// Asks for the package of an order. The oldest request is served first.
    ///
    /// - Parameter others: requests of the caller for the same brand that wait. Each puts this one back by
    ///   `stepMilliseconds`, so that a crowd of one brand lets the requests of others pass.
    /// - Returns: fails with `RedisError` or `StoreError`.
    public func add(_ key: OrderKey, behind others: Int = 0, on eventLoop: any EventLoop) -> EventLoopFuture<Void> {
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        let wait = Self.stepMilliseconds * Int64(min(max(others, 0), Int(Self.limit)))
        return self.add(key, epochMilliseconds: now + wait, on: eventLoop)
    }

    func add(_ key: OrderKey, epochMilliseconds: Int64, on eventLoop: any EventLoop) -> EventLoopFuture<Void> {
        let requests = RedisArgument.string(StoreKeys.packageRequests)
        return self.redis.pipeline(
            [
                RedisCommand("ZADD", requests, "NX", .integer(epochMilliseconds), .string(key.description)),
                RedisCommand("ZREMRANGEBYRANK", requests, "0", .integer(-Self.limit - 1)),
            ], on: eventLoop
        ).flatMapThrowing { replies in
            for case .error(let message) in replies { throw StoreError("asking for a package", reply: message) }
        }
    }

    /// Takes the oldest requests, each for one caller alone, and waits up to a second for the first one.
    ///
    /// - Returns: orders, each once.
    public func take(_ count: Int) async throws(StoreError) -> [OrderKey] {
        let requests = RedisArgument.string(StoreKeys.packageRequests)
        do {
            let first = try await self.redis.send(RedisCommand("BZPOPMIN", requests, .integer(Self.waitSeconds)))
            guard let parts = first.array, parts.count == 3 else { return [] }
            let others = try await self.redis.send(RedisCommand("ZPOPMIN", requests, .integer(Int64(count - 1))))
            let members = others.array ?? []
            let texts = [parts[1]] + stride(from: 0, to: members.count, by: 2).map { members[$0] }
            return texts.compactMap { $0.text.flatMap { try? OrderKey($0) } }
        } catch {
            throw StoreError("taking requests for packages", error)
        }
    }
}
