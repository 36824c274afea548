public import Model
import Redis

/// The orders of parcels: carrier and tracking number -> order and fulfillment.
///
/// It follows from the documents: the parcels of a version are noted once Redis has that, so a restore brings them
/// back, and those that an order no longer has are forgotten. A version is published after that: one whose parcels a
/// crash kept from being noted is published again, and its parcels are noted then. Of two orders with one parcel the
/// one that was modified later is found, in whichever sequence they are noted. No order is read for it: an entry names
/// the version that it is of, so one that a crash left behind, or one of a server that fell back, finds nothing. An
/// entry lives for `keptSeconds` after its version, and no longer than its order unless a crash leaves it.
///
/// Earlier releases noted the order alone, under a key of its own. That is read where it says something else, and then
/// the order's document has the fulfillment, unless it is cold; and it is written for a week, so that an earlier
/// release finds the parcels of a later one as long as the two run together. The next release needs neither.
public struct ParcelIndex: Sendable {
    /// The order and the fulfillment of a parcel.
    public struct Owner: Hashable, Sendable {
        public let order: OrderKey
        /// The identifier of the fulfillment.
        public let fulfillment: String
    }

    /// An entry as Redis has it: `<modification second> <version> <order> <fulfillment>`.
    private struct Entry {
        let owner: Owner
        let version: Int64

        init?(_ text: String) {
            let parts = text.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false)
            guard parts.count == 4, let version = Int64(parts[1]), let order = try? OrderKey(String(parts[2])) else {
                return nil
            }
            self.owner = Owner(order: order, fulfillment: String(parts[3]))
            self.version = version
        }
    }

    /// The time for which a parcel is found after the last version of its order, in seconds.
    public static let keptSeconds: Int64 = 90 * 24 * 3600
    /// The time for which an entry is kept as earlier releases read it, in seconds.
    private static let earlierSeconds: Int64 = 7 * 24 * 3600
    /// Keys that Redis examines for one page of a scan.
    private static let pageKeys: Int64 = 1000

    private let store: OrderStore

    /// - Parameter store: its view ensures that no parcel is missing because that is not complete.
    init(store: OrderStore) { self.store = store }

    /// Returns the owners of parcels, without those that no order has.
    ///
    /// - Throws: `StoreError` with code `.unavailable`, or `.incomplete` if a parcel may only seem to be unknown.
    public func owners(of parcels: [Parcel]) async throws(StoreError) -> [Parcel: Owner] {
        let epochs = try await self.store.view?.known()
        var entries: [(parcel: Parcel, entry: Entry)] = []
        var earlier: [(parcel: Parcel, order: OrderKey)] = []
        let what = "looking up parcels"
        guard !parcels.isEmpty else { return [:] }
        let replies = try await self.store.pipeline(
            parcels.flatMap { parcel in
                let keys = StoreKeys.parcel(parcel)
                return [RedisCommand("GET", .string(keys.owner)), RedisCommand("GET", .string(keys.order))]
            }, what)
        for case .error(let message) in replies { throw StoreError(what, reply: message) }
        for (index, parcel) in parcels.enumerated() where replies.indices.contains(2 * index + 1) {
            let entry = replies[2 * index].text.flatMap { Entry($0) }
            let order = replies[2 * index + 1].text.flatMap { try? OrderKey($0) }
            if let order, order != entry?.owner.order {
                earlier.append((parcel, order))
            } else if let entry {
                entries.append((parcel, entry))
            }
        }
        var owners: [Parcel: Owner] = [:]
        let versions = try await self.store.storedVersions(entries.map(\.entry.owner.order))
        for ((parcel, entry), stored) in zip(entries, versions) {
            guard let stored, !stored.isRemoved, stored.version >= entry.version else { continue }
            owners[parcel] = entry.owner
        }
        // A parcel that is found has the right order even if the view is not complete.
        let orders = earlier.isEmpty ? [] : try await OrderStore(redis: self.store.redis).orders(earlier.map(\.order))
        for ((parcel, order), result) in zip(earlier, orders) {
            guard let fulfillment = try? result.get()?.state.document.parcels[parcel] else { continue }
            owners[parcel] = Owner(order: order, fulfillment: fulfillment)
        }
        if let epochs, owners.count < parcels.count { try await self.store.view?.confirm(epochs) }
        return owners
    }

    /// Notes the parcels of versions that Redis has, or renews their entries.
    ///
    /// - Parameter orders: nil for none.
    /// - Returns: for each order nil, or the error text with which Redis refused one.
    public func note(_ orders: [OrderState?]) async throws(StoreError) -> [String?] {
        var refusals = [String?](repeating: nil, count: orders.count)
        var places: [Int] = []
        var invocations: [RedisInvocation] = []
        var noted: [(state: OrderState, parcels: [Parcel])] = []
        for (place, state) in orders.enumerated() {
            guard let state, !state.isRemoved else { continue }
            let parcels = state.document.parcels
            if !parcels.isEmpty { noted.append((state, Array(parcels.keys))) }
            for (parcel, fulfillment) in parcels {
                let keys = StoreKeys.parcel(parcel)
                places.append(place)
                invocations.append(
                    RedisInvocation(
                        StoreScripts.noteParcel, keys: [keys.owner, keys.order],
                        arguments: [
                            .integer(state.modifiedEpochSeconds), .integer(state.version),
                            .string(state.key.description), .string(fulfillment), .integer(Self.earlierSeconds),
                            .integer(Self.keptSeconds),
                        ]))
            }
        }
        guard !invocations.isEmpty else { return refusals }
        do {
            for (place, reply) in zip(places, try await self.store.redis.evaluate(invocations)) {
                if case .error(let message) = reply { refusals[place] = message }
            }
        } catch {
            throw StoreError("noting parcels", error)
        }
        // A version that was followed by another one, or by a removal, before its parcels were noted.
        let standing = try await self.store.storedVersions(noted.map(\.state.key))
        await self.forget(
            zip(noted, standing).compactMap { noted, stored in
                if let stored, !stored.isRemoved, stored.version <= noted.state.version { return nil }
                return (noted.state.key, noted.parcels, noted.state.version)
            })
        return refusals
    }

    /// Forgets all parcels of removed orders, in one pass over the keys of Redis: a removed order does not know which
    /// it had.
    ///
    /// - Parameter orders: those that exist keep theirs.
    /// - Returns: the number of entries of each order.
    /// - Throws: `StoreError`; a retry is safe.
    public func forget(ofRemoved orders: Set<OrderKey>) async throws(StoreError) -> [OrderKey: Int] {
        var forgotten: [OrderKey: Int] = [:]
        guard !orders.isEmpty else { return [:] }
        let scan = OrderScan(redis: self.store.redis)
        var cursor: String?
        repeat {
            let (keys, next) = try await scan.keys(StoreKeys.anyParcel, from: cursor, count: Self.pageKeys)
            cursor = next
            let entries = try await self.entries(keys.compactMap(\.text), of: orders)
            let standing = try await self.store.storedVersions(entries.map(\.order))
            let gone = zip(entries, standing).filter { $0.1.map(\.isRemoved) ?? true }.map(\.0)
            _ = try await self.store.evaluate(
                gone.map { Self.forgetting($0.keys, of: $0.order, version: nil) }, "forgetting parcels")
            for entry in gone { forgotten[entry.order, default: 0] += 1 }
        } while cursor != nil
        return forgotten
    }

    /// Returns the entries under some keys that are of some orders, each with both of its keys.
    private func entries(
        _ keys: [String], of orders: Set<OrderKey>
    ) async throws(StoreError) -> [(keys: (owner: String, order: String), order: OrderKey)] {
        guard !keys.isEmpty else { return [] }
        let what = "looking for parcels"
        let replies = try await self.store.pipeline(keys.map { RedisCommand("GET", .string($0)) }, what)
        return zip(keys, replies).compactMap { key, reply in
            guard let text = reply.text, let both = StoreKeys.parcel(ofKey: key),
                let order = key == both.owner ? Entry(text)?.owner.order : (try? OrderKey(text)),
                orders.contains(order)
            else { return nil }
            return (both, order)
        }
    }

    private static func forgetting(
        _ keys: (owner: String, order: String), of order: OrderKey, version: Int64?
    ) -> RedisInvocation {
        RedisInvocation(
            StoreScripts.forgetParcel, keys: [keys.owner, keys.order],
            arguments: [.string(order.description), version.map { .integer($0) } ?? ""])
    }

    /// Forgets parcels that orders do not have. An entry that stays because Redis is away finds nothing once its order
    /// is gone; its life ends it, or `forget(ofRemoved:)`.
    ///
    /// - Parameter orders: of each the parcels, and the version that noted them; nil for any.
    func forget(_ orders: [(key: OrderKey, parcels: [Parcel], version: Int64?)]) async {
        let invocations = orders.flatMap { order in
            order.parcels.map { Self.forgetting(StoreKeys.parcel($0), of: order.key, version: order.version) }
        }
        if !invocations.isEmpty { _ = try? await self.store.redis.evaluate(invocations) }
    }
}

