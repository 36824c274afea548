public import Model
import Redis
import Synchronization

/// The synchronization of a device's registrations with gateways of the earlier format, while there may be any. They
/// know its orders under other keys; nothing else updates those, or takes over from them, before they are removed.
///
/// So gateways of both versions may serve the same devices, and the earlier version may come back.
/// Threads: any.
public final class EarlierGateways: Sendable {
    /// The time for which a check of Redis is valid.
    private static let life = Duration.seconds(10)

    private let format: EarlierFormat
    private let registrations: Registrations
    private let seen = Mutex<(isServed: Bool, until: ContinuousClock.Instant)?>(nil)

    public init(_ view: MaterializedView) {
        self.format = EarlierFormat(view)
        self.registrations = Registrations(redis: view.redis)
    }

    /// False if a recent check found that no gateway serves from the earlier format.
    public var mayServe: Bool {
        self.seen.withLock { seen in seen.map { $0.isServed || $0.until < .now } ?? true }
    }

    private func serve() async throws(StoreError) -> Bool {
        let known = self.seen.withLock { seen in seen.flatMap { $0.until < .now ? nil : $0.isServed } }
        if let known { return known }
        let isServed = try await self.format.isServed()
        self.seen.withLock { $0 = (isServed, .now + Self.life) }
        return isServed
    }

    /// Takes over the registrations of a device that they accepted. Call it before the device's orders are listed.
    public func adopt(_ device: DeviceIdentifier, _ type: OrderTypeIdentifier) async throws(StoreError) {
        if try await self.serve() { try await self.format.move(device, type) }
    }

    /// Lets them list an order. Call it before `Registrations.register`, since the device's side is written first.
    public func register(_ key: RegistrationKey, at stamp: RegistrationStamp) async throws(StoreError) {
        guard try await self.serve() else { return }
        _ = try await self.registrations.evaluate(
            self.invocation(StoreScripts.registerOrder, key, stamp, ""), "registering a device with the earlier format")
    }

    /// Stops them from listing an order. Call it after the registration was removed from the order.
    public func unregister(_ key: RegistrationKey, at stamp: RegistrationStamp) async throws(StoreError) {
        guard try await self.serve() else { return }
        _ = try await self.registrations.evaluate(
            self.invocation(StoreScripts.unregisterOrder, key, stamp, .integer(Registrations.endedSeconds)),
            "unregistering a device with the earlier format")
    }

    /// Builds a run of a script, with a stamp as they write it.
    private func invocation(
        _ script: RedisScript, _ key: RegistrationKey, _ stamp: RegistrationStamp, _ last: RedisArgument
    ) -> RedisInvocation {
        Registrations.deviceSide(
            script, key, RegistrationStamp(offset: stamp.offset, epochMilliseconds: stamp.epochMilliseconds), last,
            keys: EarlierFormat.keys(key.device, key.order.orderType))
    }
}
