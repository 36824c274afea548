public import Model
public import Redis

/// Pictures that orders name by URL: their stored data, and the orders that wait for each. The same for the orders' own
/// documents, each of which has one order that may wait for it.
///
/// A waiting order is in Redis before the offsets of its changes are committed, and stays there until the order was
/// packaged with the picture or the picture was given up. Bounded: `dueLimit` pictures; waiting orders are orders
/// stored in Redis.
/// Source: Design §7
public struct Pictures: Sendable {
    /// Most pictures that are waited for at the same time; ten times as many documents, which no orders share.
    static let dueLimit: Int64 = 100_000
    /// The time for which unused data is kept, in seconds.
    public static let keptSeconds: Int64 = 30 * 24 * 3600
    /// Orders in one page.
    static let pageSize: Int64 = 200

    let redis: RedisClient
    /// True for own documents.
    public let areDocuments: Bool
    private let due: String

    public init(redis: RedisClient, areDocuments: Bool = false) {
        self.redis = redis
        self.areDocuments = areDocuments
        self.due = StoreKeys.due(ofDocuments: areDocuments)
    }

    /// An order that waits for a picture.
    public struct Waiting: Hashable, Sendable {
        public let order: OrderKey
        /// The version published without it: older ones were written before.
        public let version: Int64
        /// The time when it was noted.
        public let sinceEpochSeconds: Int64
        /// The picture's URL in the order; nil if that is the URL of its key.
        public let url: String?

        public init(order: OrderKey, version: Int64, sinceEpochSeconds: Int64, url: String? = nil) {
            self.order = order
            self.version = version
            self.sinceEpochSeconds = sinceEpochSeconds
            self.url = url
        }

        var text: String { "\(self.version) \(self.sinceEpochSeconds)\(self.url.map { " " + $0 } ?? "")" }
    }

    /// A picture assigned to one worker until the lease ends.
    public struct Claim: Hashable, Sendable {
        public let key: PictureKey
        /// Milliseconds of the server's clock, which also identify the worker.
        var lease: Int64
    }

    /// Reads the stored data. Content whose asset is gone is left out: it has to be fetched again.
    ///
    /// - Returns: one per key, in order; nil for an unknown picture.
    public func records(_ keys: [PictureKey]) async throws(StoreError) -> [PictureRecord?] {
        guard !keys.isEmpty else { return [] }
        let replies = try await self.pipeline(keys.map(Self.read), "reading pictures")
        var records = replies.map { PictureRecord($0.array ?? []) }
        // A document is in the hash of its order, and its bytes with it.
        if self.areDocuments { return records }
        let present = records.indices.filter { records[$0]?.content != nil }
        let checks = try await self.run(
            present.map { index in
                let digest = records[index]?.content?.asset ?? ""
                return RedisInvocation(
                    StoreScripts.useAsset, keys: [StoreKeys.asset(digest), StoreKeys.unusedMark(digest)], arguments: [])
            }, "looking for pictures")
        for (index, check) in zip(present, checks) where check.integer != 1 {
            records[index]?.content = nil
            records[index]?.entityTag = nil
            records[index]?.lastModified = nil
        }
        return records
    }

    private func waitingOrders(_ key: PictureKey) -> String {
        StoreKeys.waitingOrders(key.description, ofDocuments: self.areDocuments)
    }

    private static func read(_ key: PictureKey) -> RedisCommand {
        let prefix = key.order.map { _ in "\(key.url)." } ?? ""
        let hash = key.orderKey.map { StoreKeys.order($0) } ?? StoreKeys.picture(key.description)
        return RedisCommand(
            ["HMGET", .string(hash)] + PictureField.allCases.map { .string(prefix + $0.rawValue) })
    }

    /// Replaces the stored data of a picture.
    public func save(_ record: PictureRecord, for key: PictureKey) async throws(StoreError) {
        _ = try await self.run(
            RedisInvocation(
                PictureScripts.save, keys: [StoreKeys.picture(key.description)],
                arguments: [.integer(Self.keptSeconds)] + record.fields), "writing a picture")
    }

