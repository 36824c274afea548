import Synchronization

/// The assets that are known to stand in Redis.
///
/// They are never deleted one by one; they go with the view as a whole, and its epochs go with them and never come
/// back. So what is remembered holds for whoever finds the same epochs behind their work.
/// Bounded: beyond `limit` it begins anew.
final class PresentAssets: Sendable {
    private static let limit = 10_000

    private struct Known {
        var epochs: View.Epochs?
        var digests: Set<String> = []
    }

    private let known = Mutex(Known())

    func contains(_ digest: String, under epochs: View.Epochs) -> Bool {
        self.known.withLock { $0.epochs == epochs && $0.digests.contains(digest) }
    }

    func insert(_ digests: [String], under epochs: View.Epochs) {
        self.known.withLock { known in
            if known.epochs != epochs || known.digests.count > Self.limit { known = Known(epochs: epochs) }
            known.digests.formUnion(digests)
        }
    }
}
