public import Model
public import Redis

/// The devices registered for each order.
///
/// A registration is stored in two places that may be in different slots: with the order (the devices to push to) and
/// with the device (the orders it may list). The order's side is written last and removed first: a device that gets a
/// push can always list. Both sides keep the newest by `RegistrationStamp`, each separately: requests that race leave
/// the same on both, whatever the order of their steps. A registration that was stored without a stamp is older than
/// any other.
public struct Registrations: Sendable {
    /// The time for which the end of a registration is remembered, in seconds: longer than any request takes.
    static let endedSeconds: Int64 = 3600

    let redis: RedisClient

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

    /// Registers a device for an order or updates its push token, unless something newer came first.
    ///
    /// - Parameter stamp: the position of the record in Kafka; without it the time of the registration decides.
    /// - Returns: true if it was registered before.
    @discardableResult
    public func register(
        _ key: RegistrationKey, _ registration: RegistrationRecord, at stamp: RegistrationStamp? = nil
    ) async throws(StoreError) -> Bool {
        let stamp =
            stamp
            ?? RegistrationStamp(offset: -1, epochMilliseconds: registration.registeredEpochMilliseconds)
        let what = "registering a device"
        _ = try await self.evaluate(Self.deviceSide(StoreScripts.registerOrder, key, stamp), what)
        let existed = try await self.evaluate(
            Self.orderSide(StoreScripts.registerDevice, key, stamp, .bytes(registration.encoded)), what)
        guard let existed = existed.integer else { throw StoreError(.unavailable, "\(what): an unexpected reply") }
        return existed == 1
    }

    /// Removes a registration, unless a newer one came first. One that does not exist is not an error.
    ///
    /// - Parameter stamp: the position of the tombstone in Kafka; without it any registration is removed.
    public func unregister(_ key: RegistrationKey, at stamp: RegistrationStamp? = nil) async throws(StoreError) {
        let remembered: RedisArgument = stamp == nil ? "0" : .integer(Self.endedSeconds)
        let stamp = stamp ?? .always
        let what = "unregistering a device"
        _ = try await self.evaluate(Self.orderSide(StoreScripts.unregisterDevice, key, stamp, remembered), what)
        _ = try await self.evaluate(Self.deviceSide(StoreScripts.unregisterOrder, key, stamp, remembered), what)
    }

    /// Removes a registration if it is still the given one, so that a newer one survives.
    ///
    /// - Returns: true if it was removed.
    public func retire(_ key: RegistrationKey, _ registration: RegistrationRecord) async throws(StoreError) -> Bool {
        let moment = registration.registeredEpochMilliseconds
        let what = "retiring a device"
        let invocation = RedisInvocation(
            StoreScripts.retire, keys: [StoreKeys.devices(key.order), StoreKeys.stamps(key.order)],
            arguments: [
                .string(key.device.rawValue), .string(registration.pushToken.rawValue), .integer(moment),
            ])
        guard let stood = try await self.evaluate(invocation, what).text else { return false }
        // A registration that arrives at this moment is written on the device's side first: it is newer and stays.
        let stamp = RegistrationStamp.read(stood)?.stamp ?? RegistrationStamp(offset: -1, epochMilliseconds: moment)
        _ = try await self.evaluate(Self.deviceSide(StoreScripts.unregisterOrder, key, stamp, "0"), what)
        return true
    }

    static func orderSide(
        _ script: RedisScript, _ key: RegistrationKey, _ stamp: RegistrationStamp, _ last: RedisArgument
    ) -> RedisInvocation {
        RedisInvocation(
            script,
            keys: [StoreKeys.devices(key.order), StoreKeys.stamps(key.order), StoreKeys.ended(key.order)],
            arguments: [
                .string(key.device.rawValue), .integer(stamp.offset), .integer(stamp.epochMilliseconds),
                .string(stamp.origin), last,
            ])
    }

    static func deviceSide(
        _ script: RedisScript, _ key: RegistrationKey, _ stamp: RegistrationStamp, _ last: RedisArgument...
    ) -> RedisInvocation {
        let device = DeviceTag(key.device, key.order.orderType)
        return RedisInvocation(
            script, keys: [StoreKeys.listed(device), StoreKeys.stamps(device), StoreKeys.ended(device)],
            arguments: [
                .string(key.order.order.rawValue), .integer(stamp.offset), .integer(stamp.epochMilliseconds),
                .string(stamp.origin),
            ] + last)
    }

    func evaluate(_ invocation: RedisInvocation, _ what: String) async throws(StoreError) -> RedisValue {
        try await self.redis.reply(to: invocation, what)
    }

    /// Returns the registrations stored with their orders.
    ///
    /// - Returns: one per key, in order; nil if there is none, or one that cannot be parsed.
    public func registrations(_ keys: [RegistrationKey]) async throws(StoreError) -> [RegistrationRecord?] {
        let replies = try await self.pipeline(
            keys.map { RedisCommand("HGET", .string(StoreKeys.devices($0.order)), .string($0.device.rawValue)) },
            "looking up registrations", passingWrongTypes: true)
        return replies.map { $0.bytes.flatMap { try? RegistrationRecord.decode($0) } }
    }

    /// Returns the registration stored with its order; nil if there is none, or one that cannot be parsed.
    public func registration(_ key: RegistrationKey) async throws(StoreError) -> RegistrationRecord? {
        try await self.registrations([key]).first ?? nil
    }

    /// Returns the orders of one type that a device is registered for.
    public func orders(
        of device: DeviceIdentifier, type: OrderTypeIdentifier
    ) async throws(StoreError) -> [OrderIdentifier] {
        let command = RedisCommand("SMEMBERS", .string(StoreKeys.listed(DeviceTag(device, type))))
        let replies = try await self.pipeline([command], "looking up a device's orders")
        return (replies.first?.array ?? []).compactMap { $0.text.flatMap { try? OrderIdentifier($0) } }
    }

    /// - Parameter passingWrongTypes: true if the other keys are read despite a damaged one, which must not stop a
    ///   reader forever.
    func pipeline(
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
