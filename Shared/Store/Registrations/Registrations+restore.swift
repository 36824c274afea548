public import Model
import Redis

/// Registrations in bulk, for restoring.
extension Registrations {
    /// A record of `waybill.registrations`.
    public struct Restored: Hashable, Sendable {
        public let key: RegistrationKey
        /// Nil for one that ended.
        public let registration: RegistrationRecord?
        public let stamp: RegistrationStamp

        public init(key: RegistrationKey, registration: RegistrationRecord?, stamp: RegistrationStamp) {
            self.key = key
            self.registration = registration
            self.stamp = stamp
        }
    }

    /// Restores registrations and removes those that ended; newer ones stay. Those of removed orders are left out, and
    /// removed if a gateway wrote them before the removal was there.
    ///
    /// - Parameter items: one of each key, some hundreds, since all are in one pipeline.
    /// - Returns: the items, by index, that cannot be written because Redis has a value of another kind under one of
    ///   their keys. A retry does not help them.
    /// - Throws: `StoreError`; a retry is safe.
    @discardableResult
    public func restore(_ items: [Restored]) async throws(StoreError) -> [(index: Int, error: StoreError)] {
        // The order decides first if it takes a registration. An end removes the order's side last.
        let first = items.map { item in
            item.registration.map { Self.orderSide(registering: $0, item.key, item.stamp) }
                ?? Self.deviceSide(StoreScripts.unregisterOrder, item.key, item.stamp, .integer(Self.endedSeconds))
        }
        var damaged: [Int: StoreError] = [:]
        let replies = try await self.evaluate(first, of: Array(items.indices), &damaged)
        for (item, reply) in zip(items, replies) {
            self.report(reply, item.key, item.registration == nil ? .lastOrder : .firstDevice)
        }
        let isRefused = zip(items, replies).map { $0.registration != nil && $1.integer == Outcome.removed.rawValue }
        let second = zip(items, isRefused).map { item, isRefused in
            if isRefused { return Self.orderSide(StoreScripts.unregisterDevice, item.key, item.stamp, "0") }
            return item.registration == nil
                ? Self.orderSide(StoreScripts.unregisterDevice, item.key, item.stamp, .integer(Self.endedSeconds))
                : Self.deviceSide(StoreScripts.registerOrder, item.key, item.stamp)
        }
        let seconds = try await self.evaluate(second, of: Array(items.indices), &damaged)
        for (index, reply) in zip(items.indices, seconds) {
            let isEnd = isRefused[index] || items[index].registration == nil
            self.report(reply, items[index].key, isEnd ? .lastDevice : .firstOrder)
        }
        let refused = items.indices.filter { isRefused[$0] }
        let third = refused.map {
            Self.deviceSide(StoreScripts.unregisterOrder, items[$0].key, items[$0].stamp, "0")
        }
        if !third.isEmpty {
            let thirds = try await self.evaluate(third, of: refused, &damaged)
            for (index, reply) in zip(refused, thirds) { self.report(reply, items[index].key, .lastOrder) }
        }
        return damaged.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// - Parameters:
    ///   - indices: those of the items that the scripts are for.
    ///   - damaged: gets the errors of items of which Redis has a value of another kind.
    private func evaluate(
        _ invocations: [RedisInvocation], of indices: [Int], _ damaged: inout [Int: StoreError]
    ) async throws(StoreError) -> [RedisValue] {
        let what = "restoring registrations"
        let replies: [RedisValue]
        do {
            replies = try await self.redis.evaluate(invocations)
        } catch {
            throw StoreError(what, error)
        }
        guard replies.count == indices.count else {
            throw StoreError(.unavailable, "\(what): a reply is missing")
        }
        for case (let index, .error(let message)) in zip(indices, replies) {
            let error = StoreError(what, reply: message)
            guard error.code == .corrupt else { throw error }
            damaged[index] = damaged[index] ?? error
        }
        return replies
    }

    /// Returns true for each record if it, or something newer, is in Redis.
    ///
    /// A record that cannot be written, or whose order is removed, counts as present: restoring would not add it.
    public func stand(_ items: [Restored]) async throws(StoreError) -> [Bool] {
        let replies: [RedisValue]
        do {
            replies = try await self.redis.pipeline(
                items.flatMap { item in
                    let device = RedisArgument.string(item.key.device.rawValue)
                    return [
                        RedisCommand("HGET", .string(StoreKeys.devices(item.key.order)), device),
                        RedisCommand("HGET", .string(StoreKeys.stamps(item.key.order)), device),
                        RedisCommand("HMGET", .string(StoreKeys.order(item.key.order)), "version", "removed"),
                        RedisCommand("EXISTS", .string(StoreKeys.gone(item.key.order))),
                    ]
                })
        } catch {
            throw StoreError("comparing registrations", error)
        }
        var damaged: Set<Int> = []
        for case (let index, .error(let message)) in replies.enumerated() {
            let error = StoreError("comparing registrations", reply: message)
            guard error.code == .corrupt else { throw error }
            // A damaged order does not make its registrations count as present.
            if index % 4 < 2 { damaged.insert(index / 4) }
        }
        guard replies.count == items.count * 4 else {
            throw StoreError(.unavailable, "comparing registrations: a reply is missing")
        }
        return items.indices.map { index in
            if damaged.contains(index) { return true }
            let bytes = replies[index * 4].bytes
            let order = replies[index * 4 + 2].array ?? []
            let isGone = order.first?.text == nil && replies[index * 4 + 3] == .integer(1)
            if bytes == nil, isGone || order.last?.text == "1" { return true }
            // A record that was published again has the same content at a higher offset.
            if let wanted = items[index].registration {
                if let bytes, (try? RegistrationRecord.decode(bytes)) == wanted { return true }
                guard bytes != nil else { return false }
            } else if bytes == nil {
                return true
            }
            let stamp = replies[index * 4 + 1].text.flatMap { RegistrationStamp.read($0)?.stamp }
            return stamp.map { $0.isNewer(than: items[index].stamp) } ?? false
        }
    }
}

extension RegistrationStamp {
    /// Applies the rule of the scripts: offsets of one partition decide if the times are close, else the times decide.
    func isNewer(than other: RegistrationStamp) -> Bool {
        let isElsewhere = !self.origin.isEmpty && !other.origin.isEmpty && self.origin != other.origin
        if isElsewhere || self.offset < 0 || other.offset < 0
            || abs(self.epochMilliseconds - other.epochMilliseconds) > Self.raceMilliseconds
        {
            return self.epochMilliseconds > other.epochMilliseconds
        }
        return self.offset > other.offset
    }
}
