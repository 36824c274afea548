public import Model
public import Redis

/// Who wants to be told about which order.
///
/// A registration stands in two places that may lie in different slots: with the order (who is pushed) and with the
/// device (what it may list). The order's side is written last and taken off first: a device that is pushed can
/// always list.
public struct Registrations: Sendable {
    private let redis: RedisClient

    public init(redis: RedisClient) { self.redis = redis }

    /// A registered device.
    public struct Registered: Hashable, Sendable {
        public let device: DeviceIdentifier
        public let registration: RegistrationRecord

        public init(device: DeviceIdentifier, registration: RegistrationRecord) {
            self.device = device
            self.registration = registration
        }
    }

    /// Registers a device for an order, or gives it its new push token.
    ///
    /// - Returns: whether it was registered before.
    public func register(
        _ key: RegistrationKey, _ registration: RegistrationRecord
    ) async throws(StoreError) -> Bool {
        let set = StoreKeys.device(key.device, key.order.orderType)
        do {
            _ = try await self.redis.send(RedisCommand("SADD", .string(set), .string(key.order.order.rawValue)))
            let replies = try await self.redis.evaluate([
                RedisInvocation(
                    StoreScripts.register, keys: [StoreKeys.devices(key.order)],
                    arguments: [.string(key.device.rawValue), .bytes(registration.encoded)])
            ])
            guard case .integer(let existed)? = replies.first else {
                throw StoreError(.unavailable, "registering a device: an unexpected reply")
            }
            return existed == 1
        } catch let error as RedisError {
            throw StoreError("registering a device", error)
        } catch let error as StoreError {
            throw error
        } catch {
            throw StoreError(.unavailable, "registering a device: \(error)")
        }
    }

    /// Takes a registration off. One that is not there is no error.
    public func unregister(_ key: RegistrationKey) async throws(StoreError) {
        _ = try await self.pipeline(
            [RedisCommand("HDEL", .string(StoreKeys.devices(key.order)), .string(key.device.rawValue))],
            "unregistering a device")
        try await self.forget(key)
    }

    /// Takes a registration off if it still is the given one, so that a newer one survives.
    ///
    /// - Returns: whether it was taken off.
    public func retire(_ key: RegistrationKey, _ registration: RegistrationRecord) async throws(StoreError) -> Bool {
        let invocation = RedisInvocation(
            StoreScripts.retire, keys: [StoreKeys.devices(key.order)],
            arguments: [.string(key.device.rawValue), .bytes(registration.encoded)])
        do {
            guard case .integer(1)? = try await self.redis.evaluate([invocation]).first else { return false }
        } catch {
            throw StoreError("retiring a device", error)
        }
        try await self.forget(key)
        return true
    }

    /// Takes an order out of the list of a device.
    private func forget(_ key: RegistrationKey) async throws(StoreError) {
        let set = StoreKeys.device(key.device, key.order.orderType)
        _ = try await self.pipeline(
            [RedisCommand("SREM", .string(set), .string(key.order.order.rawValue))], "unregistering a device")
    }

    /// Who is registered for each of some orders.
    ///
    /// - Returns: one list per key, in order. Entries that cannot be read are left out.
    public func devices(of keys: [OrderKey]) async throws(StoreError) -> [[Registered]] {
        let replies = try await self.pipeline(
            keys.map { RedisCommand("HGETALL", .string(StoreKeys.devices($0))) }, "looking up registrations",
            passingWrongTypes: true)
        return replies.map { reply in
            let values = reply.array ?? []
            return stride(from: 0, to: values.count - 1, by: 2).compactMap { index in
                guard let name = values[index].text, let bytes = values[index + 1].bytes,
                    let device = try? DeviceIdentifier(name),
                    let registration = try? RegistrationRecord.decode(bytes)
                else { return nil }
                return Registered(device: device, registration: registration)
            }
        }
    }

    /// The orders of one type that a device is registered for.
    public func orders(
        of device: DeviceIdentifier, type: OrderTypeIdentifier
    ) async throws(StoreError) -> [OrderIdentifier] {
        let command = RedisCommand("SMEMBERS", .string(StoreKeys.device(device, type)))
        let replies = try await self.pipeline([command], "looking up a device's orders")
        return (replies.first?.array ?? []).compactMap { $0.text.flatMap { try? OrderIdentifier($0) } }
    }

    /// When each of some orders was modified last, UNIX seconds; nil for one that is unknown or removed.
    public func modified(_ keys: [OrderKey]) async throws(StoreError) -> [Int64?] {
        let replies = try await self.pipeline(
            keys.map { RedisCommand("HMGET", .string(StoreKeys.order($0)), "modified", "removed") },
            "reading modification times", passingWrongTypes: true)
        return replies.map { reply in
            guard let values = reply.array, values.count == 2, values[1].text != "1" else { return nil }
            return values[0].integer
        }
    }

    /// - Parameter passingWrongTypes: one damaged key must not stop a reader for ever; the others are read.
    private func pipeline(
        _ commands: [RedisCommand], _ operation: String, passingWrongTypes: Bool = false
    ) async throws(StoreError) -> [RedisValue] {
        do {
            let replies = try await self.redis.pipeline(commands)
            for case .error(let message) in replies {
                let error = StoreError(operation, reply: message)
                guard passingWrongTypes && error.code == .corrupt else { throw error }
            }
            return replies
        } catch let error as RedisError {
            throw StoreError(operation, error)
        } catch let error as StoreError {
            throw error
        } catch {
            throw StoreError(.unavailable, "\(operation): \(error)")
        }
    }
}
