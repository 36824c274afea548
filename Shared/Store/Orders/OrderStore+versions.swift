public import Model
import Redis

extension OrderStore {
    /// Returns the versions of some orders in Redis, removals included.
    ///
    /// - Returns: one per key, in order; nil for an order that does not exist.
    /// - Throws: `StoreError`; `.corrupt` if one of the keys holds something else.
    public func versions(of keys: [OrderKey]) async throws(StoreError) -> [Int64?] {
        let what = "reading versions"
        let field = RedisArgument.string(OrderField.version.rawValue)
        let replies = try await self.pipeline(
            keys.map { RedisCommand("HGET", .string(StoreKeys.order($0)), field) }, what)
        for case .error(let message) in replies { throw StoreError(what, reply: message) }
        return replies.map(\.integer)
    }

    /// Returns the heads of the packages of some orders.
    ///
    /// - Parameter keys: some dozens to hundreds; a head is smaller than the document.
    /// - Returns: one per key, in order; nil for an order that has no package.
    /// - Throws: `StoreError`; `.corrupt` if one of the keys holds something else.
    public func heads(of keys: [OrderKey]) async throws(StoreError) -> [[UInt8]?] {
        let what = "reading packages"
        let field = RedisArgument.string(OrderField.head.rawValue)
        let replies = try await self.pipeline(
            keys.map { RedisCommand("HGET", .string(StoreKeys.order($0)), field) }, what)
        for case .error(let message) in replies { throw StoreError(what, reply: message) }
        return replies.map(\.bytes)
    }

    /// Notes that the records of versions were acknowledged, each if it is still the current version.
    ///
    /// - Parameter published: the version that was published; nil notes nothing.
    /// - Returns: the current versions, as `versions(of:)` does.
    /// - Throws: as `versions(of:)` does.
    public func notePublished(_ orders: [(key: OrderKey, published: Int64?)]) async throws(StoreError) -> [Int64?] {
        let what = "noting versions that were published"
        let replies: [RedisValue]
        do {
            replies = try await self.redis.evaluate(
                orders.map {
                    RedisInvocation(
                        StoreScripts.notePublished, keys: [StoreKeys.order($0.key)],
                        arguments: [$0.published.map { .integer($0) } ?? ""])
                })
        } catch {
            throw StoreError(what, error)
        }
        for case .error(let message) in replies { throw StoreError(what, reply: message) }
        return replies.map(\.integer)
    }
}
