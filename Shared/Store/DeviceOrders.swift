public import Model
public import NIOCore
public import Redis

/// Answers what changed for a device since a tag.
///
/// The tag is a stamp of the store's clock (see `StoreScripts.write`). The orders of a device are not read in one
/// instant: one order could be read, then change, then another could change and be read with a higher stamp. A tag of
/// that higher stamp would hide the first change for ever. So a tag is always lower than the store's clock was before
/// the reading began; what changed during the reading is reported again the next time, which is harmless.
/// An order that the device registered for after it got its tag counts as changed at that moment: it may have changed
/// between its fetch and its registration, and an older stamp than the tag would hide that.
/// Only a clock that is set back can hide a change, for those devices that asked in the time that then runs twice.
public struct DeviceOrders: Sendable {
    /// Most orders that are read in one go.
    static let page = 500

    private let redis: RedisClient

    public init(redis: RedisClient) { self.redis = redis }

    /// What changed.
    public struct Changes: Hashable, Sendable {
        /// Sorted.
        public let orders: [OrderIdentifier]
        /// The next tag: digits, opaque to the device.
        public let tag: String
    }

    /// - Parameter tag: from the last answer; empty or not ours means everything.
    /// - Returns: nil when nothing changed; fails with `RedisError` or `StoreError`.
    public func changes(
        of device: DeviceIdentifier, type: OrderTypeIdentifier, since tag: String, on eventLoop: any EventLoop
    ) -> EventLoopFuture<Changes?> {
        // The clock first: what is registered behind it is later than the next tag.
        let first = [
            RedisCommand("TIME"), RedisCommand("SMEMBERS", .string(StoreKeys.device(device, type))),
            RedisCommand("HGETALL", .string(StoreKeys.stamps(device, type))),
        ]
        return self.redis.pipeline(first, on: eventLoop).flatMap { replies -> EventLoopFuture<Changes?> in
            guard replies.count == 3, let clock = Self.microseconds(replies[0]), let members = replies[1].array,
                let stamps = replies[2].array
            else {
                return eventLoop.makeFailedFuture(StoreError(.unavailable, "listing changes: an unexpected reply"))
            }
            let orders = Self.registered(members, stamps)
            guard !orders.isEmpty else { return eventLoop.makeSucceededFuture(nil) }
            return self.stamps(orders[...], type, [], on: eventLoop).map { stamps in
                Self.changes(stamps, since: Self.stamp(tag), clock: clock)
            }
        }
    }

    /// The orders of a device's set, each with the microsecond in which the device registered for it.
    ///
    /// 0 for one without a stamp: its registration is older than any tag.
    /// - Parameter stamps: order, stamp, order, stamp, …
    private static func registered(_ members: [RedisValue], _ stamps: [RedisValue]) -> [(OrderIdentifier, Int64)] {
        var since: [String: Int64] = [:]
        for index in stride(from: 0, to: stamps.count - 1, by: 2) {
            guard let order = stamps[index].text, let stamp = stamps[index + 1].text else { continue }
            since[order] = RegistrationStamp.read(stamp)?.registeredEpochMicroseconds
        }
        return members.compactMap { member in
            guard let text = member.text, let order = try? OrderIdentifier(text) else { return nil }
            return (order, since[text] ?? 0)
        }
    }

    /// Reads when each order changed for the device, page by page: other commands need not wait for all of them.
    private func stamps(
        _ orders: ArraySlice<(OrderIdentifier, Int64)>, _ type: OrderTypeIdentifier,
        _ before: [(OrderIdentifier, Int64)], on eventLoop: any EventLoop
    ) -> EventLoopFuture<[(OrderIdentifier, Int64)]> {
        guard !orders.isEmpty else { return eventLoop.makeSucceededFuture(before) }
        let page = orders.prefix(Self.page)
        let commands = page.map { order, _ in
            let key = OrderKey(orderType: type, order: order)
            return RedisCommand("HMGET", .string(StoreKeys.order(key)), "stamp", "removed")
        }
        return self.redis.pipeline(commands, on: eventLoop).flatMapThrowing { replies in
            try zip(page, replies).compactMap { order, reply -> (OrderIdentifier, Int64)? in
                if case .error(let message) = reply {
                    let error = StoreError("listing changes", reply: message)
                    guard error.code == .corrupt else { throw error }
                    return nil
                }
                guard let values = reply.array, values.count == 2, values[1].text != "1" else { return nil }
                return values[0].integer.map { (order.0, max($0, order.1)) }
            }
        }.flatMap { stamps in
            self.stamps(orders.dropFirst(Self.page), type, before + stamps, on: eventLoop)
        }
    }

    /// The answer, from what was read.
    ///
    /// - Parameters:
    ///   - stamps: of the device's orders, or of their registration where that came later.
    ///   - since: the tag's stamp.
    ///   - clock: the store's clock before the stamps were read, microseconds.
    static func changes(_ stamps: [(OrderIdentifier, Int64)], since: Int64, clock: Int64) -> Changes? {
        // A tag ahead of the clock is not ours, or the clock was set back.
        let changed = since >= clock ? stamps : stamps.filter { $0.1 > since }
        guard let highest = changed.map(\.1).max() else { return nil }
        let orders = changed.map(\.0).sorted { $0.rawValue < $1.rawValue }
        // A write that comes after the reading may still get the very microsecond of the clock.
        return Changes(orders: orders, tag: String(min(highest, clock - 1)))
    }

    /// The stamp of a tag; 0 for one that is not ours.
    static func stamp(_ tag: String) -> Int64 {
        guard tag.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return 0 }
        return Int64(tag) ?? 0
    }

    /// Source: Redis TIME: seconds and microseconds as two strings
    private static func microseconds(_ reply: RedisValue) -> Int64? {
        guard let parts = reply.array, parts.count == 2, let seconds = parts[0].integer,
            let microseconds = parts[1].integer
        else { return nil }
        return seconds.multipliedReportingOverflow(by: 1_000_000).partialValue &+ microseconds
    }
}
