public import Model
import Redis

extension OrderStore {
    /// The keys of Redis about an order beside its state.
    public struct Surroundings: Hashable, Sendable {
        /// True if the order has the bytes of a package.
        public let hasPackage: Bool
        /// The number of assets that its package names and that are not stored.
        public let missingAssets: Int
        /// The number of registered devices.
        public let devices: Int
        /// True if its removal is remembered.
        public let wasRemoved: Bool
    }

    /// Reads the surroundings of an order, also in a view that is incomplete.
    ///
    /// - Parameter assets: digests, as in `StoredOrder.assets`.
    /// - Throws: `StoreError`; `.corrupt` if one of the keys holds something else.
    public func surroundings(of key: OrderKey, assets: [String]) async throws(StoreError) -> Surroundings {
        let what = "looking at order \(key)"
        let head = RedisArgument.string(OrderField.head.rawValue)
        let replies = try await self.pipeline(
            [
                RedisCommand("HEXISTS", .string(StoreKeys.order(key)), head),
                RedisCommand("HLEN", .string(StoreKeys.devices(key))),
                RedisCommand("EXISTS", .string(StoreKeys.gone(key))),
            ] + assets.map { RedisCommand("EXISTS", .string(StoreKeys.asset($0))) }, what)
        for case .error(let message) in replies { throw StoreError(what, reply: message) }
        let numbers = replies.map { Int(clamping: $0.integer ?? 0) }
        guard numbers.count == 3 + assets.count else { throw StoreError(.unavailable, "\(what): replies are missing") }
        return Surroundings(
            hasPackage: numbers[0] == 1, missingAssets: numbers.dropFirst(3).count { $0 == 0 }, devices: numbers[1],
            wasRemoved: numbers[2] == 1)
    }
}
