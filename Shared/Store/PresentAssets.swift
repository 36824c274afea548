import Synchronization

/// The assets that are known to stand in Redis.
///
/// One that was seen there stays for the grace period of `AssetSweep`, or goes with the view as a whole, whose epochs
/// go with it and never come back. So what is remembered holds for a while (`AssetTiming.memory`) for a caller that
/// finds the same epochs after its work.
/// Bounded: beyond `limit` it begins anew.
final class PresentAssets: Sendable {
    private static let limit = 10_000

    private struct Known {
        var epochs: View.Epochs?
        var digests: Set<String> = []
        /// No digest was seen before.
        var since: ContinuousClock.Instant
    }

    private let known = Mutex(Known(since: .now))

    func contains(_ digest: String, under epochs: View.Epochs) -> Bool {
        self.known.withLock { $0.epochs == epochs && $0.digests.contains(digest) }
    }

    /// - Parameter seen: before they were looked for.
    func insert(_ digests: [String], under epochs: View.Epochs, seen: ContinuousClock.Instant) {
        self.known.withLock { known in
            if known.epochs != epochs || known.digests.isEmpty || known.digests.count > Self.limit {
                known = Known(epochs: epochs, since: seen)
            }
            known.since = min(known.since, seen)
            known.digests.formUnion(digests)
        }
    }

    /// Begins anew if anything was seen before a moment.
    func forget(seenBefore moment: ContinuousClock.Instant) {
        self.known.withLock { known in
            if known.since < moment { known.digests = [] }
        }
    }
}
