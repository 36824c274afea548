public import Model
public import Redis

/// A scan of all orders of a type, which can store its progress.
///
/// An order that exists from the beginning to the end is seen at least once, perhaps twice; one that is added or
/// removed meanwhile may or may not be seen.
/// Source: Redis SCAN, "Scan guarantees"; an iteration may be interrupted and continued, since its state is in the
/// cursor alone
///
/// In a cluster the masters are scanned one after another. If slots get other masters meanwhile the scan starts over;
/// while a slot is being moved from a master that was not scanned yet to one that was, orders may be missed.
public struct OrderScan: Sendable {
    /// Keys that Redis examines for one page, of any kind.
    static let pageKeys: Int64 = 100
    /// The time for which a bookmark is kept, in seconds.
    static let bookmarkSeconds: Int64 = 7 * 24 * 3600

    private let redis: RedisClient

    public init(redis: RedisClient) { self.redis = redis }

    /// Some orders, and the cursor to continue with.
    public struct Page: Hashable, Sendable {
        /// Each once; often empty.
        public let orders: [OrderKey]
        /// nil after the last page.
        public let next: String?
    }

    /// Reads a page.
    ///
    /// - Parameter cursor: that of the previous page; nil for the first one.
    public func page(of type: OrderTypeIdentifier, from cursor: String?) async throws(StoreError) -> Page {
        // An order type has none of the characters that are special in a pattern.
        let pattern = StoreKeys.orders(type)
        let (keys, next) = try await self.keys("\(pattern.prefix)*\(pattern.suffix)", from: cursor)
        var seen: Set<OrderKey> = []
        let orders = keys.compactMap { key -> OrderKey? in
            // A key that merely looks like an order's is skipped.
            guard let text = key.text, text.hasPrefix(pattern.prefix), text.hasSuffix(pattern.suffix),
                let order = try? OrderIdentifier(String(text.dropFirst(pattern.prefix.count).dropLast()))
            else { return nil }
            let found = OrderKey(orderType: type, order: order)
            return seen.insert(found).inserted ? found : nil
        }
        return Page(orders: orders, next: next)
    }

    /// Returns some keys, and the cursor to continue with.
    func keys(
        _ pattern: String, from cursor: String?, count: Int64 = Self.pageKeys
    ) async throws(StoreError) -> (keys: [RedisValue], next: String?) {
        let topology = try await self.topology()
        let place = ScanCursor(cursor, in: topology)
        var arguments: [RedisArgument] = [
            "SCAN", .string(place.position), "MATCH", .string(pattern), "COUNT", .integer(count),
        ]
        if let master = place.master { arguments.append(.place(.master(master))) }
        let reply = try await self.send(RedisCommand(arguments))
        guard let parts = reply.array, parts.count == 2, let next = parts[0].text, let keys = parts[1].array else {
            throw StoreError(.unavailable, "going through keys: an unexpected reply")
        }
        return (keys, place.next(behind: next, in: topology))
    }

    /// Returns true if a text has the form of a cursor; only reading a page shows if it is valid.
    public static func isCursor(_ text: String) -> Bool { ScanCursor.isCursor(text) }

    /// Returns the identifier of the running server, or of all masters of a cluster. A cursor is meaningless for
    /// another server, and also for the same one after a restart, which sorts its keys by another seed.
    public func serverIdentifier() async throws(StoreError) -> String {
        let topology = try await self.topology()
        guard !topology.masters.isEmpty else { return try await self.serverIdentifier(at: nil) }
        var all = [topology.identifier]
        for master in topology.masters { all.append(try await self.serverIdentifier(at: master)) }
        return all.joined(separator: " ")
    }

    private func serverIdentifier(at master: RedisMaster?) async throws(StoreError) -> String {
        let place = master.map { [RedisArgument.place(.master($0))] } ?? []
        let reply = try await self.send(RedisCommand(["INFO", "server"] + place))
        for line in (reply.text ?? "").split(whereSeparator: \.isNewline) where line.hasPrefix("run_id:") {
            return String(line.dropFirst("run_id:".count))
        }
        // A server that does not report an identifier may be another one each time.
        return ""
    }

    private func topology() async throws(StoreError) -> RedisTopology {
        do {
            return try await self.redis.topology()
        } catch {
            throw StoreError("going through orders", error)
        }
    }

    /// Returns the bookmark of a type.
    public func bookmark(of type: OrderTypeIdentifier) async throws(StoreError) -> [UInt8]? {
        try await self.send(RedisCommand("GET", .string(StoreKeys.bookmark(type)))).bytes
    }

    /// Stores a bookmark for a week.
    public func keep(_ bookmark: [UInt8], of type: OrderTypeIdentifier) async throws(StoreError) {
        _ = try await self.send(
            RedisCommand(
                "SET", .string(StoreKeys.bookmark(type)), .bytes(bookmark), "EX", .integer(Self.bookmarkSeconds)))
    }

    /// Deletes the bookmark.
    public func forget(_ type: OrderTypeIdentifier) async throws(StoreError) {
        _ = try await self.send(RedisCommand("DEL", .string(StoreKeys.bookmark(type))))
    }

    private func send(_ command: RedisCommand) async throws(StoreError) -> RedisValue {
        do {
            return try await self.redis.send(command)
        } catch {
            throw StoreError("going through orders", error)
        }
    }
}