extension StoreScripts {
    /// Notes the order of a parcel, unless one that was modified later has it; of two of one second that with the
    /// greater key, or the later version, has it, so that the sequence of two notes does not matter. A full Redis takes
    /// what it has already, and an entry in the place of another one.
    ///
    /// KEYS: the owner, the order alone. ARGV: modification second, version, order, fulfillment, seconds to keep the
    /// order alone, seconds to keep the owner. Returns 1 if noted, else 0.
    static let noteParcel = RedisScript(
        """
        local standing, entry = redis.call('GET', KEYS[1]) or '', table.concat(ARGV, ' ', 1, 4)
        if standing == entry then return redis.call('EXPIRE', KEYS[1], ARGV[6]) end
        local second, version, order = string.match(standing, '^(%d+) (%d+) (%S+) ')
        if second then
          local difference = tonumber(second) - tonumber(ARGV[1])
          local isLater = order > ARGV[3] or order == ARGV[3] and tonumber(version) > tonumber(ARGV[2])
          if difference > 0 or difference == 0 and isLater then return 0 end
          redis.call('DEL', KEYS[1])
        end
        redis.call('SET', KEYS[1], entry, 'EX', ARGV[6])
        redis.call('SET', KEYS[2], ARGV[3], 'EX', ARGV[5])
        return 1
        """)

    /// Forgets a parcel unless another order has it. KEYS: as for `noteParcel`. ARGV: the order, the version that noted
    /// it or nothing for any.
    static let forgetParcel = RedisScript(
        """
        local version, order = string.match(redis.call('GET', KEYS[1]) or '', '^%d+ (%d+) (%S+) ')
        if order and order ~= ARGV[1] or ARGV[2] ~= '' and ARGV[2] ~= version then return 0 end
        redis.call('DEL', KEYS[1])
        if redis.call('GET', KEYS[2]) == ARGV[1] then return redis.call('DEL', KEYS[2]) end
        return 0
        """)
}