    /// Adds the orders that wait.
    ///
    /// - Returns: the number of pictures that could not be noted because too many are waited for already.
    public func addWaiting(_ waiting: [PictureKey: [Waiting]]) async throws(StoreError) -> Int {
        let invocations = waiting.flatMap { key, orders in
            // A script accepts a few thousand arguments at most.
            stride(from: 0, to: orders.count, by: 1000).map { start in
                RedisInvocation(
                    PictureScripts.note, keys: [self.due, self.waitingOrders(key)],
                    arguments: [
                        .string(key.description), .integer(Self.dueLimit * (self.areDocuments ? 10 : 1)),
                    ]
                        + orders[start..<min(start + 1000, orders.count)].flatMap {
                            [.string($0.order.description), .string($0.text)]
                        })
            }
        }
        return try await self.run(invocations, "noting pictures").count { $0.integer == 0 }
    }

    /// Takes pictures that are due.
    ///
    /// - Returns: the pictures, and the total number of those that are waited for.
    public func claim(
        _ limit: Int, lease: Duration
    ) async throws(StoreError) -> (claims: [Claim], total: Int64) {
        let reply = try await self.run(
            RedisInvocation(
                PictureScripts.claim, keys: [self.due],
                arguments: [.integer(Int64(limit)), .integer(lease.milliseconds)]), "claiming pictures")
        guard let parts = reply.array, parts.count == 3, let total = parts[0].integer, let lease = parts[1].integer,
            let members = parts[2].array
        else { throw StoreError(.corrupt, "claiming pictures: an unexpected reply") }
        let texts = members.compactMap(\.text)
        // Keys written by others would be due again and again.
        let unreadable = texts.filter { PictureKey($0) == nil }
        _ = try await self.pipeline(
            unreadable.map { RedisCommand("ZREM", .string(self.due), .string($0)) }, "removing pictures")
        return (texts.compactMap { PictureKey($0) }.map { Claim(key: $0, lease: lease) }, total)
    }

    /// Makes pictures of some order types due now.
    ///
    /// - Parameter time: only those that are not due within this time: no lease is longer.
    public func hasten(of types: [OrderTypeIdentifier], waitingFor time: Duration) async throws(StoreError) {
        var passed: Int64 = 0
        while passed >= 0 {
            let reply = try await self.run(
                RedisInvocation(
                    PictureScripts.hasten, keys: [self.due],
                    arguments: [.integer(passed), .integer(time.milliseconds)] + types.map { .string($0.rawValue) }),
                "making pictures due")
            guard let next = reply.integer else {
                throw StoreError(.corrupt, "making pictures due: an unexpected reply")
            }
            passed = next
        }
    }

    /// Makes a picture due again after a time; until then it is still the worker's.
    ///
    /// - Returns: false if another worker has the picture by now.
    public func postpone(_ claim: inout Claim, by delay: Duration) async throws(StoreError) -> Bool {
        let reply = try await self.run(
            RedisInvocation(
                PictureScripts.postpone, keys: [self.due],
                arguments: [.string(claim.key.description), .integer(claim.lease), .integer(delay.milliseconds)]),
            "putting a picture off")
        guard let time = reply.integer, time > 0 else { return false }
        claim.lease = time
        return true
    }

    /// Removes a picture if no order waits for it any more; else it is due again after a time.
    ///
    /// - Parameter dismissing: true to dismiss the waiting orders.
    public func finish(
        _ claim: Claim, dismissing: Bool, otherwiseAgainAfter delay: Duration
    ) async throws(StoreError) {
        _ = try await self.run(
            RedisInvocation(
                PictureScripts.finish, keys: [self.due, self.waitingOrders(claim.key)],
                arguments: [
                    .string(claim.key.description), .integer(claim.lease), .integer(delay.milliseconds),
                    dismissing ? "1" : "0",
                ]), "ending with a picture")
    }

    /// Returns some of the orders that wait for a picture.
    ///
    /// - Parameter cursor: "0" at first, then the returned one.
    /// - Returns: orders, some perhaps twice, and the cursor to continue with; nil at the end. Source: redis.io, SCAN
    ///   guarantees
    public func waiting(
        for key: PictureKey, from cursor: String
    ) async throws(StoreError) -> (orders: [Waiting], next: String?) {
        let reply = try await self.pipeline(
            [
                RedisCommand(
                    "HSCAN", .string(self.waitingOrders(key)), .string(cursor), "COUNT",
                    .integer(Self.pageSize))
            ],
            "reading who waits"
        ).first?.array
        guard let reply, reply.count == 2, let next = reply[0].text, let pairs = reply[1].array else {
            throw StoreError(.corrupt, "reading who waits: an unexpected reply")
        }
        var orders: [Waiting] = []
        for index in stride(from: 0, to: pairs.count - 1, by: 2) {
            let parts = (pairs[index + 1].text ?? "").split(separator: " ")
            guard 2...3 ~= parts.count, let version = Int64(parts[0]), let since = Int64(parts[1]),
                let order = try? OrderKey(pairs[index].text ?? "")
            else { continue }
            let url = parts.count == 3 ? String(parts[2]) : nil
            orders.append(Waiting(order: order, version: version, sinceEpochSeconds: since, url: url))
        }
        return (orders, next == "0" ? nil : next)
    }

