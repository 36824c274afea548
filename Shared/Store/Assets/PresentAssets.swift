import FoundationEssentials
import Synchronization

/// The assets that are known to be in Redis.
///
/// One that was seen there stays for the grace period of `AssetSweep`, or is lost with the view as a whole, whose
/// epochs are lost with it and never come back. So the knowledge is valid for a while (`AssetTiming.memory`) for a
/// caller that finds the same epochs after its work. Bounded: beyond `limit` it starts over.
final class PresentAssets: Sendable {
    private static let limit = 10_000

    private struct Known {
        var epochs: MaterializedView.Epochs?
        var digests: Set<String> = []
        /// No digest was seen before this time.
        var since: ContinuousClock.Instant
    }

    private let known = Mutex(Known(since: .now))

    func contains(_ digest: String, under epochs: MaterializedView.Epochs) -> Bool {
        self.known.withLock { $0.epochs == epochs && $0.digests.contains(digest) }
    }

    /// - Parameter seen: a time before they were looked up.
    func insert(_ digests: [String], under epochs: MaterializedView.Epochs, seen: ContinuousClock.Instant) {
        self.known.withLock { known in
            if known.epochs != epochs || known.digests.isEmpty || known.digests.count > Self.limit {
                known = Known(epochs: epochs, since: seen)
            }
            known.since = min(known.since, seen)
            known.digests.formUnion(digests)
        }
    }

    /// Starts over if any digest was seen before a given time.
    func forget(seenBefore moment: ContinuousClock.Instant) {
        self.known.withLock { known in
            if known.since < moment { known.digests = [] }
        }
    }
}

/// The time when packaging of some orders began. It is before any of their assets is looked up.
public struct PackagingStart: Hashable, Sendable {
    let epochMilliseconds: Int64

    /// The present time of this machine's clock.
    public static var now: PackagingStart {
        PackagingStart(epochMilliseconds: Int64(Date().timeIntervalSince1970 * 1000))
    }
}
