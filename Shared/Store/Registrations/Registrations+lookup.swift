public import Model
import Redis

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
        public var untold = 0
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
        return Registrations.Audience(devices: notified, untold: all - notified.count)
    }
}
