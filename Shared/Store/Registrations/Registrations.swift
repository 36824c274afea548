public import Model
public import Redis

/// The devices registered for each order.
///
/// A registration is stored in two places that may be in different slots: with the order (the devices to push to) and
/// with the device (the orders it may list). The order's side is written last: a device that gets a push can always
/// list. It is also removed last: what a crash leaves is found with the order, when its registrations end. Both sides
/// keep the newest by `RegistrationStamp`, each separately: requests that race leave the same on both, whatever the
/// order of their steps. A registration that was stored without a stamp is older than any other.
///
/// A removed order takes no registration: its removal has looked for those that are to be ended, or will do so.
public struct Registrations: Sendable {
    /// The time for which the end of a registration is remembered, in seconds: longer than any request takes.
    static let endedSeconds: Int64 = 3600

    let redis: RedisClient
    /// Called when the first device of an order was registered, or its last one is gone, and likewise for the orders of
    /// one type on a device.
    private let onChange: (@Sendable (OrderTypeIdentifier, Change) -> Void)?

    public init(
        redis: RedisClient, onChange: (@Sendable (OrderTypeIdentifier, Change) -> Void)? = nil
    ) {
        self.redis = redis
        self.onChange = onChange
    }

    /// A change of what is in Wallet.
    public enum Change: Hashable, Sendable {
        case firstDevice, lastDevice
        /// The first order of its type on a device, and the last one.
        case firstOrder, lastOrder
    }

    /// The reply of the scripts to the first registration, and to the end of the last one.
    private static let crossed: Int64 = 2

    func report(_ reply: RedisValue, _ key: RegistrationKey, _ change: Change) {
        if reply.integer == Self.crossed { self.onChange?(key.order.orderType, change) }
    }

    /// A registered device.
    public struct Registered: Hashable, Sendable {
        public let device: DeviceIdentifier
        public let registration: RegistrationRecord

        public init(device: DeviceIdentifier, registration: RegistrationRecord) {
            self.device = device
            self.registration = registration
        }
    }

    /// The outcome of a registration.
    public enum Outcome: Int64, Hashable, Sendable {
        /// The order is removed. The device's side may have been written: `unregister` removes it.
        case removed = -1
        case new = 0
        /// The device was registered before.
        case renewed = 1
    }

    /// Registers a device for an order or updates its push token, unless something newer came first.
    ///
    /// - Parameter stamp: the position of the record in Kafka; without it the time of the registration decides.
    @discardableResult
    public func register(
        _ key: RegistrationKey, _ registration: RegistrationRecord, at stamp: RegistrationStamp? = nil
    ) async throws(StoreError) -> Outcome {
        let stamp =
            stamp
            ?? RegistrationStamp(offset: -1, epochMilliseconds: registration.registeredEpochMilliseconds)
        let what = "registering a device"
        let first = try await self.evaluate(Self.deviceSide(StoreScripts.registerOrder, key, stamp), what)
        self.report(first, key, .firstOrder)
        let reply = try await self.evaluate(Self.orderSide(registering: registration, key, stamp), what)
        self.report(reply, key, .firstDevice)
        if reply.integer == Self.crossed { return .new }
        guard let outcome = reply.integer.flatMap({ Outcome(rawValue: $0) }) else {
            throw StoreError(.unavailable, "\(what): an unexpected reply")
        }
        return outcome
    }

    /// Removes a registration, unless a newer one came first. One that does not exist is not an error.
    ///
    /// - Parameter stamp: the position of the tombstone in Kafka; without it any registration is removed.
    public func unregister(_ key: RegistrationKey, at stamp: RegistrationStamp? = nil) async throws(StoreError) {
        let remembered: RedisArgument = stamp == nil ? "0" : .integer(Self.endedSeconds)
        let stamp = stamp ?? .always
        let what = "unregistering a device"
        self.report(
            try await self.evaluate(Self.deviceSide(StoreScripts.unregisterOrder, key, stamp, remembered), what), key,
            .lastOrder)
        self.report(
            try await self.evaluate(Self.orderSide(StoreScripts.unregisterDevice, key, stamp, remembered), what), key,
            .lastDevice)
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
        guard let parts = try await self.evaluate(invocation, what).array, parts.count == 2, let stood = parts[0].text
        else { return false }
        if parts[1] == .integer(0) { self.onChange?(key.order.orderType, .lastDevice) }
        // A registration that arrives at this moment is written on the device's side first: it is newer and stays.
        let stamp = RegistrationStamp.read(stood)?.stamp ?? RegistrationStamp(offset: -1, epochMilliseconds: moment)
        self.report(
            try await self.evaluate(Self.deviceSide(StoreScripts.unregisterOrder, key, stamp, "0"), what), key,
            .lastOrder)
        return true
    }

