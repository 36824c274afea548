public import Model
import Redis

/// Operations for restoring: comparing by versions, and writing orders that are newer than the stored ones.
extension OrderStore {
    /// The facts that decide if an order is newer than another state of it.
    public struct StoredVersion: Hashable, Sendable {
        public let version: Int64
        public let modifiedEpochSeconds: Int64
        public let isRemoved: Bool
        /// Its last record; nil if that is not known.
        let record: PublishedRecord?

        /// Returns true if a version is not newer than this one.
        public func isAsNew(as state: OrderState) -> Bool {
            (self.version, self.modifiedEpochSeconds) >= (state.version, state.modifiedEpochSeconds)
        }

        /// Returns true if the last record of a version certainly needs not be noted.
        public func knows(_ record: PublishedRecord?, of state: OrderState) -> Bool {
            self.version != state.version || self.record == nil || self.record == record
        }
    }

    /// Returns the stored states of some orders, even from an incomplete view; nil for an unknown or damaged one.
    public func storedVersions(_ keys: [OrderKey]) async throws(StoreError) -> [StoredVersion?] {
        let replies: [RedisValue]
        do {
            replies = try await self.redis.pipeline(
                keys.map {
                    RedisCommand("HMGET", .string(StoreKeys.order($0)), "version", "modified", "removed", "record")
                })
        } catch {
            throw StoreError("comparing orders", error)
        }
        var versions: [StoredVersion?] = []
        for reply in replies {
            if case .error(let message) = reply {
                let error = StoreError("comparing orders", reply: message)
                guard error.code == .corrupt else { throw error }
            }
            guard let values = reply.array, values.count == 4, let version = values[0].integer,
                let modified = values[1].integer
            else {
                versions.append(nil)
                continue
            }
            versions.append(
                StoredVersion(
                    version: version, modifiedEpochSeconds: modified, isRemoved: values[2].text == "1",
                    record: values[3].text.flatMap { PublishedRecord($0) }))
        }
        return versions
    }

    /// The state of one order to restore. Indirect, since it goes through several arrays.
    public indirect enum Restored: Sendable {
        /// As published, but for its package, which is made again when it is asked for.
        ///
        /// - content: as in `StoredOrder`; nil if its record has none.
        /// - isCold: true for an order of which Redis gets what it keeps of a cold one.
        case version(OrderState, content: String?, PublishedRecord? = nil, isCold: Bool = false)
        /// A removed order with the data that idempotence needs.
        case removed(OrderState)
        /// A removed order of which only the time of removal is known.
        case forgotten(OrderKey, epochMilliseconds: Int64)

        public var key: OrderKey {
            switch self {
            case .version(let state, _, _, _), .removed(let state): state.key
            case .forgotten(let key, _): key
            }
        }
    }

    /// Restores orders, each only if the stored one is older.
    ///
    /// - Returns: the number written.
    /// - Throws: `StoreError`; a retry is safe.
    public func restore(_ orders: [Restored]) async throws(StoreError) -> Int {
        guard !orders.isEmpty else { return 0 }
        let parcels = try await self.parcels.note(orders.compactMap(\.parcels))
        if let refusal = parcels.lazy.compactMap(\.self).first {
            throw StoreError(.unavailable, "restoring parcels: \(refusal)")
        }
        let replies: [RedisValue]
        do {
            replies = try await self.redis.evaluate(orders.map(Self.invocation))
        } catch {
            throw StoreError("restoring orders", error)
        }
        for case .error(let message) in replies { throw StoreError(.unavailable, "restoring orders: \(message)") }
        return replies.count { $0.integer == 1 }
    }

    private static func invocation(_ restored: Restored) -> RedisInvocation {
        switch restored {
        case .version(let state, _, let record?, true): Self.invocation(state, "cold", record, state.coldFields)
        case .version(let state, let content, let record, _):
            Self.invocation(state, "version", record, state.fields + (content.map { [(.content, .string($0))] } ?? []))
        case .removed(let state): Self.invocation(state, "removal", nil, state.fieldsAsRemoved)
        case .forgotten(let key, let milliseconds):
            RedisInvocation(
                StoreScripts.forgetOrder, keys: [StoreKeys.order(key), StoreKeys.gone(key)],
                arguments: [.integer(milliseconds), .integer(Self.goneSeconds)])
        }
    }

    private static func invocation(
        _ order: OrderState, _ mode: RedisArgument, _ record: PublishedRecord?, _ fields: [(OrderField, RedisArgument)]
    ) -> RedisInvocation {
        var arguments: [RedisArgument] = []
        arguments.reserveCapacity(36)
        arguments += [
            .integer(order.version), .integer(order.modifiedEpochSeconds), mode, .integer(Self.removedSeconds),
            .string(record?.text ?? ""),
        ]
        arguments.append(fields)
        return RedisInvocation(
            StoreScripts.restoreOrder, keys: [StoreKeys.order(order.key), StoreKeys.gone(order.key)],
            arguments: arguments)
    }
}

extension OrderStore.Restored {
    /// The parcels of the order; nil if it has none.
    fileprivate var parcels: (OrderKey, Set<Parcel>)? {
        guard case .version(let state, _, _, _) = self else { return nil }
        let parcels = state.document.parcels
        return parcels.isEmpty ? nil : (state.key, Set(parcels.keys))
    }
}
