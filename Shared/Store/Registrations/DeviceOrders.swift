public import Model
public import NIOCore
public import Redis

/// The orders of a device that changed since a tag.
///
/// The tag is a stamp of the store's clock (see `StoreScripts.write`). The orders of a device are not read in one
/// instant: one order could be read, then change, then another could change and be read with a higher stamp. A tag of
/// that higher stamp would hide the first change forever. So a tag is always lower than the store's clock was before
/// the reading began; changes during the reading are reported again the next time, which is harmless.
/// An order that the device registered for after it got its tag counts as changed at that moment: it may have changed
/// between its fetch and its registration, and an older stamp than the tag would hide that.
/// Only a clock that is set back can hide a change, for devices that asked during the time that then passes twice.
/// Source: Wallet Orders §1.2d
public struct DeviceOrders: Sendable {
    /// Most orders that are read in one pipeline.
    static let page = 500

    private let redis: RedisClient
    private let memory: ViewMemory

    /// - Parameter memory: decides if a missing key does not exist.
    public init(redis: RedisClient, memory: ViewMemory) {
        self.redis = redis
        self.memory = memory
    }

    /// The answer for a device.
    public enum Listing: Hashable, Sendable {
        case changed(Changes)
        /// Nothing has changed since the tag. The device has orders.
        case unchanged
        /// The device has no orders of the type.
        case unknown
        /// Nothing was found, but the view is not complete.
        case uncertain
    }

    /// The changes since a tag.
    public struct Changes: Hashable, Sendable {
        /// Sorted.
        public let orders: [OrderIdentifier]
        /// The next tag: digits, opaque to the device.
        public let tag: String
    }

    /// Lists the changes. An empty result is only reported if the view was complete while it was read.
    ///
    /// A list from a view that is not complete needs no such care: later changes have a higher stamp.
    /// - Parameters:
    ///   - tag: from the last answer; everything is listed if it is empty or not one of ours.
    ///   - isBrief: true to check first if the device is known at all, with two small commands to one server.
    /// - Returns: fails with `RedisError` or `StoreError`.
    public func listing(
        of device: DeviceIdentifier, type: OrderTypeIdentifier, since tag: String, isBrief: Bool = false,
        on eventLoop: any EventLoop
    ) -> EventLoopFuture<Listing> {
        let question = Question(device: device, type: type, tag: tag)
        guard let known = self.memory.known() else { return self.certainListing(question, on: eventLoop) }
        guard isBrief else { return self.listing(question, known, on: eventLoop) }
        let key = StoreKeys.listed(DeviceTag(device, type))
        let (hashTags, checks) = self.memory.checks(known, of: [key])
        let count = RedisCommand("SCARD", .string(key))
        return self.redis.pipeline([count] + checks, checks: checks.count, on: eventLoop).flatMap { replies in
            guard case .integer(0)? = replies.first else { return self.listing(question, known, on: eventLoop) }
            return self.judged(replies.dropFirst(), hashTags, known, question, .unknown, on: eventLoop)
        }
    }

    /// The request of a device.
    private struct Question: Sendable {
        let device: DeviceIdentifier
        let type: OrderTypeIdentifier
        let tag: String
    }

    private func listing(
        _ question: Question, _ known: ViewMemory.Known, on eventLoop: any EventLoop
    ) -> EventLoopFuture<Listing> {
        self.read(question, on: eventLoop).flatMap { found in
            if let changes = found.changes { return eventLoop.makeSucceededFuture(.changed(changes)) }
            let orders = found.orders.map { StoreKeys.order(OrderKey(orderType: question.type, order: $0)) }
            let keys = [StoreKeys.listed(DeviceTag(question.device, question.type))] + orders
            let (hashTags, checks) = self.memory.checks(known, of: keys)
            return self.redis.pipeline(checks, on: eventLoop).flatMap { replies in
                let listing: Listing = orders.isEmpty ? .unknown : .unchanged
                return self.judged(replies, hashTags, known, question, listing, on: eventLoop)
            }
        }
    }

    /// Returns the empty answer, if the epochs read after it allow that.
    private func judged(
        _ replies: some Collection<RedisValue>, _ hashTags: [String], _ known: ViewMemory.Known, _ question: Question,
        _ listing: Listing, on eventLoop: any EventLoop
    ) -> EventLoopFuture<Listing> {
        do {
            switch try self.memory.judge(replies, of: hashTags, against: known) {
            case .complete: return eventLoop.makeSucceededFuture(listing)
            case .incomplete: return eventLoop.makeSucceededFuture(.uncertain)
            case .another: return self.certainListing(question, on: eventLoop)
            }
        } catch {
            return eventLoop.makeFailedFuture(error)
        }
    }

    /// Lists between two checks of the servers' histories.
    private func certainListing(_ question: Question, on eventLoop: any EventLoop) -> EventLoopFuture<Listing> {
        self.memory.look(on: eventLoop).flatMap { before in
            self.read(question, on: eventLoop).flatMap { found in
                if let changes = found.changes { return eventLoop.makeSucceededFuture(.changed(changes)) }
                guard let before else { return eventLoop.makeSucceededFuture(.uncertain) }
                return self.memory.look(on: eventLoop).map { after in
                    after == before ? found.orders.isEmpty ? .unknown : .unchanged : .uncertain
                }
            }
        }
    }

    /// Reads the changes, nil for none, and the orders of the device.
    private func read(
        _ question: Question, on eventLoop: any EventLoop
    ) -> EventLoopFuture<(changes: Changes?, orders: [OrderIdentifier])> {
        let type = question.type
        // The clock is read first: a registration after that is later than the next tag.
        let tag = DeviceTag(question.device, type)
        let first = [
            RedisCommand("TIME"), RedisCommand("SMEMBERS", .string(StoreKeys.listed(tag))),
            RedisCommand("HGETALL", .string(StoreKeys.stamps(tag))),
        ]
        return self.redis.pipeline(first, on: eventLoop).flatMap { replies in
            guard replies.count == 3, let clock = Self.microseconds(replies[0]), let members = replies[1].array,
                let stamps = replies[2].array
            else {
                return eventLoop.makeFailedFuture(StoreError(.unavailable, "listing changes: an unexpected reply"))
            }
            let orders = Self.registered(members, stamps)
            guard !orders.isEmpty else { return eventLoop.makeSucceededFuture((nil, [])) }
            return self.stamps(orders[...], type, [], on: eventLoop).map { stamps in
                (Self.changes(stamps, since: Self.stamp(question.tag), clock: clock), orders.map(\.0))
            }
        }
    }

    /// Returns the orders of a device's set, each with the microsecond of the device's registration for it.
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

    /// Reads the time when each order changed for the device, page by page: other commands need not wait for all of
    /// them.
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

    /// Builds the answer from the values read.
    ///
    /// - Parameters:
    ///   - stamps: those of the device's orders, or of their registration if that was later.
    ///   - since: the tag's stamp.
    ///   - clock: the store's clock before the stamps were read, microseconds.
    static func changes(_ stamps: [(OrderIdentifier, Int64)], since: Int64, clock: Int64) -> Changes? {
        // A tag ahead of the clock is not one of ours, or the clock was set back.
        let changed = since >= clock ? stamps : stamps.filter { $0.1 > since }
        guard let highest = changed.map(\.1).max() else { return nil }
        let orders = changed.map(\.0).sorted { $0.rawValue < $1.rawValue }
        // A write after the reading may still get the very microsecond of the clock.
        return Changes(orders: orders, tag: String(min(highest, clock - 1)))
    }

    /// Returns the stamp of a tag; 0 for one that is not ours.
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
