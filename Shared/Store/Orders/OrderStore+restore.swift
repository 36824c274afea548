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
        /// False for an order of which Redis has neither the document nor the place of a record.
        let isWhole: Bool

        /// Returns true if a version is not newer than this one.
        public func isAsNew(as state: OrderState) -> Bool {
            (self.version, self.modifiedEpochSeconds) >= (state.version, state.modifiedEpochSeconds)
        }

        /// Returns true if a version, and the place of its last record, certainly need not be written.
        public func knows(_ record: PublishedRecord?, of state: OrderState) -> Bool {
            guard self.version == state.version else { return true }
            return self.isWhole && (self.record == nil || self.record == record)
        }
    }

    /// Returns the stored states of some orders, even from an incomplete view; nil for an unknown or damaged one.
    public func storedVersions(_ keys: [OrderKey]) async throws(StoreError) -> [StoredVersion?] {
        let replies: [RedisValue]
        do {
            replies = try await self.redis.pipeline(
                keys.flatMap { key -> [RedisCommand] in
                    let key = RedisArgument.string(StoreKeys.order(key))
                    return [
                        RedisCommand("HMGET", key, "version", "modified", "removed", "record"),
                        RedisCommand("HEXISTS", key, "document"),
                    ]
                })
        } catch {
            throw StoreError("comparing orders", error)
        }
        var versions: [StoredVersion?] = []
        for index in stride(from: 0, to: replies.count - 1, by: 2) {
            let reply = replies[index]
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
            let record = values[3].text.flatMap { PublishedRecord($0) }
            versions.append(
                StoredVersion(
                    version: version, modifiedEpochSeconds: modified, isRemoved: values[2].text == "1",
                    record: record, isWhole: record != nil || replies[index + 1] == .integer(1)))
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

    /// The numbers of orders that a restore wrote, and left alone.
    public struct RestoreCounts: Hashable, Sendable {
        public var written = 0
        /// Orders of which the place of the last record was mended.
        public var placed = 0
        /// Orders that Redis has as their record says.
        public var same = 0
        /// Orders of which Redis has a newer version.
        public var newer = 0
        /// Orders that were removed after their record.
        public var removed = 0
        /// Orders whose place was not compared, since Kafka did not answer.
        public var unread = 0

        public init() {}

        public static func + (one: RestoreCounts, other: RestoreCounts) -> RestoreCounts {
            var sum = one
            sum.written += other.written
            sum.placed += other.placed
            sum.same += other.same
            sum.newer += other.newer
            sum.removed += other.removed
            sum.unread += other.unread
            return sum
        }
    }

    /// Restores orders, each only if the stored one is older.
    ///
    /// The record of an order is read before this: it is the last one, unless the place that Redis has is later and
    /// has one of the order, too. A place of a topic that was made anew has another record, or none.
    /// - Throws: `StoreError`; a retry is safe.
    public func restore(_ orders: [Restored]) async throws(StoreError) -> RestoreCounts {
        var counts = RestoreCounts()
        guard !orders.isEmpty else { return counts }
        var kept: [(order: Restored, place: PublishedRecord)] = []
        var superseded: [(key: OrderKey, parcels: [Parcel], version: Int64?)] = []
        var standing: [OrderState] = []
        for (order, reply) in zip(orders, try await self.run(orders.map { Self.invocation($0) })) {
            if let place = reply.text.flatMap({ PublishedRecord($0) }) {
                kept.append((order, place))
            } else {
                counts.add(reply.integer)
            }
            guard let state = order.state else { continue }
            // Another version has its own parcels.
            if reply.integer.map({ $0 == 3 || $0 == 4 }) ?? false {
                superseded.append((state.key, Array(state.document.parcels.keys), state.version))
            } else {
                standing.append(state)
            }
        }
        await self.parcels.forget(superseded)
        try await self.restoreParcels(of: standing)
        guard let records = self.records, !kept.isEmpty else {
            counts.same += kept.count
            return counts
        }
        var stale: [RedisInvocation] = []
        for ((order, place), result) in zip(kept, await records(kept.map { ($0.order.key, $0.place) })) {
            switch result {
            case .success(let found?) where found.version == order.state?.version: counts.same += 1
            case .success, .failure(is RecordError): stale.append(Self.invocation(order, instead: place))
            case .failure: counts.unread += 1
            }
        }
        for reply in try await self.run(stale) { counts.add(reply.integer) }
        return counts
    }

    /// Notes the parcels of versions that Redis has.
    ///
    /// - Throws: `StoreError`, also if Redis has no room for one; a retry is safe.
    private func restoreParcels(of states: [OrderState]) async throws(StoreError) {
        if let refusal = try await self.parcels.note(states).lazy.compactMap(\.self).first {
            throw StoreError(.unavailable, "restoring parcels: \(refusal)")
        }
    }

    /// Notes the parcels of orders that Redis has as their records say: a crash may have kept them from being noted.
    public func restoreParcels(of orders: [Restored]) async throws(StoreError) {
        try await self.restoreParcels(of: orders.compactMap(\.state))
    }

    private func run(_ invocations: [RedisInvocation]) async throws(StoreError) -> [RedisValue] {
        guard !invocations.isEmpty else { return [] }
        let replies: [RedisValue]
        do {
            replies = try await self.redis.evaluate(invocations)
        } catch {
            throw StoreError("restoring orders", error)
        }
        for case .error(let message) in replies { throw StoreError(.unavailable, "restoring orders: \(message)") }
        return replies
    }

    /// - Parameter stale: the place that Redis has and the order's record is not at; nil if none is known.
    private static func invocation(
        _ restored: Restored, instead stale: PublishedRecord? = nil
    ) -> RedisInvocation {
        switch restored {
        case .version(let state, _, let record?, true): Self.invocation(state, "cold", record, stale, state.coldFields)
        case .version(let state, let content, let record, _):
            Self.invocation(
                state, "version", record, stale, state.fields + (content.map { [(.content, .string($0))] } ?? []))
        case .removed(let state): Self.invocation(state, "removal", nil, nil, state.fieldsAsRemoved)
        case .forgotten(let key, let milliseconds):
            RedisInvocation(
                StoreScripts.forgetOrder, keys: [StoreKeys.order(key), StoreKeys.gone(key)],
                arguments: [.integer(milliseconds), .integer(Self.goneSeconds)])
        }
    }

    private static func invocation(
        _ order: OrderState, _ mode: RedisArgument, _ record: PublishedRecord?, _ stale: PublishedRecord?,
        _ fields: [(OrderField, RedisArgument)]
    ) -> RedisInvocation {
        var arguments: [RedisArgument] = []
        arguments.reserveCapacity(36)
        arguments += [
            .integer(order.version), .integer(order.modifiedEpochSeconds), mode, .integer(Self.removedSeconds),
            .string(record?.text ?? ""), .string(stale?.text ?? ""),
        ]
        arguments.append(fields)
        return RedisInvocation(
            StoreScripts.restoreOrder, keys: [StoreKeys.order(order.key), StoreKeys.gone(order.key)],
            arguments: arguments)
    }
}

extension OrderStore.Restored {
    /// The state of an order that exists.
    fileprivate var state: OrderState? { if case .version(let state, _, _, _) = self { state } else { nil } }
}

extension OrderStore.RestoreCounts {
    /// Counts the answer of a script.
    fileprivate mutating func add(_ reply: Int64?) {
        switch reply {
        case 1: self.written += 1
        case 2: self.placed += 1
        case 3: self.newer += 1
        case 4: self.removed += 1
        default: self.same += 1
        }
    }
}
