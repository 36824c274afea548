public import Redis

/// The marks of what workers have in work, which the next owner of it reads after one of them ended.
///
/// Each batch overwrites the mark of the batch before it in its slot, in the pipeline of its first read; so the mark is
/// there before anything of the batch is decoded, and costs no time. A worker that stops removes its marks. Those of
/// one that ended become suspects, see `SuspectKeys`.
///
/// Bounded: for each worker its slots with the keys of one batch; suspects by `suspectLimit`. Both are forgotten
/// `keptMilliseconds` after the last end of a worker.
public struct WorkMarks: Sendable {
    /// The most suspects; keys in work beyond that are none.
    static let suspectLimit: Int64 = 16_384
    /// 15 minutes: more than the pauses between the restarts of a container.
    static let keptMilliseconds: Int64 = 900_000
    /// The time between two beats.
    public static let beat = Duration.seconds(1)
    /// The time without a beat after which a worker counts as ended, in milliseconds: less than any session of a group.
    static let patienceMilliseconds: Int64 = 3000

    private let redis: RedisClient
    private let keys: [String]
    private let name: String
    private let instance: String
    private let slots: Int
    private let patienceMilliseconds: Int64

    /// - Parameters:
    ///   - group: the consumer group, which has the records.
    ///   - instance: the name of the member that outlives restarts: what had it before has ended. Empty: none.
    ///   - slots: the most batches in work.
    public init(redis: RedisClient, group: String, instance: String, slots: Int) {
        self.init(
            redis: redis, group: group, instance: instance, slots: slots,
            patienceMilliseconds: Self.patienceMilliseconds)
    }

    init(redis: RedisClient, group: String, instance: String, slots: Int, patienceMilliseconds: Int64) {
        self.redis = redis
        self.patienceMilliseconds = patienceMilliseconds
        self.keys = [StoreKeys.work(group), StoreKeys.suspects(group)]
        self.instance = instance
        self.name = "\(instance)@\(String(UInt64.random(in: 0 ... .max), radix: 16))"
        self.slots = slots
    }

    /// Returns the mark of a batch, for its first read.
    public func mark(slot: Int, _ keys: [[UInt8]?]) -> WorkMark {
        var digests: [UInt8] = []
        digests.reserveCapacity(keys.count * 8)
        for key in keys { digests += SuspectKeys.Digest(key).bytes }
        return WorkMark(
            invocation: RedisInvocation(
                StoreScripts.markWork, keys: [self.keys[0]],
                arguments: [.string("\(self.name)#\(slot)"), .bytes(digests)]))
    }

    /// Sets a mark by itself.
    public func set(_ mark: WorkMark) async throws(StoreError) {
        _ = try await self.run(mark.invocation, "marking work")
    }

    /// Tells the others that this worker lives.
    public func beat() async throws(StoreError) {
        _ = try await self.run(
            RedisInvocation(
                StoreScripts.markWork, keys: [self.keys[0]], arguments: [.string(self.name), .bytes([])]),
            "marking work")
    }

    /// Makes suspects of what ended workers had in work.
    ///
    /// - Returns: all suspects of the group.
    public func examine() async throws(StoreError) -> [SuspectKeys.Digest: SuspectKeys.Beginnings] {
        let reply = try await self.run(
            RedisInvocation(
                StoreScripts.examineWork, keys: self.keys,
                arguments: [
                    .string(self.name), .string(self.instance), .integer(self.patienceMilliseconds),
                    .integer(Self.keptMilliseconds), .integer(Self.suspectLimit),
                ]), "reading marks of work")
        guard let pairs = reply.array else {
            throw StoreError(.unavailable, "reading marks of work: an unexpected reply")
        }
        var suspects: [SuspectKeys.Digest: SuspectKeys.Beginnings] = [:]
        for index in stride(from: 0, to: pairs.count - 1, by: 2) {
            guard let digest = pairs[index].bytes.flatMap({ SuspectKeys.Digest(bytes: $0) }),
                let words = pairs[index + 1].text?.split(separator: " ", maxSplits: 1), let count = words.first
            else { continue }
            suspects[digest] = SuspectKeys.Beginnings(
                place: words.count > 1 ? String(words[1]) : "", count: Int(count) ?? 0)
        }
        return suspects
    }

