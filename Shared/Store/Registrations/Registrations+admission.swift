public import Model
import Redis

/// The limits on the devices of an order, and on the rate of new ones.
///
/// A client that has an order's token can register devices that do not exist. A refusal here, before Kafka has the
/// record, bounds the data that grows by that (a hash in Redis, records in Kafka, notifications). New devices are also
/// bounded in time, by a token bucket of the same size that fills within an hour: registering and unregistering in turn
/// leaves no more records than that. Requests that race may leave an order with twice its limit.
/// Source: ITU-T I.371 §A.1, generic cell rate algorithm
extension Registrations {
    /// The default number of devices of an order, and the range of the configuration.
    public static let deviceLimit = 100
    public static let deviceLimits = 1...1000

    private static let hourMilliseconds: Int64 = 3_600_000

    /// The decision on a registration, or its end, that is to be published.
    public enum Admission: Hashable, Sendable {
        case admitted
        /// The order has as many devices as it may have.
        case full
        /// Too many new devices were registered; the next is accepted after this time.
        case tooSoon(milliseconds: Int64)
    }

    /// Requests admission of a registration. A device that is registered already may always renew it.
    ///
    /// - Parameter limit: the most devices of one order.
    public func admit(_ key: RegistrationKey, limit: Int) async throws(StoreError) -> Admission {
        try await self.admit(key, limit: limit, isEnd: false)
    }

    /// Requests admission of the end of a registration. A registered device may always end it; the end of another one,
    /// which may be in flight, counts as a new device.
    public func admitEnd(of key: RegistrationKey, limit: Int) async throws(StoreError) -> Admission {
        try await self.admit(key, limit: limit, isEnd: true)
    }

    private func admit(_ key: RegistrationKey, limit: Int, isEnd: Bool) async throws(StoreError) -> Admission {
        let limit = Int64(max(1, limit))
        let what = "admitting a device"
        let reply = try await self.evaluate(
            RedisInvocation(
                StoreScripts.admit, keys: [StoreKeys.devices(key.order), StoreKeys.admitted(key.order)],
                arguments: [
                    .string(key.device.rawValue), .integer(limit),
                    .integer(max(1, Self.hourMilliseconds / limit)), isEnd ? "1" : "0",
                ]), what)
        guard let wait = reply.integer else { throw StoreError(.unavailable, "\(what): an unexpected reply") }
        return wait < 0 ? .full : wait == 0 ? .admitted : .tooSoon(milliseconds: wait)
    }
}
