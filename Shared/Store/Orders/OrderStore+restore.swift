public import Model
import Redis

/// Operations for restoring: comparing by versions, and writing orders that are newer than the stored ones.
extension OrderStore {
    /// The facts that decide if an order is newer than another state of it.
    public struct StoredVersion: Hashable, Sendable {
        public let version: Int64
        public let modifiedEpochSeconds: Int64
        public let isRemoved: Bool

        /// Returns true if a version is not newer than this one.
        public func isAsNew(asVersion version: Int64, modifiedEpochSeconds: Int64) -> Bool {
            (self.version, self.modifiedEpochSeconds) >= (version, modifiedEpochSeconds)
        }
    }

    /// Returns the stored states of some orders, even from an incomplete view; nil for an unknown or damaged one.
    public func storedVersions(_ keys: [OrderKey]) async throws(StoreError) -> [StoredVersion?] {
        let replies: [RedisValue]
        do {
            replies = try await self.redis.pipeline(
                keys.map { RedisCommand("HMGET", .string(StoreKeys.order($0)), "version", "modified", "removed") })
        } catch {
            throw StoreError("comparing orders", error)
        }
        var versions: [StoredVersion?] = []
        for reply in replies {
            if case .error(let message) = reply {
                let error = StoreError("comparing orders", reply: message)
                guard error.code == .corrupt else { throw error }
            }
            guard let values = reply.array, values.count == 3, let version = values[0].integer,
                let modified = values[1].integer
            else {
                versions.append(nil)
                continue
            }
            versions.append(
                StoredVersion(version: version, modifiedEpochSeconds: modified, isRemoved: values[2].text == "1"))
        }
        return versions
    }

    /// The state of one order to restore.
    public enum Restored: Sendable {
        /// As published, with a new signature.
        case version(OrderState, StoredPackage)
        /// As published, in the same bytes; nil for a version without a package.
        case fields(OrderFields, StoredPackage?)
        /// A removed order with the data that idempotence needs.
        case removed(OrderState)
        /// A removed order of which only the time of removal is known.
        case forgotten(OrderKey, epochMilliseconds: Int64)
    }

    /// Restores orders, each only if the stored one is older.
    ///
    /// - Parameter begun: a time before any asset of these orders was looked up.
    /// - Returns: the number written.
    /// - Throws: `StoreError`; a retry is safe.
    public func restore(_ orders: [Restored], begun: PackagingStart = .now) async throws(StoreError) -> Int {
        guard !orders.isEmpty else { return 0 }
        let parcels = try await self.parcels.note(orders.compactMap(\.parcels))
        if let refusal = parcels.lazy.compactMap(\.self).first {
            throw StoreError(.unavailable, "restoring parcels: \(refusal)")
        }
        let replies: [RedisValue]
        do {
            replies = try await self.redis.evaluate(orders.map { self.invocation($0, begun) })
        } catch {
            throw StoreError("restoring orders", error)
        }
        for case .error(let message) in replies { throw StoreError(.unavailable, "restoring orders: \(message)") }
        return replies.count { $0.integer == 1 }
    }

    private func invocation(_ restored: Restored, _ begun: PackagingStart) -> RedisInvocation {
        switch restored {
        case .version(let state, let package): self.invocation(OrderFields(state), package, begun)
        case .fields(let fields, let package): self.invocation(fields, package, begun)
        case .removed(let state):
            self.invocation(OrderFields(state), "removal", 0, OrderFields(state).writtenAsRemoved)
        case .forgotten(let key, let milliseconds):
            RedisInvocation(
                StoreScripts.forgetOrder, keys: [StoreKeys.order(key), StoreKeys.gone(key)],
                arguments: [.integer(milliseconds), .integer(Self.goneSeconds)])
        }
    }

    private func invocation(
        _ order: OrderFields, _ package: StoredPackage?, _ begun: PackagingStart
    ) -> RedisInvocation {
        self.invocation(
            order, package == nil ? "unpackaged" : "version", self.lastMoment(assets: package?.shared ?? [], begun),
            order.written(with: package))
    }

    private func invocation(
        _ order: OrderFields, _ mode: RedisArgument, _ lastMoment: Int64, _ fields: [(OrderField, RedisArgument)]
    ) -> RedisInvocation {
        var arguments: [RedisArgument] = []
        arguments.reserveCapacity(36)
        arguments += [
            .integer(order.version), .integer(order.modifiedEpochSeconds), mode, .integer(Self.removedSeconds),
            .integer(lastMoment),
        ]
        arguments.append(fields)
        return RedisInvocation(
            StoreScripts.restoreOrder, keys: [StoreKeys.order(order.key), StoreKeys.gone(order.key)],
            arguments: arguments)
    }
}

extension OrderStore.Restored {
    /// The order with its parcels; nil for none.
    fileprivate var parcels: (key: OrderKey, parcels: Set<Parcel>)? {
        let (key, document): (OrderKey, OrderDocument)
        switch self {
        case .version(let state, _): (key, document) = (state.key, state.document)
        case .fields(let fields, _):
            // Documents of a restore are not parsed otherwise.
            guard Self.hasNumber(fields.document), let json = try? JSON(parsing: fields.document).object else {
                return nil
            }
            (key, document) = (fields.key, OrderDocument(members: json))
        case .removed, .forgotten: return nil
        }
        let parcels = document.parcels
        return parcels.isEmpty ? nil : (key, Set(parcels.keys))
    }

    /// Returns true if a document may have a member `trackingNumber`.
    private static func hasNumber(_ document: [UInt8]) -> Bool {
        let end = "kingNumber\"".utf8
        var rest = document[...]
        while let place = rest.firstIndex(of: UInt8(ascii: "k")) {
            if rest[place...].starts(with: end) { return true }
            rest = rest[(place + 1)...]
        }
        return false
    }
}