    /// Notes the beginnings of a suspect's record.
    public func note(
        _ digest: SuspectKeys.Digest, _ beginnings: SuspectKeys.Beginnings
    ) async throws(StoreError) {
        let what = "noting the beginning of a record"
        let field = RedisArgument.bytes(digest.bytes)
        let value = "\(beginnings.count) \(beginnings.place)"
        _ = try await self.redis.reply(
            to: RedisCommand("HSET", .string(self.keys[1]), field, .string(value)), what)
        _ = try await self.redis.reply(
            to: RedisCommand("EXPIRE", .string(self.keys[1]), .integer(Self.keptMilliseconds / 1000)), what)
    }

    /// Works on a suspect's record while nothing else is in work: it counts as begun while it may be to blame for the
    /// end of its worker. That is at its beginning, and once it is in work for longer than all upstreams may take; in
    /// between it waits for them.
    ///
    /// A note that Redis does not take does not count: one of several servers may be away.
    ///
    /// - Parameters:
    ///   - limit: the time after which all upstreams have given up.
    ///   - instant: that of its beginning.
    public func alone<Result: Sendable>(
        _ key: [UInt8]?, _ beginnings: SuspectKeys.Beginnings, limit: Duration,
        instant: Duration = SuspectKeys.instant, _ work: () async -> Result
    ) async -> Result {
        let digest = SuspectKeys.Digest(key)
        try? await self.note(digest, beginnings)
        let result = await self.counting(digest, beginnings, limit, instant, work)
        try? await self.note(digest, SuspectKeys.Beginnings())
        return result
    }

    private func counting<Result: Sendable>(
        _ digest: SuspectKeys.Digest, _ beginnings: SuspectKeys.Beginnings, _ limit: Duration, _ instant: Duration,
        _ work: () async -> Result
    ) async -> Result {
        // The end of the scope cancels and awaits it.
        async let _: Void = self.recount(digest, beginnings, limit, instant)
        return await work()
    }

    private func recount(
        _ digest: SuspectKeys.Digest, _ beginnings: SuspectKeys.Beginnings, _ limit: Duration, _ instant: Duration
    ) async {
        do {
            try await Task.sleep(for: instant)
            try? await self.note(digest, SuspectKeys.Beginnings())
            try await Task.sleep(for: limit)
            try await self.note(digest, beginnings)
        } catch {}
    }

    /// Forgets suspects.
    public func forget(_ digests: [SuspectKeys.Digest]) async throws(StoreError) {
        guard !digests.isEmpty else { return }
        let fields = RedisEncodedArguments(digests.map { .bytes($0.bytes) })
        _ = try await self.redis.reply(
            to: RedisCommand("HDEL", .string(self.keys[1]), .encoded(fields)), "forgetting suspects")
    }

    /// Removes the marks of this worker, which stops.
    public func end() async throws(StoreError) {
        let fields = RedisEncodedArguments(
            [.string(self.name)] + (0..<self.slots).map { .string("\(self.name)#\($0)") })
        _ = try await self.redis.reply(
            to: RedisCommand("HDEL", .string(self.keys[0]), .encoded(fields)), "removing marks of work")
    }

    private func run(_ invocation: RedisInvocation, _ what: String) async throws(StoreError) -> RedisValue {
        let replies: [RedisValue]
        do { replies = try await self.redis.evaluate([invocation]) } catch { throw StoreError(what, error) }
        guard let reply = replies.first else { throw StoreError(.unavailable, "\(what): a reply is missing") }
        if case .error(let message) = reply { throw StoreError(what, reply: message) }
        return reply
    }
}

/// The mark of one batch.
public struct WorkMark: Sendable {
    let invocation: RedisInvocation
}

extension SuspectKeys.Digest {
    /// As fields of Redis have it: big-endian.
    fileprivate var bytes: [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: self.value >> UInt64(56 - 8 * $0)) }
    }

    fileprivate init?(bytes: [UInt8]) {
        guard bytes.count == 8 else { return nil }
        self.init(value: bytes.reduce(0) { $0 << 8 | UInt64($1) })
    }
}
