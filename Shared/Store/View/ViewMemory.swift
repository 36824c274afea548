import Model
import NIOCore
import Redis
import Synchronization

/// The epochs under which the view was complete at the last check, for answers that something does not exist.
///
/// An epoch that is gone never comes back. So if an epoch was known before some data was read, and is still the same
/// after it, the view was complete when the data was read: one GET proves it, while a check of the server's history
/// takes a script before and one after. The history is checked again after `life`, and whenever another server answers.
/// Threads: any. Bounded: one set of epochs.
public final class ViewMemory: Sendable {
    /// The time for which a check of the servers' histories is valid.
    static let life = TimeAmount.seconds(1)

    /// The epochs that were known before some data was read.
    struct Known: Sendable {
        /// By the hash tag of the shard; the empty one is that of a single server.
        let epochs: [String: String]
        let generation: UInt64
        let until: NIODeadline
    }

    /// The verdict of epochs that were read after some data.
    enum Verdict: Hashable, Sendable {
        /// The view was complete when the data was read.
        case complete
        /// It is not complete.
        case incomplete
        /// It is another one: only a check shows if it is complete.
        case another
    }

    let view: MaterializedView
    private let remembered = Mutex<Known?>(nil)

    public init(_ view: MaterializedView) { self.view = view }

    /// Returns the known epochs, for a reader; nil if a new check is due.
    func known(at now: NIODeadline = .now()) -> Known? {
        let generation = self.view.redis.generation
        return self.remembered.withLock { remembered in
            guard let known = remembered, known.generation == generation, now < known.until else { return nil }
            return known
        }
    }

    /// Returns commands that read the epochs of the shards of some keys; `judge` takes the replies.
    ///
    /// In a cluster these are the shards of the masters that serve the keys, or all shards if no master serves a key.
    func checks(_ known: Known, of keys: [String]) -> (hashTags: [String], commands: [RedisCommand]) {
        var hashTags: Set<String> = []
        for key in keys {
            guard let hashTag = self.view.redis.knownHashTag(of: key) else {
                hashTags = Set(known.epochs.keys)
                break
            }
            hashTags.insert(hashTag)
        }
        let sorted = hashTags.sorted()
        return (
            sorted,
            sorted.map { RedisCommand("GET", .string(StoreKeys.epoch($0.isEmpty ? nil : $0))) }
        )
    }

    /// Judges epochs that were read after some data.
    func judge(
        _ replies: some Collection<RedisValue>, of hashTags: [String], against known: Known
    ) throws(StoreError) -> Verdict {
        guard replies.count == hashTags.count, !hashTags.isEmpty else {
            throw StoreError(.unavailable, "reading the epoch: a reply is missing")
        }
        var isSame = true
        for (hashTag, reply) in zip(hashTags, replies) {
            if case .error(let message) = reply { throw StoreError(.unavailable, "reading the epoch: \(message)") }
            guard let text = reply.text else {
                self.forget()
                return .incomplete
            }
            if known.epochs[hashTag] != text { isSame = false }
        }
        if isSame { return .complete }
        self.forget()
        return .another
    }

    /// Reads the epochs of all shards, and with them the histories of the servers.
    ///
    /// - Returns: nil while the view is not complete; fails with `RedisError` or `StoreError`.
    func look(on eventLoop: any EventLoop) -> EventLoopFuture<MaterializedView.Epochs?> {
        let generation = self.view.redis.generation
        let now = NIODeadline.now()
        let (hashTags, commands) = self.view.epochReads
        return self.view.redis.pipeline(commands, on: eventLoop).flatMapThrowing { replies in
            let epochs = try MaterializedView.epochs(replies)
            self.remember(epochs, of: hashTags, generation, now)
            return epochs
        }
    }

    /// Stores epochs that were read with the histories of the servers.
    ///
    /// - Parameters:
    ///   - generation: that of the client before they were read.
    ///   - now: the time when the reading began.
    func remember(_ epochs: MaterializedView.Epochs?, of hashTags: [String], _ generation: UInt64, _ now: NIODeadline) {
        guard let epochs, epochs.values.count == hashTags.count else { return self.forget() }
        let known = Known(
            epochs: Dictionary(zip(hashTags, epochs.values)) { first, _ in first }, generation: generation,
            until: now + Self.life)
        self.remembered.withLock { $0 = known }
    }

    private func forget() { self.remembered.withLock { $0 = nil } }
}