    /// - Returns: for each picture, in order, whether an order waits for it.
    public func waits(_ order: OrderKey, for keys: [PictureKey]) async throws(StoreError) -> [Bool] {
        try await self.pipeline(
            keys.map {
                RedisCommand("HEXISTS", .string(self.waitingOrders($0)), .string(order.description))
            }, "reading who waits"
        ).map { $0.integer == 1 }
    }

    /// Removes orders that no longer wait.
    public func removeWaiting(_ orders: [Waiting], for key: PictureKey) async throws(StoreError) {
        guard !orders.isEmpty else { return }
        _ = try await self.run(
            RedisInvocation(
                PictureScripts.removeWaiting, keys: [self.waitingOrders(key)],
                arguments: orders.flatMap { [.string($0.order.description), .string($0.text)] }), "ending a wait")
    }

    func run(_ invocation: RedisInvocation, _ operation: String) async throws(StoreError) -> RedisValue {
        try await self.run([invocation], operation).first ?? .null
    }

    private func run(_ invocations: [RedisInvocation], _ operation: String) async throws(StoreError) -> [RedisValue] {
        guard !invocations.isEmpty else { return [] }
        do throws(RedisError) {
            let replies = try await self.redis.evaluate(invocations)
            for case .error(let message) in replies { throw RedisError(.server, message) }
            return replies
        } catch {
            throw StoreError(operation, error)
        }
    }

    private func pipeline(_ commands: [RedisCommand], _ operation: String) async throws(StoreError) -> [RedisValue] {
        guard !commands.isEmpty else { return [] }
        do throws(RedisError) {
            let replies = try await self.redis.pipeline(commands)
            for case .error(let message) in replies { throw RedisError(.server, message) }
            return replies
        } catch {
            throw StoreError(operation, error)
        }
    }
}

extension Duration {
    /// Whole milliseconds, at least one.
    fileprivate var milliseconds: Int64 { max(1, Int64(self / .milliseconds(1))) }
}

/// A picture that orders of one type name by its URL, or an own document of one order.
///
/// The type is a part of it because the brand determines which hosts may be asked, also by redirects.
public struct PictureKey: Hashable, Sendable, CustomStringConvertible {
    public let orderType: OrderTypeIdentifier
    /// The order whose own document it is; nil for a picture.
    public let order: OrderIdentifier?
    /// As in the order, without the parts that, by the brand's rules, do not distinguish pictures; of an own document
    /// its identifier, since Redis needs no address that the order has.
    public let url: String

    public init(orderType: OrderTypeIdentifier, url: String) {
        self.orderType = orderType
        self.order = nil
        self.url = url
    }

    /// - Parameter identifier: 16 hexadecimal digits.
    public init(of order: OrderKey, document identifier: String) {
        self.orderType = order.orderType
        self.order = order.order
        self.url = identifier
    }

    /// The order whose own document it is.
    public var orderKey: OrderKey? { self.order.map { OrderKey(orderType: self.orderType, order: $0) } }

    /// `<type> <url>` or `<type>/<order> <identifier>`, as in Redis.
    ///
    /// Not for logs: a URL may carry a key.
    public var description: String {
        "\(self.orderType)\(self.order.map { "/\($0)" } ?? "") \(self.url)"
    }

    /// Parses the format of `description`; nil for anything else.
    init?(_ text: String) {
        guard let space = text.firstIndex(of: " ") else { return nil }
        let (owner, rest) = (String(text[..<space]), String(text[text.index(after: space)...]))
        if owner.contains("/") {
            guard let order = try? OrderKey(owner) else { return nil }
            self.init(of: order, document: rest)
        } else {
            guard let type = try? OrderTypeIdentifier(owner) else { return nil }
            self.init(orderType: type, url: rest)
        }
    }
}

