public import Redis

/// The view: the state in Redis derived from Kafka, and the marks of its completeness.
///
/// A single server is one shard, with one set of these marks; in a cluster each master is one, since each may lose its
/// part alone. The view is complete if it is complete in all shards.
/// Source: Design §4.3
public struct MaterializedView: Sendable {
    /// The Redis that holds the view.
    public let redis: RedisClient
    private let hashTags: @Sendable () -> [String]

    /// - Parameter hashTags: returns one for each present master of a cluster; none for a single server. nil uses those
    ///   that the client knows.
    public init(redis: RedisClient, hashTags: (@Sendable () -> [String])? = nil) {
        self.redis = redis
        self.hashTags = hashTags ?? { redis.knownHashTags }
    }

    /// The hash tags of all shards, in an order that does not change when a replica takes over.
    var shards: [String?] {
        let hashTags = self.hashTags().sorted()
        return hashTags.isEmpty ? [nil] : hashTags.map { $0 }
    }

    /// Waits until the client knows the topology: before that no shard is the right one.
    func awaitShards() async throws(StoreError) {
        do {
            _ = try await self.redis.topology()
        } catch {
            throw StoreError("finding the shards of the view", error)
        }
    }

    /// The state of one shard.
    public struct Shard: Hashable, Sendable {
        let hashTag: String?
        /// Nil if the view is not complete.
        public let epoch: String?
        /// True if the epoch is of the server's present history. If not, the earlier judgement may be invalid.
        public let isHere: Bool
        /// The restore in progress.
        public let plan: String?
        /// The history of the server that was asked.
        let history: String
        /// True if the server does not report its history: then it goes unnoticed that it fell back.
        public var hidesHistory: Bool { self.history.isEmpty }
        /// Offsets below which everything is certainly stored in this shard, by `<cluster>/<topic>/<partition>`.
        public let tails: [String: Int64]
        /// True while a server is restored that had no order at the beginning: its orders may be served, since they are
        /// the newest that Kafka has.
        public let startedEmpty: Bool

        public init(
            hashTag: String? = nil, epoch: String?, isHere: Bool, plan: String?, history: String = "",
            tails: [String: Int64] = [:], startedEmpty: Bool = false
        ) {
            self.hashTag = hashTag
            self.epoch = epoch
            self.isHere = isHere
            self.plan = plan
            self.history = history
            self.tails = tails
            self.startedEmpty = startedEmpty && plan != nil
        }
    }

    /// Reads the state of all shards.
    public func look() async throws(StoreError) -> [Shard] {
        try await self.awaitShards()
        let shards = self.shards
        let replies = try await self.run(
            shards.map {
                RedisInvocation(
                    StoreScripts.look,
                    keys: [StoreKeys.epoch($0), StoreKeys.plan($0), StoreKeys.tails($0), StoreKeys.startedEmpty($0)],
                    arguments: [])
            }, "looking at the view")
        var found: [Shard] = []
        for (hashTag, reply) in zip(shards, replies) {
            guard let parts = reply.array, parts.count == 6, let epoch = parts[0].text, let plan = parts[2].text,
                let tails = parts[3].array, let history = parts[4].text
            else { throw StoreError(.unavailable, "looking at the view: an unexpected reply") }
            found.append(
                Shard(
                    hashTag: hashTag, epoch: epoch.isEmpty ? nil : epoch, isHere: parts[1].integer == 1,
                    plan: plan.isEmpty ? nil : plan, history: history, tails: Self.offsets(tails),
                    startedEmpty: parts[5].integer == 1))
        }
        return found
    }

    private static func offsets(_ pairs: [RedisValue]) -> [String: Int64] {
        var offsets: [String: Int64] = [:]
        for index in stride(from: 0, to: pairs.count - 1, by: 2) {
            guard let name = pairs[index].text, let offset = pairs[index + 1].integer else { continue }
            offsets[name] = max(0, offset)
        }
        return offsets
    }

