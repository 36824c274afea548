public import Model
public import Redis

/// Goes through all orders of a type, and remembers how far somebody came.
///
/// An order that is there from the beginning to the end is seen at least once; one that comes or goes meanwhile may be
/// seen or not, one may be seen twice.
/// Source: Redis SCAN, "Scan guarantees"; an iteration may be broken off and gone on with, since its state is in the
/// cursor alone
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
        let reply = try await self.send(
            RedisCommand(
                "SCAN", .string(cursor ?? "0"), "MATCH", .string("\(pattern.prefix)*\(pattern.suffix)"), "COUNT",
                .integer(Self.pageKeys)))
        guard let parts = reply.array, parts.count == 2, let next = parts[0].text, let keys = parts[1].array else {
            throw StoreError(.unavailable, "going through orders: an unexpected reply")
        }
        var seen: Set<OrderKey> = []
        let orders = keys.compactMap { key -> OrderKey? in
            // What only looks like an order's key is nobody's order.
            guard let text = key.text, text.hasPrefix(pattern.prefix), text.hasSuffix(pattern.suffix),
                let order = try? OrderIdentifier(String(text.dropFirst(pattern.prefix.count).dropLast()))
            else { return nil }
            let found = OrderKey(orderType: type, order: order)
            return seen.insert(found).inserted ? found : nil
        }
        return Page(orders: orders, next: next == "0" ? nil : next)
    }

    /// Names the running server. A cursor means nothing to another one, nor to the same one after a restart, which
    /// sorts its keys by another seed.
    public func serverIdentifier() async throws(StoreError) -> String {
        let reply = try await self.send(RedisCommand("INFO", "server"))
        for line in (reply.text ?? "").split(whereSeparator: \.isNewline) where line.hasPrefix("run_id:") {
            return String(line.dropFirst("run_id:".count))
        }
        // A server that does not say who it is may be another one each time.
        return ""
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