    static func orderSide(
        registering registration: RegistrationRecord, _ key: RegistrationKey, _ stamp: RegistrationStamp
    ) -> RedisInvocation {
        Self.orderSide(
            StoreScripts.registerDevice, key, stamp, .bytes(registration.encoded),
            and: [StoreKeys.order(key.order), StoreKeys.gone(key.order)])
    }

    static func orderSide(
        _ script: RedisScript, _ key: RegistrationKey, _ stamp: RegistrationStamp, _ last: RedisArgument,
        and others: [String] = []
    ) -> RedisInvocation {
        RedisInvocation(
            script,
            keys: [StoreKeys.devices(key.order), StoreKeys.stamps(key.order), StoreKeys.ended(key.order)] + others,
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

    static let hourMilliseconds: Int64 = 3_600_000

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

/// Looks up the devices that a change concerns, in pages of bounded size and each order separately.
extension Registrations {
    /// Most devices of one order that are notified of a change: twice the highest limit that the gateway can be given.
    public static let notifiedLimit = 2000
    /// Devices of the first page: more than an order has by default.
    private static let firstPage: Int64 = 128
    /// Devices of a further page, below 300 kB.
    private static let page: Int64 = 512
    /// Most further pages of one order, so that its lookup ends soon.
    private static let pageLimit = 9
    /// Orders whose further pages are read at the same time.
    private static let ordersAtOnce = 16

    /// The devices that are notified of a change of an order.
    public struct Audience: Hashable, Sendable {
        /// At most `notifiedLimit`: the newest registrations of the first 4,700 that Redis returns. Entries that cannot
        /// be parsed are left out.
        public var devices: [Registered]
        /// The number of devices of the order that are not notified because it has too many.
        public var skipped = 0
    }

    /// The result of a lookup: one result per key, in order. A failure of one order affects it alone: with code
    /// `.corrupt` if Redis has a value of another kind under its key, else it must be retried.
    public struct Lookup: Sendable {
        public let audiences: [Result<Audience, StoreError>]
        /// UNIX seconds; nil for an order that is unknown or removed.
        public let modified: [Result<Int64?, StoreError>]
        /// As stored with their orders; nil for one that does not exist, or cannot be parsed.
        public let registrations: [Result<RegistrationRecord?, StoreError>]
    }

    /// Looks up the devices registered for some orders, the modification times of others, and single registrations, in
    /// one round trip as long as no order has more than 128 devices.
    ///
    /// - Parameter view: makes missing keys count as missing only if the view is complete at their place; nil trusts
    ///   the present keys.
    /// - Throws: `StoreError` if nothing could be looked up.
    public func look(
        up orders: [OrderKey], modified others: [OrderKey] = [], registrations single: [RegistrationKey] = [],
        in view: MaterializedView? = nil
    ) async throws(StoreError) -> Lookup {
        let keys = orders.map { StoreKeys.devices($0) }
        let questions =
            keys.map { ($0, Self.scan($0, from: "0", count: Self.firstPage)) }
            + others.map { other in
                let key = StoreKeys.order(other)
                return (key, RedisCommand("HMGET", .string(key), "modified", "removed"))
            }
            + single.map { registration in
                let key = StoreKeys.devices(registration.order)
                return (key, RedisCommand("HGET", .string(key), .string(registration.device.rawValue)))
            }
        let answers = try await self.read(questions, "looking up registrations", in: view)
        var audiences = answers.prefix(orders.count).map { answer -> Result<Gathering, StoreError> in
            answer.flatMap { Gathering().adding($0) }
        }
        let unfinished = audiences.indices.filter { (try? audiences[$0].get())?.cursor != nil }
        for start in stride(from: 0, to: unfinished.count, by: Self.ordersAtOnce) {
            let some = Array(unfinished[start..<min(unfinished.count, start + Self.ordersAtOnce)])
            try await self.readOn(some, keys, &audiences, in: view)
        }
        return Lookup(
            audiences: audiences.map { $0.map(\.audience) },
            modified: answers.dropFirst(orders.count).prefix(others.count).map { answer in
                answer.map { reply in
                    guard let values = reply.array, values.count == 2, values[1].text != "1" else { return nil }
                    return values[0].integer
                }
            },
            registrations: answers.suffix(single.count).map { answer in
                answer.map { $0.bytes.flatMap { try? RegistrationRecord.decode($0) } }
            })
    }

    /// Reads the further pages of some orders, in rotation.
    private func readOn(
        _ places: [Int], _ keys: [String], _ audiences: inout [Result<Gathering, StoreError>],
        in view: MaterializedView?
    ) async throws(StoreError) {
        var open: [(place: Int, gathering: Gathering)] = []
        for place in places {
            if case .success(let gathering) = audiences[place] { open.append((place, gathering)) }
        }
        for round in 0...Self.pageLimit where !open.isEmpty {
            // The last round is final.
            let isLast = round == Self.pageLimit
            let answers = try await self.read(
                open.map { place, gathering in
                    let key = keys[place]
                    let count = RedisCommand("HLEN", .string(key))
                    return (key, isLast ? count : Self.scan(key, from: gathering.cursor ?? "0", count: Self.page))
                }, "looking up registrations", in: view)
            var next: [(place: Int, gathering: Gathering)] = []
            for ((place, gathering), answer) in zip(open, answers) {
                let result = answer.flatMap { isLast ? .success(gathering.counted($0.integer)) : gathering.adding($0) }
                audiences[place] = result
                if !isLast, case .success(let more) = result, more.cursor != nil { next.append((place, more)) }
            }
            open = next
        }
    }

    /// A page of an order's devices.
    public struct Page: Hashable, Sendable {
        public let devices: [Registered]
        /// The cursor to continue with; nil at the end.
        public let next: String?
    }

    /// Goes through the devices of some orders, a page of each.
    ///
    /// A device that is registered from the beginning to the end is returned at least once, even if others are removed
    /// meanwhile. Source: Redis SCAN, "Scan guarantees"
    /// - Parameter orders: each with the cursor of its previous page; nil for the first one.
    /// - Returns: about 512 devices of each order, often fewer; none if Redis has a value of another kind under the
    ///   key.
    public func pages(
        of orders: [(order: OrderKey, cursor: String?)]
    ) async throws(StoreError) -> [Page] {
        let commands = orders.map { Self.scan(StoreKeys.devices($0.order), from: $0.cursor ?? "0", count: Self.page) }
        let replies = try await self.pipeline(commands, "looking up registrations", passingWrongTypes: true)
        var pages: [Page] = []
        for reply in replies {
            let gathering = reply.serverError == nil ? try Gathering().adding(reply).get() : Gathering()
            pages.append(Page(devices: gathering.audience.devices, next: gathering.cursor))
        }
        return pages
    }

    private static func scan(_ key: String, from cursor: String, count: Int64) -> RedisCommand {
        RedisCommand("HSCAN", .string(key), .string(cursor), "COUNT", .integer(count))
    }

    /// Sends one command for each key.
    private func read(
        _ questions: [(key: String, command: RedisCommand)], _ operation: String, in view: MaterializedView?
    ) async throws(StoreError) -> [Result<RedisValue, StoreError>] {
        if let view { return try await view.read(questions, operation) }
        do {
            return try await self.redis.pipeline(questions.map(\.command)).map {
                MaterializedView.result($0, operation)
            }
        } catch {
            throw StoreError(operation, error)
        }
    }
}

/// The devices of one order, collected page by page.
private struct Gathering {
    private var devices: [Registrations.Registered] = []
    /// The total number of registrations, if it was counted.
    private var total: Int64 = 0
    /// The cursor to continue with; nil at the end.
    private(set) var cursor: String?

    /// - Parameter page: the reply to HSCAN.
    func adding(_ page: RedisValue) -> Result<Gathering, StoreError> {
        guard let parts = page.array, parts.count == 2, let next = parts[0].text, let values = parts[1].array else {
            return .failure(StoreError(.unavailable, "looking up registrations: an unexpected reply"))
        }
        var gathering = self
        gathering.devices.reserveCapacity(self.devices.count + values.count / 2)
        for index in stride(from: 0, to: values.count - 1, by: 2) {
            guard let name = values[index].text, let bytes = values[index + 1].bytes,
                let device = try? DeviceIdentifier(name), let record = try? RegistrationRecord.decode(bytes)
            else { continue }
            gathering.devices.append(Registrations.Registered(device: device, registration: record))
        }
        gathering.cursor = next == "0" ? nil : next
        // A table that shrinks meanwhile may return a device twice.
        if !self.devices.isEmpty {
            var seen: Set<DeviceIdentifier> = []
            gathering.devices = gathering.devices.filter { seen.insert($0.device).inserted }
        }
        return .success(gathering)
    }

    func counted(_ total: Int64?) -> Gathering {
        var gathering = self
        gathering.total = total ?? 0
        return gathering
    }

    var audience: Registrations.Audience {
        guard self.devices.count > Registrations.notifiedLimit || self.total > 0 else {
            return Registrations.Audience(devices: self.devices)
        }
        let newest = self.devices.sorted {
            $0.registration.registeredEpochMilliseconds > $1.registration.registeredEpochMilliseconds
        }
        let notified = Array(newest.prefix(Registrations.notifiedLimit))
        let all = max(Int(clamping: self.total), self.devices.count)
        return Registrations.Audience(devices: notified, skipped: all - notified.count)
    }
}