    /// Marks the view as incomplete.
    ///
    /// - Parameters:
    ///   - plan: a name for the restore, if none is in progress: letters and digits.
    ///   - shards: as seen when this was decided.
    /// - Returns: the plan under which all packagers restore; nil if the view was completed meanwhile.
    public func begin(_ plan: String, seen shards: [Shard]) async throws(StoreError) -> String? {
        var plan = plan
        // In sequence, since the first shard decides which plan is used.
        for shard in shards {
            let reply = try await self.run(
                [
                    RedisInvocation(
                        StoreScripts.beginRestore,
                        keys: [
                            StoreKeys.epoch(shard.hashTag), StoreKeys.plan(shard.hashTag),
                            StoreKeys.startedEmpty(shard.hashTag),
                        ],
                        arguments: [.string(plan), .string(shard.epoch ?? ""), .string(StoreKeys.anyOrder)])
                ], "beginning to restore")
            guard let text = reply.first?.text else { return nil }
            plan = text
        }
        return plan
    }

    /// Marks the view as complete, in each shard whose plan and history are still the same.
    ///
    /// - Parameters:
    ///   - tails: the offsets below which everything was restored.
    /// - Returns: true if it is complete in all shards.
    public func complete(
        _ plan: String, epoch: String, tails: [String: Int64]
    ) async throws(StoreError) -> Bool {
        let pairs = Self.pairs(tails)
        try await self.awaitShards()
        let replies = try await self.run(
            self.shards.map {
                RedisInvocation(
                    StoreScripts.completeRestore,
                    keys: [StoreKeys.epoch($0), StoreKeys.plan($0), StoreKeys.tails($0)]
                        + [StoreKeys.startedEmpty($0), StoreKeys.marked($0)],
                    arguments: [.string(plan), .string(epoch)] + pairs)
            }, "completing the view")
        return replies.allSatisfy { $0.integer == 1 }
    }

    /// Marks shards of another history that turned out to be complete.
    public func confirm(_ shards: [Shard], epoch: String) async throws(StoreError) {
        _ = try await self.run(
            shards.filter { !$0.isHere }.map { shard in
                RedisInvocation(
                    StoreScripts.confirmView, keys: [StoreKeys.epoch(shard.hashTag)],
                    arguments: [.string(shard.epoch ?? ""), .string(shard.history), .string(epoch)])
            }, "confirming the view")
    }

    /// Advances the tails.
    ///
    /// - Parameter shards: as they were when the offsets were taken: a shard that has changed since keeps its tails.
    public func keep(tails: [String: Int64], in shards: [Shard]) async throws(StoreError) {
        let pairs = Self.pairs(tails)
        let known = shards.compactMap { shard in shard.epoch.map { (shard.hashTag, $0) } }
        _ = try await self.run(
            known.map {
                RedisInvocation(
                    StoreScripts.keepTails, keys: [StoreKeys.epoch($0), StoreKeys.tails($0)],
                    arguments: [.string($1)] + pairs)
            }, "keeping the tails")
    }

    static func pairs(_ offsets: [String: Int64]) -> [RedisArgument] {
        offsets.sorted { $0.key < $1.key }.flatMap { [.string($0.key), .integer($0.value)] }
    }

    func run(_ invocations: [RedisInvocation], _ operation: String) async throws(StoreError) -> [RedisValue] {
        guard !invocations.isEmpty else { return [] }
        let replies: [RedisValue]
        do {
            replies = try await self.redis.evaluate(invocations)
        } catch {
            throw StoreError(operation, error)
        }
        for case .error(let message) in replies { throw StoreError(.unavailable, "\(operation): \(message)") }
        return replies
    }
}

extension MaterializedView {
    /// The epochs of all shards while the view is complete. The same value never occurs again.
    public struct Epochs: Hashable, Sendable {
        let values: [String]
    }

    /// Commands that read the epochs, for a pipeline with others, once `ViewEpochCache.known` has returned.
    var epochCommands: [RedisCommand] { self.epochReads.commands }

    /// The same commands, with the hash tags of the shards that they read; the empty one is that of a single server.
    var epochReads: (hashTags: [String], commands: [RedisCommand]) {
        let shards = self.shards
        return (
            shards.map { $0 ?? "" },
            shards.map { RedisCommand("EVAL", .string(StoreScripts.epoch), "1", .string(StoreKeys.epoch($0))) }
        )
    }

