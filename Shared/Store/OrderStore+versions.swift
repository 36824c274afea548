public import Model
import Redis

extension OrderStore {
    /// Which versions of some orders stand in Redis, removals included.
    ///
    /// - Returns: one per key, in order; nil for an order that is not there.
    /// - Throws: `StoreError`; `.corrupt` if one of the keys holds something else.
    public func versions(of keys: [OrderKey]) async throws(StoreError) -> [Int64?] {
        let what = "reading versions"
        let field = RedisArgument.string(OrderField.version.rawValue)
        let replies = try await self.pipeline(
            keys.map { RedisCommand("HGET", .string(StoreKeys.order($0)), field) }, what)
        for case .error(let message) in replies { throw StoreError(what, reply: message) }
        return replies.map(\.integer)
    }
}
