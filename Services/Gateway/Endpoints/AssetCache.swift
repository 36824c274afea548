import NIOCore
import Store
import Synchronization

/// Recently read assets, by digest, bounded in bytes.
///
/// An asset never changes under its digest, so nothing here can be stale. When room is needed, the least recently used
/// asset is removed. The orders of a shop use the same few combinations, so the asset lists of orders are kept as well
/// and need not be parsed for each request. A missing asset is loaded once for all that wait for it; one that cannot be
/// loaded fails the requests that need it, and no others.
final class AssetCache: Sendable {
    fileprivate struct Asset {
        let entry: ByteBuffer
        /// The places of the lists that contain it. They keep its bytes in memory, so they are removed with it.
        var lists: Set<Int> = []
    }

    /// The assets of an order, and its certificates, which are kept like an asset.
    fileprivate struct List {
        /// As a single buffer if they are small, except for the last one: what follows the others is the order's own.
        var entries: [ByteBuffer]
        /// Bytes of that buffer, in addition to the assets.
        var joinedBytes: Int
        let assets: [Int]
        /// The number of assets that had been inserted when the list's assets were last counted as used.
        var insertions: Int
    }

    fileprivate struct State {
        var assets = RecencyMap<String, Asset>()
        var bytes = 0
        var lists = RecencyMap<String, List>()
        /// Bytes of the lists that are kept as single buffers.
        var joinedBytes = 0
        /// The number of assets ever inserted.
        var insertions = 0
        /// Callers that wait for an asset that is being loaded.
        var loads: [String: [EventLoopPromise<ByteBuffer>]] = [:]
    }

    /// The most lists kept.
    private static let listLimit = 4096
    /// The size in bytes up to which the assets of a list are also kept as a single buffer: one write instead of
    /// several.
    private static let joinedSize = 64 << 10
    /// The divisor of the limit that gives the most bytes of all these buffers, in addition to the limit.
    private static let joinedShare = 4

    /// Loading returned fewer entries than there are digests.
    private struct Incomplete: Error, CustomStringConvertible {
        let digest: String
        var description: String { "reading asset \(self.digest): no answer" }
    }

    private let limit: Int
    private let state = Mutex(State())

    /// - Parameter limit: most bytes of entries.
    init(limit: Int) { self.limit = limit }

    /// Returns the entries of a list that was kept, in order.
    ///
    /// - Parameter list: digests separated by spaces.
    func entries(list: String) -> [ByteBuffer]? {
        self.state.withLock { state -> [ByteBuffer]? in
            guard let place = state.lists.place(of: list) else { return nil }
            state.lists.touch(place)
            // Between two insertions nothing is removed, so it is enough to count an asset as used once.
            if state.lists[place]?.insertions != state.insertions { state.useAssets(ofListAt: place) }
            return state.lists[place]?.entries
        }
    }

    /// Returns the entries of assets, in order. Missing ones are loaded, or awaited if they are already being loaded.
    ///
    /// - Parameter load: returns one entry per digest, in order, or its failure, which is passed to those that wait for
    ///   this one. The failure of the whole is passed to all that wait.
    func entries(
        _ digests: [String], on eventLoop: any EventLoop,
        load: ([String]) -> EventLoopFuture<[Result<ByteBuffer, StoreError>]>
    ) -> EventLoopFuture<[ByteBuffer]> {
        var missing: [String] = []
        let futures = self.state.withLock { state in
            digests.map { digest in
                if let entry = state.use(digest) { return eventLoop.makeSucceededFuture(entry) }
                let promise = eventLoop.makePromise(of: ByteBuffer.self)
                if state.loads[digest] == nil { missing.append(digest) }
                state.loads[digest, default: []].append(promise)
                return promise.futureResult
            }
        }
        if !missing.isEmpty {
            load(missing).whenComplete { [missing] result in self.loaded(missing, result) }
        }
        return EventLoopFuture.whenAllSucceed(futures, on: eventLoop)
    }

    private func loaded(_ digests: [String], _ result: Result<[Result<ByteBuffer, StoreError>], any Error>) {
        for (index, digest) in digests.enumerated() {
            let entry = result.flatMap { entries -> Result<ByteBuffer, any Error> in
                guard index < entries.count else {
                    return .failure(Incomplete(digest: digest))
                }
                return entries[index].mapError { $0 }
            }
            let waiting = self.state.withLock { state in
                if case .success(let entry) = entry { state.insert(digest, entry, limit: self.limit) }
                return state.loads.removeValue(forKey: digest) ?? []
            }
            for promise in waiting { promise.completeWith(entry) }
        }
    }

    /// Keeps a list, if all of its assets are here.
    ///
    /// - Parameter entries: those of the digests, in order.
    func keep(list: String, _ digests: [String], _ entries: [ByteBuffer]) {
        let joined = Self.joined(entries.dropLast())
        self.state.withLock { state in
            let assets = digests.compactMap { state.assets.place(of: $0) }
            guard assets.count == digests.count, state.lists.place(of: list) == nil else { return }
            if state.lists.count >= Self.listLimit, let oldest = state.lists.oldestPlace { state.dropList(oldest) }
            var kept = List(entries: entries, joinedBytes: 0, assets: assets, insertions: state.insertions)
            if let joined, state.joinedBytes + joined.readableBytes <= self.limit / Self.joinedShare {
                kept.entries = [joined] + entries.suffix(1)
                kept.joinedBytes = joined.readableBytes
            }
            state.joinedBytes += kept.joinedBytes
            let place = state.lists.insert(kept, for: list)
            for asset in assets { state.assets[asset]?.lists.insert(place) }
        }
    }

    /// Joins the entries into a single buffer; nil if they are large or empty, or there is only one.
    private static func joined(_ entries: ArraySlice<ByteBuffer>) -> ByteBuffer? {
        let size = entries.reduce(0) { $0 + $1.readableBytes }
        guard 0 < size, size <= Self.joinedSize, entries.count > 1 else { return nil }
        var joined = ByteBufferAllocator().buffer(capacity: size)
        for entry in entries { joined.writeImmutableBuffer(entry) }
        return joined
    }
}

extension AssetCache.State {
    /// Returns an entry and marks it as used.
    fileprivate mutating func use(_ digest: String) -> ByteBuffer? {
        guard let place = self.assets.place(of: digest) else { return nil }
        self.assets.touch(place)
        return self.assets[place]?.entry
    }

    fileprivate mutating func useAssets(ofListAt place: Int) {
        for asset in self.lists[place]?.assets ?? [] { self.assets.touch(asset) }
        self.lists[place]?.insertions = self.insertions
    }

    fileprivate mutating func insert(_ digest: String, _ entry: ByteBuffer, limit: Int) {
        guard entry.readableBytes <= limit, self.assets.place(of: digest) == nil else { return }
        while self.bytes + entry.readableBytes > limit, let oldest = self.assets.oldestPlace { self.dropAsset(oldest) }
        self.assets.insert(AssetCache.Asset(entry: entry), for: digest)
        self.bytes += entry.readableBytes
        self.insertions += 1
    }

    private mutating func dropAsset(_ place: Int) {
        guard let asset = self.assets.remove(place) else { return }
        self.bytes -= asset.entry.readableBytes
        for list in asset.lists { self.dropList(list) }
    }

    fileprivate mutating func dropList(_ place: Int) {
        guard let list = self.lists.remove(place) else { return }
        self.joinedBytes -= list.joinedBytes
        for asset in list.assets { self.assets[asset]?.lists.remove(place) }
    }
}
