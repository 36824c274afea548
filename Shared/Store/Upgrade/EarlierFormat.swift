import Model
import Redis

/// The keys that the format before this one left in Redis, and their removal.
///
/// In it the keys of a device's side named the device in clear text, so a device could choose their slots. The epoch
/// had another name as well; everything else was the same. For this version such a view is missing, and packagers
/// restore the registrations from Kafka, while services of the earlier version continue with theirs. Registrations that
/// those accept meanwhile are stored with the order, which both versions share, and are moved when the device asks for
/// its orders (see `EarlierGateways`), or when the earlier keys are removed.
public struct EarlierFormat: Sendable {
    /// Keys that Redis examines for one page.
    private static let pageKeys: Int64 = 1000
    private static let prefix = "waybill:device:{"
    private static let what = "removing the earlier format"

    private let view: MaterializedView
    private let registrations: Registrations

    public init(_ view: MaterializedView) {
        self.view = view
        self.registrations = Registrations(redis: view.redis)
    }

    private static func plan(_ anchor: String?) -> String { StoreKeys.anchored("waybill:restore:plan", anchor) }
    private static let jobs = "waybill:restore:{jobs}"

    /// Returns true if any key of it may be left.
    public func isThere() async throws(StoreError) -> Bool {
        try await self.view.awaitPlaces()
        let keys = self.view.places.flatMap { [StoreKeys.earlierEpoch($0), StoreKeys.earlierTails($0), Self.plan($0)] }
        let replies = try await self.registrations.pipeline(
            keys.map { RedisCommand("EXISTS", .string($0)) }, Self.what)
        return replies.contains { $0.integer == 1 }
    }

    /// Returns true while services of the earlier version may answer from it.
    func isServed() async throws(StoreError) -> Bool {
        try await self.view.awaitPlaces()
        let replies = try await self.registrations.pipeline(
            self.view.places.map { RedisCommand("EXISTS", .string(StoreKeys.earlierEpoch($0))) }, Self.what)
        return replies.contains { $0.integer == 1 }
    }

    /// Marks the view as incomplete for services of the earlier version, before parts of it are removed.
    public func invalidate() async throws(StoreError) {
        try await self.delete(self.view.places.map(StoreKeys.earlierEpoch))
    }

    /// Deletes the epochs, tails, plans and jobs of that format.
    public func forget() async throws(StoreError) {
        try await self.delete(
            self.view.places.flatMap { [StoreKeys.earlierEpoch($0), StoreKeys.earlierTails($0), Self.plan($0)] } + [
                Self.jobs
            ])
    }

    /// Removes some keys of it, and moves those of their registrations that are still stored with their orders.
    ///
    /// - Parameter cursor: that of the previous page; nil for the first one.
    /// - Returns: the number of keys removed, and the cursor to continue with; nil at the end.
    public func removePage(from cursor: String?) async throws(StoreError) -> (removed: Int, next: String?) {
        // Three kinds: waybill:device:{…}, waybill:device-stamps:{…}, waybill:device-ended:{…}. A hyphen that is not
        // the first in its brackets would be a range.
        let (found, next) = try await OrderScan(redis: self.view.redis)
            .keys("waybill:device[-:]*", from: cursor, count: Self.pageKeys)
        let keys = found.compactMap(\.text)
        for key in keys where key.hasPrefix(Self.prefix) && key.hasSuffix("}") { try await self.move(key) }
        try await self.delete(keys)
        return (keys.count, next)
    }

    private func move(_ key: String) async throws(StoreError) {
        let name = key.dropFirst(Self.prefix.count).dropLast()
        guard let slash = name.lastIndex(of: "/"), let device = try? DeviceIdentifier(String(name[..<slash])),
            let type = try? OrderTypeIdentifier(String(name[name.index(after: slash)...]))
        else { return }
        try await self.move(device, type)
    }

    /// Moves the registrations of a device that only services of the earlier version know.
    func move(_ device: DeviceIdentifier, _ type: OrderTypeIdentifier) async throws(StoreError) {
        let keys = [Self.keys(device, type)[0], StoreKeys.listed(DeviceTag(device, type))]
        let members = try await self.registrations.pipeline(
            keys.map { RedisCommand("SMEMBERS", .string($0)) }, Self.what, passingWrongTypes: true
        ).map { ($0.array ?? []).compactMap(\.text) }
        guard members.count == 2 else { return }
        let orders = Set(members[0]).subtracting(members[1]).sorted().compactMap { try? OrderIdentifier($0) }
        for start in stride(from: 0, to: orders.count, by: DeviceOrders.page) {
            let keys = orders[start..<min(orders.count, start + DeviceOrders.page)].map {
                RegistrationKey(device: device, order: OrderKey(orderType: type, order: $0))
            }
            try await self.registrations.list(keys)
        }
    }

    /// Returns the keys of a device's side: its orders, their stamps, and their ends.
    static func keys(_ device: DeviceIdentifier, _ type: OrderTypeIdentifier) -> [String] {
        ["device", "device-stamps", "device-ended"].map { "waybill:\($0):{\(device.rawValue)/\(type)}" }
    }

    private func delete(_ keys: [String]) async throws(StoreError) {
        _ = try await self.registrations.pipeline(keys.map { RedisCommand("DEL", .string($0)) }, Self.what)
    }
}

extension Registrations {
    /// Ensures that registrations stored with their orders are stored with their device as well.
    fileprivate func list(_ keys: [RegistrationKey]) async throws(StoreError) {
        let what = "listing registrations"
        let stamps = try await self.pipeline(
            keys.map { RedisCommand("HGET", .string(StoreKeys.stamps($0.order)), .string($0.device.rawValue)) }, what,
            passingWrongTypes: true)
        var invocations: [RedisInvocation] = []
        for (key, (record, stamp)) in zip(keys, zip(try await self.registrations(keys), stamps)) {
            guard let record else { continue }
            let known = stamp.text.flatMap { RegistrationStamp.read($0)?.stamp }
            invocations.append(
                Self.deviceSide(
                    StoreScripts.registerOrder, key,
                    known ?? RegistrationStamp(offset: -1, epochMilliseconds: record.registeredEpochMilliseconds)))
        }
        do {
            for case .error(let message) in try await self.redis.evaluate(invocations) {
                let error = StoreError(what, reply: message)
                guard error.code == .corrupt else { throw error }
            }
        } catch let error as StoreError {
            throw error
        } catch {
            throw StoreError(.unavailable, "\(what): \(error)")
        }
    }
}