    /// - Returns: nil if the view is not complete.
    public static func epochs(_ replies: some Collection<RedisValue>) throws(StoreError) -> Epochs? {
        var values: [String] = []
        for reply in replies {
            if case .error(let message) = reply { throw StoreError(.unavailable, "reading the epoch: \(message)") }
            guard let text = reply.text else { return nil }
            values.append(text)
        }
        return Epochs(values: values)
    }
}

extension MaterializedView {
    /// Reads keys of a complete view, each separately: an answer counts only if the view was complete at its shard
    /// before and after it.
    ///
    /// An epoch that is gone never comes back, so two equal ones prove that the view was complete in between.
    /// - Parameter questions: commands with one key each.
    /// - Returns: one result per question, in order.
    /// - Throws: `StoreError` if a single server did not answer, or its view is not complete.
    func read(
        _ questions: [(key: String, command: RedisCommand)], _ operation: String
    ) async throws(StoreError) -> [Result<RedisValue, StoreError>] {
        let asked = try await self.shardsOf(questions.map(\.key))
        // Only the shards of these keys: another master may be down.
        let shards = Set(asked.compactMap(\.self)).sorted()
        let all = self.epochCommands
        let epochs = shards.filter { all.indices.contains($0) }.map { all[$0] }
        let replies: [RedisValue]
        do {
            replies = try await self.redis.pipeline(epochs + questions.map(\.command), checkedBy: epochs)
        } catch {
            let failure = StoreError(operation, error)
            // Some masters of these keys may be down while others are not.
            guard all.count > 1 else { throw failure }
            return questions.map { _ in .failure(failure) }
        }
        guard replies.count == questions.count + 2 * epochs.count else {
            throw StoreError(.unavailable, "\(operation): a reply is missing")
        }
        let doubts = zip(replies.prefix(epochs.count), replies.suffix(epochs.count)).map { Self.doubt($0, $1) }
        // With a single server a failure concerns all keys.
        if all.count == 1, let doubt = doubts.first ?? nil { throw doubt }
        let failures = Dictionary(uniqueKeysWithValues: zip(shards, doubts))
        return zip(asked, replies.dropFirst(epochs.count)).map { shard, answer in
            guard let shard, let doubt = failures[shard] else {
                return .failure(StoreError(.unavailable, "\(operation): no server has its slot"))
            }
            return doubt.map { .failure($0) } ?? Self.result(answer, operation)
        }
    }

    /// Returns the shard of each key; nil for one whose slot no master serves.
    private func shardsOf(_ keys: [String]) async throws(StoreError) -> [Int?] {
        try await self.awaitShards()
        let shards = self.shards
        guard shards.count > 1 else { return keys.map { _ in 0 } }
        let numbers = Dictionary(shards.enumerated().map { ($1, $0) }) { first, _ in first }
        do {
            let topology = try await self.redis.topology()
            return keys.map { topology.hashTag(of: $0).flatMap { numbers[$0] } }
        } catch {
            throw StoreError("finding the shards of keys", error)
        }
    }

    static func result(_ reply: RedisValue, _ operation: String) -> Result<RedisValue, StoreError> {
        if case .error(let message) = reply { return .failure(StoreError(operation, reply: message)) }
        return .success(reply)
    }

    /// Returns the reason why a value read between two epochs cannot be trusted; nil if it can.
    private static func doubt(_ before: RedisValue, _ after: RedisValue) -> StoreError? {
        for case .error(let message) in [before, after] {
            return StoreError(.unavailable, "reading the epoch: \(message)")
        }
        guard before.text == nil || before != after else { return nil }
        return StoreError(.incomplete, "the view in Redis is not complete, it is being judged or restored")
    }
}

extension StoreScripts {
    /// Returns the epoch; nil unless it is of this history. The source of an EVAL and not a script, since callers on an
    /// event loop send it in a pipeline after other commands.
    ///
    /// KEYS: the epoch.
    static let epoch =
        Self.history + """
            local epoch = redis.call('GET', KEYS[1])
            return isHere(epoch) and epoch or false
            """
}
