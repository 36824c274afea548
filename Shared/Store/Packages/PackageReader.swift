public import Model
public import NIOCore
public import Redis

/// The gateway's reads to answer a fetch, on its own event loop and without copies of package bytes.
public struct PackageReader: Sendable {
    let redis: RedisClient
    /// True if spans say whether the package was fetched before.
    private let readsMark: Bool
    /// Decides if a missing order does not exist.
    public let memory: ViewMemory

    public init(redis: RedisClient, readsMark: Bool = false) {
        self.redis = redis
        self.readsMark = readsMark
        self.memory = ViewMemory(MaterializedView(redis: redis))
    }

    /// The values that decide the answer before any package byte is read.
    public struct Stamp: Sendable, Hashable {
        public let token: AuthenticationToken
        public let version: Int64
        /// `Last-Modified`, UNIX seconds.
        public let modifiedEpochSeconds: Int64
        /// Without quotes; empty for a version without a package.
        public let entityTag: String

        /// False for a version whose package is made when it is asked for, see `PackageReader.request`.
        public var isPackaged: Bool { !self.entityTag.isEmpty }
    }

    /// The package's own parts with their stamp; no parts if it has no package.
    public struct Spans: Sendable {
        public let stamp: Stamp
        public let head: ByteBuffer
        /// Digests of the assets in the order of the archive and of the certificates, separated by spaces; among them
        /// references of the order's own documents.
        public let sharedList: String
        public let tail: ByteBuffer
        /// True if there is no mark of a fetch, and marks are read.
        public let isUnfetched: Bool

        /// Digests of the assets in the order of the archive, then of the certificates.
        public var shared: [String] { digests(self.sharedList) }
    }

    static let stampFields = fields([.token, .version, .modified, .etag, .removed])
    private static let spanFields = fields([
        .token, .version, .modified, .etag, .removed, .head, .assets, .tail,
    ])
    private static let markedSpanFields = fields([
        .token, .version, .modified, .etag, .removed, .head, .assets, .tail, .fetched,
    ])
    private static func fields(_ fields: [OrderField]) -> RedisArgument {
        .encoded(RedisEncodedArguments(fields.map(Self.argument)))
    }
    private static func argument(_ field: OrderField) -> RedisArgument { .string(field.rawValue) }

    /// Reads the stamp alone.
    ///
    /// - Parameter completion: called as that of `RedisClient.pipeline`, with nil for an order that is unknown or
    ///   removed, or a `RedisError` or `StoreError`.
    public func stamp(
        of key: OrderKey, on eventLoop: any EventLoop,
        _ completion: @escaping @Sendable (Result<Stamp?, any Error>) -> Void
    ) {
        let command = RedisCommand("HMGET", .string(StoreKeys.order(key)), Self.stampFields)
        self.redis.pipeline([command], on: eventLoop) { result in
            completion(Result { try Self.stamp(Self.values(result.get())) })
        }
    }

    /// As above, for callers that are not time-critical.
    public func stamp(of key: OrderKey, on eventLoop: any EventLoop) -> EventLoopFuture<Stamp?> {
        let promise = eventLoop.makePromise(of: Stamp?.self)
        self.stamp(of: key, on: eventLoop) { promise.completeWith($0) }
        return promise.futureResult
    }

    /// Reads stamp and package in one pipeline.
    ///
    /// - Parameter completion: as for `stamp`.
    public func spans(
        of key: OrderKey, on eventLoop: any EventLoop,
        _ completion: @escaping @Sendable (Result<Spans?, any Error>) -> Void
    ) {
        let fields = self.readsMark ? Self.markedSpanFields : Self.spanFields
        let command = RedisCommand("HMGET", .string(StoreKeys.order(key)), fields)
        self.redis.pipeline([command], on: eventLoop) { result in
            completion(Result { try Self.spans(result.get()) })
        }
    }

    /// As above, for callers that are not time-critical.
    public func spans(of key: OrderKey, on eventLoop: any EventLoop) -> EventLoopFuture<Spans?> {
        let promise = eventLoop.makePromise(of: Spans?.self)
        self.spans(of: key, on: eventLoop) { promise.completeWith($0) }
        return promise.futureResult
    }

