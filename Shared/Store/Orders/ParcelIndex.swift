public import Model
import Redis

/// The orders of parcels: carrier and tracking number -> order.
///
/// It follows from the documents: `OrderStore` notes the parcels of each version before it writes the order, so a
/// restore brings them back, and forgets those that an order no longer has. Of two orders with one parcel the one that
/// was written last is found. An answer is held against the order's document, so an entry that a crash left behind, or
/// one of a server that fell back, finds nothing.
public struct ParcelIndex: Sendable {
    /// The order and the fulfillment of a parcel.
    public struct Owner: Hashable, Sendable {
        public let order: OrderKey
        /// The identifier of the fulfillment.
        public let fulfillment: String
    }

    private let store: OrderStore

    /// - Parameter store: its view ensures that no parcel is missing because that is not complete.
    init(store: OrderStore) { self.store = store }

    /// Returns the owners of parcels, without those that no order has.
    ///
    /// - Throws: `StoreError` with code `.unavailable`, or `.incomplete` if a parcel may only seem to be unknown.
    public func owners(of parcels: [Parcel]) async throws(StoreError) -> [Parcel: Owner] {
        let epochs = try await self.store.view?.known()
        var orders: [(parcel: Parcel, key: OrderKey)] = []
        let replies = try await self.pipeline(parcels.map { RedisCommand("GET", .string(StoreKeys.parcel($0))) })
        for (parcel, reply) in zip(parcels, replies) {
            guard let key = reply.text.flatMap({ try? OrderKey($0) }) else { continue }
            orders.append((parcel, key))
        }
        // A parcel that is found has the right order even if the view is not complete.
        var store = self.store
        store.view = nil
        var owners: [Parcel: Owner] = [:]
        for (order, result) in zip(orders, try await store.orders(orders.map(\.key))) {
            if case .failure(let error) = result, error.code != .corrupt { throw error }
            guard let fulfillment = try? result.get()?.state.document.parcels[order.parcel] else { continue }
            owners[order.parcel] = Owner(order: order.key, fulfillment: fulfillment)
        }
        if let epochs, owners.count < parcels.count { try await self.store.view?.confirm(epochs) }
        return owners
    }

    /// Notes the parcels of orders.
    ///
    /// - Returns: for each order nil, or the error text with which Redis refused one.
    func note(_ orders: [(key: OrderKey, parcels: Set<Parcel>)]) async throws(StoreError) -> [String?] {
        var refusals = [String?](repeating: nil, count: orders.count)
        let entries = orders.indices.flatMap { place in orders[place].parcels.map { (place, $0) } }
        let replies = try await self.pipeline(
            entries.map {
                RedisCommand("SET", .string(StoreKeys.parcel($0.1)), .string(orders[$0.0].key.description))
            }, isJudged: false)
        for (entry, reply) in zip(entries, replies) {
            if case .error(let message) = reply { refusals[entry.0] = message }
        }
        return refusals
    }

    /// Forgets parcels that orders no longer have. An entry that stays because Redis is away finds nothing.
    func forget(_ orders: [(key: OrderKey, parcels: Set<Parcel>)]) async {
        let invocations = orders.flatMap { order in
            order.parcels.map {
                RedisInvocation(
                    StoreScripts.forgetParcel, keys: [StoreKeys.parcel($0)],
                    arguments: [.string(order.key.description)])
            }
        }
        if !invocations.isEmpty { _ = try? await self.store.redis.evaluate(invocations) }
    }

    private func pipeline(
        _ commands: [RedisCommand], isJudged: Bool = true
    ) async throws(StoreError) -> [RedisValue] {
        guard !commands.isEmpty else { return [] }
        let replies: [RedisValue]
        do {
            replies = try await self.store.redis.pipeline(commands)
        } catch {
            throw StoreError("looking up parcels", error)
        }
        for case .error(let message) in replies where isJudged {
            throw StoreError("looking up parcels", reply: message)
        }
        return replies
    }
}

extension StoreScripts {
    /// Forgets a parcel unless another order has it. KEYS: the parcel. ARGV: the order.
    static let forgetParcel = RedisScript(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0")
}
