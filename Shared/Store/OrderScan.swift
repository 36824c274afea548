public import Model
public import Redis

/// Goes through all orders of a type, and remembers how far somebody came.
///
/// An order that is there from the beginning to the end is seen at least once; one that comes or goes meanwhile may be
/// seen or not, one may be seen twice.
/// Source: Redis SCAN, "Scan guarantees"; an iteration may be broken off and gone on with, since its state is in the
/// cursor alone
///
/// In a cluster one master after the other is gone through. If slots get other masters meanwhile it begins anew; while
/// a slot is on its way from a master that was not asked yet to one that was, orders may be missed.
public struct OrderScan: Sendable {
    /// Keys that Redis looks at for one page, of whatever kind.
    static let pageKeys: Int64 = 100
    /// How long a bookmark is kept, in seconds.
    static let bookmarkSeconds: Int64 = 7 * 24 * 3600

    private let redis: RedisClient

    public init(redis: RedisClient) { self.redis = redis }

    /// Some orders, and where to go on.
    public struct Page: Hashable, Sendable {
        /// Each once; often empty.
        public let orders: [OrderKey]
        /// nil behind the last page.
        public let next: String?
    }

    /// Reads a page.
    ///
    /// - Parameter cursor: from the page before; nil begins.
    public func page(of type: OrderTypeIdentifier, from cursor: String?) async throws(StoreError) -> Page {
        // An order type has none of the characters that mean something in a pattern.
        let pattern = StoreKeys.orders(type)
        let (keys, next) = try await self.keys("\(pattern.prefix)*\(pattern.suffix)", from: cursor)
        var seen: Set<OrderKey> = []
        let orders = keys.compactMap { key -> OrderKey? in
            // What only looks like an order's key is nobody's order.
            guard let text = key.text, text.hasPrefix(pattern.prefix), text.hasSuffix(pattern.suffix),
                let order = try? OrderIdentifier(String(text.dropFirst(pattern.prefix.count).dropLast()))
            else { return nil }
            let found = OrderKey(orderType: type, order: order)
            return seen.insert(found).inserted ? found : nil
        }
        return Page(orders: orders, next: next)
    }

    /// Some keys, and where to go on.
    ///
    /// - Parameter count: how many keys Redis looks at, of whatever kind.
    func keys(
        _ pattern: String, from cursor: String?, count: Int64 = pageKeys
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

    /// Whether a text can be a cursor; only a page tells whether it leads anywhere.
    public static func isCursor(_ text: String) -> Bool { ScanCursor.isCursor(text) }

    /// Names the running server, or all masters of a cluster. A cursor means nothing to another one, nor to the same
    /// one after a restart, which sorts its keys by another seed.
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
        // A server that does not say who it is may be another one each time.
        return ""
    }

    private func topology() async throws(StoreError) -> RedisTopology {
        do {
            return try await self.redis.topology()
        } catch {
            throw StoreError("going through orders", error)
        }
    }

    /// What was remembered about a type.
    public func bookmark(of type: OrderTypeIdentifier) async throws(StoreError) -> [UInt8]? {
        try await self.send(RedisCommand("GET", .string(StoreKeys.bookmark(type)))).bytes
    }

    /// Remembers for a week.
    public func keep(_ bookmark: [UInt8], of type: OrderTypeIdentifier) async throws(StoreError) {
        _ = try await self.send(
            RedisCommand(
                "SET", .string(StoreKeys.bookmark(type)), .bytes(bookmark), "EX", .integer(Self.bookmarkSeconds)))
    }

    /// Forgets.
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
