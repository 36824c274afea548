import Redis
import Synchronization

/// A cache that prevents readers from treating an entry missing from an incomplete view as nonexistent.
///
/// It remembers the epochs under which the view was complete. If the epochs read after some data are still these, the
/// view was complete when the data was read: an epoch that is gone never comes back.
public final class ViewEpochCache: Sendable {
    let view: MaterializedView
    private let onDoubt: @Sendable () -> Void
    private let remembered = Mutex<Remembered?>(nil)

    private struct Remembered {
        let epochs: MaterializedView.Epochs
        /// The client's generation when the epochs were read.
        let generation: UInt64
    }

    /// - Parameter onDoubt: called if the view turns out to be incomplete or another one, to notify its maintainer.
    public init(_ view: MaterializedView, onDoubt: @escaping @Sendable () -> Void = {}) {
        self.view = view
        self.onDoubt = onDoubt
    }

    /// Returns the epochs under which the view is complete, to be compared with those read after the data.
    ///
    /// - Throws: `StoreError` with code `.incomplete`, or `.unavailable`.
    public func known() async throws(StoreError) -> MaterializedView.Epochs {
        let generation = self.view.redis.generation
        if let known = self.remembered.withLock({ $0 }), known.generation == generation { return known.epochs }
        guard let epochs = try await self.read() else { throw self.doubt() }
        self.remembered.withLock { $0 = Remembered(epochs: epochs, generation: generation) }
        return epochs
    }

    /// Checks that the view is still the one of these epochs.
    ///
    /// - Throws: the errors of `known`.
    public func confirm(_ epochs: MaterializedView.Epochs) async throws(StoreError) {
        guard try await self.read() == epochs else { throw self.doubt() }
    }

    /// Judges epochs that were read after some data.
    func check(_ replies: some Collection<RedisValue>, against epochs: MaterializedView.Epochs) throws(StoreError) {
        guard try MaterializedView.epochs(replies) == epochs else { throw self.doubt() }
    }

    private func read() async throws(StoreError) -> MaterializedView.Epochs? {
        try await self.view.awaitShards()
        do {
            return try MaterializedView.epochs(try await self.view.redis.pipeline(self.view.epochCommands))
        } catch let error as RedisError {
            throw StoreError("reading the epoch", error)
        } catch let error as StoreError {
            throw error
        } catch {
            throw StoreError(.unavailable, "reading the epoch: \(error)")
        }
    }

    private func doubt() -> StoreError {
        self.remembered.withLock { $0 = nil }
        self.onDoubt()
        return StoreError(.incomplete, "the view in Redis is not complete, it is being judged or restored")
    }
}