    private static func spans(_ replies: [RedisValue]) throws -> Spans? {
        let values = try Self.values(replies)
        guard let stamp = try Self.stamp(values) else { return nil }
        guard stamp.isPackaged else {
            return Spans(stamp: stamp, head: ByteBuffer(), sharedList: "", tail: ByteBuffer(), isUnfetched: false)
        }
        guard values.count >= 8, case .string(let head) = values[5], let shared = values[6].text,
            !shared.isEmpty, case .string(let tail) = values[7]
        else { throw StoreError(.corrupt, "reading package: a span is missing") }
        return Spans(
            stamp: stamp, head: head, sharedList: shared, tail: tail, isUnfetched: values.last == .null)
    }

    /// Marks an order as fetched.
    ///
    /// - Returns: true if it exists and was not marked yet.
    public func markFetched(_ key: OrderKey) async throws(StoreError) -> Bool {
        let mark = RedisInvocation(StoreScripts.markFetched, keys: [StoreKeys.order(key)], arguments: [])
        return try await self.redis.reply(to: mark, "marking an order").integer == 1
    }

    static func values(_ replies: [RedisValue]) throws -> [RedisValue] {
        if case .error(let message)? = replies.first { throw StoreError("reading order", reply: message) }
        return replies.first?.array ?? []
    }

    static func stamp(_ values: [RedisValue]) throws -> Stamp? {
        guard values.count >= 5 else { throw StoreError(.corrupt, "reading order: not a hash") }
        guard values[1] != .null, values[4].text != "1" else { return nil }
        guard let token = values[0].text, let version = values[1].integer, let modified = values[2].integer,
            let tag = values[3] == .null ? "" : values[3].text, tag.utf8.allSatisfy({ (0x23...0x7E).contains($0) })
        else { throw StoreError(.corrupt, "reading order: a field is missing") }
        return Stamp(
            token: try AuthenticationToken(token), version: version, modifiedEpochSeconds: modified, entityTag: tag)
    }

    /// Asks for the package of an order that has none.
    ///
    /// - Parameter others: as for `PackageRequests`.
    /// - Returns: fails with `RedisError` or `StoreError`.
    public func request(
        _ key: OrderKey, behind others: Int = 0, on eventLoop: any EventLoop
    ) -> EventLoopFuture<Void> {
        PackageRequests(redis: self.redis).add(key, behind: others, on: eventLoop)
    }

    /// Reads assets, certificates and own documents of an order.
    ///
    /// - Returns: one entry per digest, in order, or its failure: `.corrupt` if it is missing.
    public func assets(
        _ digests: [String], of key: OrderKey, on eventLoop: any EventLoop
    ) -> EventLoopFuture<[Result<ByteBuffer, StoreError>]> {
        let commands = digests.map { RedisCommand(ofSpan: $0, of: key, ifShared: "GET", else: "HGET") }
        return self.redis.pipeline(commands, on: eventLoop).map { replies in
            zip(digests, replies).map { digest, reply in
                switch reply {
                case .string(let entry): .success(entry)
                case .error(let message): .failure(StoreError("reading asset \(digest)", reply: message))
                default: .failure(StoreError(.corrupt, "reading asset \(digest): it is missing"))
                }
            }
        }
    }
}

/// The reads before a client is refused.
extension PackageReader {
    /// The facts about an order that is about to be refused.
    public struct LookupResult: Sendable, Hashable {
        /// True if the view was complete when the order was looked up. If not, a missing order may exist, and
        /// a present one may be old.
        public let isComplete: Bool
        /// Nil for an order that is unknown or removed.
        public let stamp: Stamp?
        /// True if it was removed, and recently enough for its trace to exist.
        public let isRemoved: Bool
        /// The token that a removed order had.
        public let removedToken: AuthenticationToken?

        public init(
            isComplete: Bool, stamp: Stamp?, isRemoved: Bool = false, removedToken: AuthenticationToken? = nil
        ) {
            self.isComplete = isComplete
            self.stamp = stamp
            self.isRemoved = isRemoved
            self.removedToken = removedToken
        }

