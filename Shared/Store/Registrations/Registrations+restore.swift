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

    /// Restores registrations and removes those that ended; newer ones stay.
    ///
    /// - Parameter items: one of each key, some hundreds, since all are in one pipeline.
    /// - Returns: the items, by index, that cannot be written because Redis has a value of another kind under one of
    ///   their keys. A retry does not help them.
    /// - Throws: `StoreError`; a retry is safe.
    @discardableResult
    public func restore(_ items: [Restored]) async throws(StoreError) -> [(index: Int, error: StoreError)] {
        // A registration is written with its device first, and is removed from its order first.
        var first: [RedisInvocation] = []
        var second: [RedisInvocation] = []
        for item in items {
            if let registration = item.registration {
                first.append(Self.deviceSide(StoreScripts.registerOrder, item.key, item.stamp))
                second.append(
                    Self.orderSide(StoreScripts.registerDevice, item.key, item.stamp, .bytes(registration.encoded)))
            } else {
                let remembered = RedisArgument.integer(Self.endedSeconds)
                first.append(Self.orderSide(StoreScripts.unregisterDevice, item.key, item.stamp, remembered))
                second.append(Self.deviceSide(StoreScripts.unregisterOrder, item.key, item.stamp, remembered))
            }
        }
        let what = "restoring registrations"
        var damaged: [Int: StoreError] = [:]
        for invocations in [first, second] {
            let replies: [RedisValue]
            do {
                replies = try await self.redis.evaluate(invocations)
            } catch {
                throw StoreError(what, error)
            }
            for case (let index, .error(let message)) in replies.enumerated() {
                let error = StoreError(what, reply: message)
                guard error.code == .corrupt else { throw error }
                damaged[index] = damaged[index] ?? error
            }
        }
        return damaged.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// Returns true for each record if it, or something newer, is in Redis.
    ///
    /// A record that cannot be written counts as present: restoring would not add it.
    public func stand(_ items: [Restored]) async throws(StoreError) -> [Bool] {
        let replies: [RedisValue]
        do {
            replies = try await self.redis.pipeline(
                items.flatMap { item in
                    let device = RedisArgument.string(item.key.device.rawValue)
                    return [
                        RedisCommand("HGET", .string(StoreKeys.devices(item.key.order)), device),
                        RedisCommand("HGET", .string(StoreKeys.stamps(item.key.order)), device),
                    ]
                })
        } catch {
            throw StoreError("comparing registrations", error)
        }
        var damaged: Set<Int> = []
        for case (let index, .error(let message)) in replies.enumerated() {
            let error = StoreError("comparing registrations", reply: message)
            guard error.code == .corrupt else { throw error }
            damaged.insert(index / 2)
        }
        guard replies.count == items.count * 2 else {
            throw StoreError(.unavailable, "comparing registrations: a reply is missing")
        }
        return items.indices.map { index in
            if damaged.contains(index) { return true }
            let bytes = replies[index * 2].bytes
            // A record that was published again has the same content at a higher offset.
            if let wanted = items[index].registration {
                if let bytes, (try? RegistrationRecord.decode(bytes)) == wanted { return true }
                guard bytes != nil else { return false }
            } else if bytes == nil {
                return true
            }
            let stamp = replies[index * 2 + 1].text.flatMap { RegistrationStamp.read($0)?.stamp }
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
