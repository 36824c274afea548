import NIOCore
import Synchronization

/// Assets that were read lately, by digest, bounded in bytes.
///
/// An asset never changes under its digest, so nothing here can be stale. Which one goes when room is needed: the one
/// used least lately. The orders of a shop show the same few combinations, so the lists that stand in orders are kept
/// as well and need not be taken apart for each request.
final class AssetCache: Sendable {
    /// Assets that stand together in an order.
    private struct List {
        let digests: [String]
        /// In one piece if they are small.
        let entries: [ByteBuffer]
        var used: UInt64
    }

    private struct State {
        var entries: [String: (entry: ByteBuffer, used: UInt64)] = [:]
        var bytes = 0
        var clock: UInt64 = 0
        /// Each only as long as all of its assets are in `entries`.
        var lists: [String: List] = [:]
        /// Of the lists that are kept in one piece.
        var joinedBytes = 0
    }

    /// Lists that are kept. More are found asset by asset.
    private static let listLimit = 4096
    /// Up to this size the assets of a list are kept once more in one piece: one write instead of several.
    private static let joinedSize = 64 << 10
    /// Most bytes of all that is kept so: this part of the limit, and besides it.
    private static let joinedShare = 4

    private let limit: Int
    private let state = Mutex(State())

    /// - Parameter limit: most bytes of entries that are kept.
    init(limit: Int) { self.limit = limit }

    /// The entries of a list that was kept, in order.
    ///
    /// - Parameter list: digests separated by spaces.
    func entries(list: String) -> [ByteBuffer]? {
        self.state.withLock { state in
            guard let index = state.lists.index(forKey: list) else { return nil }
            state.clock += 1
            state.lists.values[index].used = state.clock
            return state.lists.values[index].entries
        }
    }

    /// Keeps a list, if all of its assets are here.
    func keep(list: String, _ digests: [String]) {
        self.state.withLock { state in
            let entries = digests.compactMap { state.entries[$0]?.entry }
            guard entries.count == digests.count, state.lists.count < Self.listLimit else { return }
            state.lists[list] = List(digests: digests, entries: self.joined(entries, &state), used: state.clock)
        }
    }

    private func joined(_ entries: [ByteBuffer], _ state: inout State) -> [ByteBuffer] {
        let size = entries.reduce(0) { $0 + $1.readableBytes }
        guard size <= Self.joinedSize, entries.count > 1,
            state.joinedBytes + size <= self.limit / Self.joinedShare
        else { return entries }
        state.joinedBytes += size
        var joined = ByteBufferAllocator().buffer(capacity: size)
        for entry in entries { joined.writeImmutableBuffer(entry) }
        return [joined]
    }

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
            if state.bytes + entry.readableBytes > self.limit { Self.dissolveLists(&state) }
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

    /// Before assets go: their lists would keep them in memory. An asset was used when a list with it was.
    private static func dissolveLists(_ state: inout State) {
        for list in state.lists.values {
            for digest in list.digests {
                guard let index = state.entries.index(forKey: digest) else { continue }
                state.entries.values[index].used = max(state.entries.values[index].used, list.used)
            }
        }
        state.lists.removeAll(keepingCapacity: true)
        state.joinedBytes = 0
    }
}