/// The scripts about pictures. All waiting pictures are in one slot, so that nothing is lost between two keys; the data
/// about a picture is in its own slot.
enum PictureScripts {
    /// Milliseconds of the server's clock: workers need not agree about the time.
    private static let now = """
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)

        """

    /// Replaces a picture's hash. KEYS: picture. ARGV: seconds to keep it, then field, value, …
    static let save = RedisScript(
        """
        redis.call('DEL', KEYS[1])
        redis.call('HSET', KEYS[1], unpack(ARGV, 2))
        redis.call('EXPIRE', KEYS[1], ARGV[1])
        return 1
        """)

    /// Notes orders that wait for a picture. A picture that is being fetched or waits for its next attempt keeps its
    /// time.
    ///
    /// KEYS: due, waiting. ARGV: picture, most pictures, then order, its waiting record, …
    /// Returns 1, or 0 if there are too many pictures.
    static let note = RedisScript(
        now + """
            if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
              return 0
            end
            redis.call('HSET', KEYS[2], unpack(ARGV, 3))
            redis.call('ZADD', KEYS[1], 'NX', string.format('%.0f', now), ARGV[1])
            return 1
            """)

    /// Takes pictures that are due and postpones them until the end of the lease, which also identifies their owner.
    ///
    /// KEYS: due. ARGV: most pictures, milliseconds of the lease. Returns the total number of pictures, the lease, the
    /// pictures taken.
    static let claim = RedisScript(
        now + """
            local pictures = redis.call(
              'ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now), 'LIMIT', 0, ARGV[1])
            local lease = string.format('%.0f', now + ARGV[2])
            for _, picture in ipairs(pictures) do redis.call('ZADD', KEYS[1], lease, picture) end
            return {redis.call('ZCARD', KEYS[1]), lease, pictures}
            """)

    /// Makes some of the pictures of order types due that wait for longer than a lease lasts.
    ///
    /// KEYS: due. ARGV: those of other types that were passed, milliseconds of the longest lease, then order types.
    /// Returns the number that are passed by now, or -1 at the end.
    static let hasten = RedisScript(
        now + """
            local types = {}
            for index = 3, #ARGV do types[ARGV[index]] = true end
            local passed = tonumber(ARGV[1])
            local page = redis.call(
              'ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', now + ARGV[2]), '+inf', 'LIMIT', passed, 1000)
            for _, picture in ipairs(page) do
              if types[string.match(picture, '^[^ /]+') or ''] then
                redis.call('ZADD', KEYS[1], 'XX', string.format('%.0f', now), picture)
              else
                passed = passed + 1
              end
            end
            return #page < 1000 and -1 or passed
            """)

    /// Postpones a picture if the lease is still valid. KEYS: due. ARGV: picture, lease, milliseconds from now.
    ///
    /// Returns the new time, which is a lease as well, or 0 if another worker has the picture.
    static let postpone = RedisScript(
        now + """
            if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or '-1') ~= tonumber(ARGV[2]) then return '0' end
            local time = string.format('%.0f', now + ARGV[3])
            redis.call('ZADD', KEYS[1], time, ARGV[1])
            return time
            """)

    /// Removes a picture if no order waits for it; postpones it otherwise.
    ///
    /// KEYS: due, waiting. ARGV: picture, lease, milliseconds from now, '1' to dismiss the waiting orders.
    static let finish = RedisScript(
        now + """
            if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or '-1') ~= tonumber(ARGV[2]) then return 0 end
            if ARGV[4] == '1' then redis.call('DEL', KEYS[2]) end
            if redis.call('HLEN', KEYS[2]) == 0 then
              redis.call('ZREM', KEYS[1], ARGV[1])
            else
              redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[3]), ARGV[1])
            end
            return 1
            """)

    /// Removes orders that have the picture they waited for. One that was noted again meanwhile stays.
    ///
    /// KEYS: waiting. ARGV: order, its waiting record, …
    static let removeWaiting = RedisScript(
        """
        for index = 1, #ARGV, 2 do
          if redis.call('HGET', KEYS[1], ARGV[index]) == ARGV[index + 1] then
            redis.call('HDEL', KEYS[1], ARGV[index])
          end
        end
        return 1
        """)
}
