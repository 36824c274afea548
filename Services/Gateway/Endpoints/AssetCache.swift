import NIOCore
import Synchronization

/// Assets that were read lately, by digest, bounded in bytes.
///
/// An asset never changes under its digest, so nothing here can be stale. Which one goes when room is needed: the one
/// used least lately.
final class AssetCache: Sendable {
    private struct State {
        var entries: [String: (entry: ByteBuffer, used: UInt64)] = [:]
        var bytes = 0
        var clock: UInt64 = 0
    }

    private let limit: Int
    private let state = Mutex(State())

    /// - Parameter limit: most bytes of entries that are kept.
    init(limit: Int) { self.limit = limit }

    /// - Returns: the entries in order, or nil where one is not here.
    func entries(_ digests: [String]) -> [ByteBuffer?] {
        self.state.withLock { state in
            state.clock += 1
            return digests.map { digest in
                guard let index = state.entries.index(forKey: digest) else { return nil }
                state.entries.values[index].used = state.clock
                return state.entries.values[index].entry
            }
        }
    }

    func insert(_ digest: String, _ entry: ByteBuffer) {
        guard entry.readableBytes <= self.limit else { return }
        self.state.withLock { state in
            guard state.entries[digest] == nil else { return }
            while state.bytes + entry.readableBytes > self.limit,
                let oldest = state.entries.min(by: { $0.value.used < $1.value.used })
            {
                state.bytes -= oldest.value.entry.readableBytes
                state.entries[oldest.key] = nil
            }
            state.clock += 1
            state.entries[digest] = (entry, state.clock)
            state.bytes += entry.readableBytes
        }
    }
}