        /// - Parameter values: those of the fields of a stamp.
        init(isComplete: Bool, _ values: [RedisValue]) throws {
            let isRemoved = values.count >= 5 && values[4].text == "1"
            self.init(
                isComplete: isComplete, stamp: try PackageReader.stamp(values), isRemoved: isRemoved,
                removedToken: isRemoved ? values[0].text.flatMap { try? AuthenticationToken($0) } : nil)
        }
    }

    /// Looks up an order without a byte of its package, for a request that may be refused.
    ///
    /// Sends two small commands in one pipeline as long as the view is known to be complete, see `ViewMemory`.
    /// - Returns: fails with `RedisError` or `StoreError`.
    public func lookup(of key: OrderKey, on eventLoop: any EventLoop) -> EventLoopFuture<LookupResult> {
        guard let known = self.memory.known() else { return self.certainLookup(of: key, on: eventLoop) }
        let name = StoreKeys.order(key)
        let (hashTags, checks) = self.memory.checks(known, of: [name])
        let order = RedisCommand("HMGET", .string(name), Self.stampFields)
        return self.redis.pipeline([order] + checks, checks: checks.count, on: eventLoop).flatMap { replies in
            do {
                let values = try Self.values(replies)
                switch try self.memory.judge(replies.dropFirst(), of: hashTags, against: known) {
                case .complete: return eventLoop.makeSucceededFuture(try LookupResult(isComplete: true, values))
                case .incomplete: return eventLoop.makeSucceededFuture(try LookupResult(isComplete: false, values))
                case .another: return self.certainLookup(of: key, on: eventLoop)
                }
            } catch {
                return eventLoop.makeFailedFuture(error)
            }
        }
    }

    /// Checks if an order was removed that left no other trace: see `OrderStore.goneSeconds`.
    ///
    /// - Returns: fails with `RedisError` or `StoreError`.
    public func isGone(_ key: OrderKey, on eventLoop: any EventLoop) -> EventLoopFuture<Bool> {
        let command = RedisCommand("EXISTS", .string(StoreKeys.gone(key)))
        return self.redis.pipeline([command], on: eventLoop).flatMapThrowing { replies in
            guard let count = replies.first?.integer else {
                throw StoreError(.unavailable, "looking for a removed order: an unexpected reply")
            }
            return count > 0
        }
    }

    /// Looks up an order, with a check of the servers' histories.
    ///
    /// An order could be missing, and be restored before the view becomes complete: so the epoch is read before and
    /// after it.
    private func certainLookup(of key: OrderKey, on eventLoop: any EventLoop) -> EventLoopFuture<LookupResult> {
        let (generation, now) = (self.redis.generation, NIODeadline.now())
        let (hashTags, epochs) = self.memory.view.epochReads
        let order = RedisCommand("HMGET", .string(StoreKeys.order(key)), Self.stampFields)
        let count = epochs.count
        return self.redis.pipeline(epochs + [order] + epochs, checks: count, on: eventLoop).flatMapThrowing { replies in
            guard replies.count == count * 2 + 1 else {
                throw StoreError(.unavailable, "reading order: a reply is missing")
            }
            let values = try Self.values([replies[count]])
            let before = try MaterializedView.epochs(replies.prefix(count))
            let isComplete = try before != nil && before == MaterializedView.epochs(replies.suffix(count))
            self.memory.remember(isComplete ? before : nil, of: hashTags, generation, now)
            return try LookupResult(isComplete: isComplete, values)
        }
    }
}

extension StoreScripts {
    /// Marks an order as fetched. No writer relies on the mark, so the revision stays.
    ///
    /// KEYS: the order. Returns 1 if it is marked now, 0 if it was or does not exist.
    static let markFetched = RedisScript(
        """
        local standing = redis.call('HMGET', KEYS[1], 'version', 'removed', 'fetched')
        if not standing[1] or standing[2] or standing[3] then return 0 end
        redis.call('HSET', KEYS[1], 'fetched', 1)
        return 1
        """)
}
