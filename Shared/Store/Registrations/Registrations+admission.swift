public import Model
import Redis

/// The limits on the devices of an order, and on the rate of new ones.
///
/// A client that has an order's token can register devices that do not exist. A refusal here, before Kafka has the
/// record, bounds the data that grows by that (a hash in Redis, records in Kafka, notifications). New devices are also
/// bounded in time, by a token bucket of the same size that fills within an hour: registering and unregistering in turn
/// leaves no more records than that. A registration with another push token costs as much as a new device, and one that
/// repeats what was registered within the hour costs no record. Requests that race may leave an order with twice its
/// limit.
/// Source: ITU-T I.371 §A.1, generic cell rate algorithm
extension Registrations {
    /// The default number of devices of an order, and the range of the configuration.
    public static let deviceLimit = 100
    public static let deviceLimits = 1...1000

    private static let hourMilliseconds: Int64 = 3_600_000

    /// The decision on a registration, or its end, that is to be published.
    public enum Admission: Hashable, Sendable {
        case admitted
        /// The device has this registration, and its record is less than an hour old: none is to be published.
        case unchanged
        /// The order has as many devices as it may have.
        case full
        /// Too many new devices or push tokens were registered; the next is accepted after this time.
        case tooSoon(milliseconds: Int64)
    }

    /// Requests admission of a registration.
    ///
    /// A device may renew its registration whatever the number of devices. A renewal that is `unchanged` still counts
    /// as later than the end of its push token at any earlier moment: Redis keeps its moment.
    ///
    /// - Parameter limit: the most devices of one order.
    public func admit(
        _ key: RegistrationKey, _ registration: RegistrationRecord, limit: Int
    ) async throws(StoreError) -> Admission {
        try await self.admit(
            key, registration.pushToken.rawValue, registration.registeredEpochMilliseconds, limit: limit)
    }

    /// Requests admission of the end of a registration. A registered device may always end it, also again if the record
    /// of its end could not be published; until the end is in Redis, a renewal counts as a new device. The end of a
    /// registration that does not exist counts as one, too.
    public func admitEnd(of key: RegistrationKey, limit: Int) async throws(StoreError) -> Admission {
        try await self.admit(key, "", 0, limit: limit)
    }

    /// - Parameter token: empty for an end.
    private func admit(
        _ key: RegistrationKey, _ token: String, _ epochMilliseconds: Int64, limit: Int
    ) async throws(StoreError) -> Admission {
        let limit = Int64(max(1, limit))
        let what = "admitting a device"
        let reply = try await self.evaluate(
            RedisInvocation(
                StoreScripts.admit, keys: [StoreKeys.devices(key.order), StoreKeys.admitted(key.order)],
                arguments: [
                    .string(key.device.rawValue), .integer(limit),
                    .integer(max(1, Self.hourMilliseconds / limit)), .string(token), .integer(epochMilliseconds),
                    .integer(Self.hourMilliseconds),
                ]), what)
        switch reply.integer {
        case nil: throw StoreError(.unavailable, "\(what): an unexpected reply")
        case 0: return .admitted
        case -1: return .full
        case -2: return .unchanged
        case let wait?: return .tooSoon(milliseconds: wait)
        }
    }
}
