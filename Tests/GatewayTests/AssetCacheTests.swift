import NIOCore
import NIOEmbedded
import TestKit
import Testing

@testable import Gateway
@testable import Store

@Suite struct AssetCacheTests {
    struct Unread: Error {}

    func entry(_ bytes: Int) -> ByteBuffer { ByteBuffer(repeating: 7, count: bytes) }

    /// Requests an asset, which is loaded if the cache does not hold it.
    func insert(_ cache: AssetCache, _ digest: String, _ bytes: Int) throws {
        let loop = EmbeddedEventLoop()
        let entries = cache.entries([digest], on: loop) { _ in loop.makeSucceededFuture([.success(self.entry(bytes))]) }
        #expect(try entries.wait() == [self.entry(bytes)])
    }

    /// Returns those of the assets that would have to be loaded. The others count as used.
    func missing(_ cache: AssetCache, _ digests: [String]) -> [String] {
        let loop = EmbeddedEventLoop()
        var missing: [String] = []
        let entries = cache.entries(digests, on: loop) {
            missing = $0
            return loop.makeFailedFuture(Unread())
        }
        if missing.isEmpty { #expect((try? entries.wait()) != nil) }
        return missing
    }

    @Test func theLeastRecentlyUsedAssetIsEvicted() throws {
        let cache = AssetCache(limit: 100)
        try self.insert(cache, "a", 40)
        try self.insert(cache, "b", 40)
        #expect(self.missing(cache, ["a"]) == [])
        try self.insert(cache, "c", 40)
        #expect(self.missing(cache, ["a", "b", "c"]) == ["b"])
        try self.insert(cache, "d", 100)
        #expect(self.missing(cache, ["a", "c", "d"]) == ["a", "c"])
    }

    @Test func anAssetLargerThanTheLimitIsNotCached() throws {
        let cache = AssetCache(limit: 100)
        try self.insert(cache, "a", 60)
        try self.insert(cache, "b", 101)
        #expect(self.missing(cache, ["a", "b"]) == ["b"])
        try self.insert(cache, "e", 0)
        try self.insert(cache, "c", 40)
        #expect(self.missing(cache, ["a", "c", "e", "none", "a"]) == ["none"])
    }

    @Test func aListIsKeptAsLongAsItsAssetsAre() throws {
        let cache = AssetCache(limit: 100)
        for digest in ["a", "b"] { try self.insert(cache, digest, 30) }
        cache.keep(list: "a b", ["a", "b"], [self.entry(30), self.entry(30)])
        cache.keep(list: "a none", ["a", "none"], [self.entry(30), self.entry(30)])
        #expect(cache.entries(list: "a b")?.map(\.readableBytes) == [30, 30], "one piece would take too much besides")
        #expect(cache.entries(list: "a none") == nil)
        try self.insert(cache, "c", 30)
        // Using a list counts as using its assets.
        #expect(cache.entries(list: "a b") != nil)
        try self.insert(cache, "d", 30)
        #expect(self.missing(cache, ["c"]) == ["c"])
        #expect(cache.entries(list: "a b") != nil)
        try self.insert(cache, "e", 90)
        #expect(cache.entries(list: "a b") == nil)
    }

    @Test func smallAssetsOfAListAreOnePieceBeforeTheCertificates() throws {
        let cache = AssetCache(limit: 1000)
        for digest in ["a", "b"] { try self.insert(cache, digest, 30) }
        try self.insert(cache, "c", 7)
        let entries = [self.entry(30), self.entry(30), self.entry(7)]
        for number in 0..<4 {
            let list = String(repeating: "a b ", count: number) + "a b c"
            cache.keep(list: list, ["a", "b", "c"], entries)
            #expect(cache.entries(list: list)?.map(\.readableBytes) == [60, 7])
        }
        cache.keep(list: "b a c", ["b", "a", "c"], entries)
        #expect(cache.entries(list: "b a c")?.map(\.readableBytes) == [30, 30, 7], "a quarter of the limit is taken")
        cache.keep(list: "c", ["c"], [self.entry(7)])
        #expect(cache.entries(list: "c")?.map(\.readableBytes) == [7])
    }

    @Test func theLeastRecentlyUsedListIsEvicted() throws {
        let cache = AssetCache(limit: 1000)
        try self.insert(cache, "a", 30)
        for number in 0..<5000 {
            cache.keep(list: "\(number)", ["a"], [self.entry(30)])
            #expect(cache.entries(list: "0") != nil)
        }
        #expect((0..<5000).count { cache.entries(list: "\($0)") != nil } == 4096)
        #expect(cache.entries(list: "4999") != nil)
        #expect(cache.entries(list: "1") == nil)
    }

    /// A plain model predicts the cached assets and lists, and their size in bytes.
    @Test func randomUseAgreesWithAPlainModel() throws {
        let seed = UInt64.random(in: 0..<1 << 32)
        var random = SeededGenerator(seed: seed)
        let limit = 1000
        let cache = AssetCache(limit: limit)
        var kept: [(digest: String, size: Int)] = []
        var lists: Set<[String]> = []
        for step in 0..<3000 {
            let digest = "\(Int.random(in: 0..<30, using: &random))"
            switch Int.random(in: 0..<3, using: &random) {
            case 0:
                let size = Int.random(in: 0...300, using: &random)
                let loop = EmbeddedEventLoop()
                var isLoaded = false
                _ = cache.entries([digest], on: loop) { _ in
                    isLoaded = true
                    return loop.makeSucceededFuture([.success(self.entry(size))])
                }
                let known = kept.first { $0.digest == digest }
                try #require(isLoaded == (known == nil), "seed \(seed), step \(step)")
                kept.removeAll { $0.digest == digest }
                kept.append((digest, known?.size ?? size))
                while kept.reduce(0, { $0 + $1.size }) > limit { kept.removeFirst() }
                lists = lists.filter { list in list.allSatisfy { name in kept.contains { $0.digest == name } } }
            case 1:
                let names = kept.shuffled(using: &random).prefix(3).map(\.digest)
                cache.keep(list: names.joined(separator: " "), names, names.map { _ in self.entry(1) })
                lists.insert(names)
            default:
                guard let names = lists.randomElement(using: &random) else { continue }
                try #require(cache.entries(list: names.joined(separator: " ")) != nil, "seed \(seed), step \(step)")
                // The order in which a list's assets count as used is unspecified, so it is fixed here.
                for name in names { #expect(self.missing(cache, [name]) == []) }
                let used = kept.filter { names.contains($0.digest) }
                kept.removeAll { names.contains($0.digest) }
                kept += names.compactMap { name in used.first { $0.digest == name } }
            }
        }
    }

    @Test func oneLoadServesAllWaitingRequests() throws {
        let cache = AssetCache(limit: 1000)
        let (first, second) = (EmbeddedEventLoop(), EmbeddedEventLoop())
        let loading = first.makePromise(of: [Result<ByteBuffer, StoreError>].self)
        var asked: [[String]] = []
        let one = cache.entries(["a", "b", "a"], on: first) {
            asked.append($0)
            return loading.futureResult
        }
        let two = cache.entries(["b", "c"], on: second) {
            asked.append($0)
            return second.makeSucceededFuture([.success(self.entry(3))])
        }
        #expect(asked == [["a", "b"], ["c"]])
        loading.succeed([.success(self.entry(1)), .success(self.entry(2))])
        #expect(try one.wait().map(\.readableBytes) == [1, 2, 1])
        #expect(try two.wait().map(\.readableBytes) == [2, 3])
        #expect(self.missing(cache, ["a", "b", "c"]) == [])
    }

    /// Orders of a shop share assets: the lack of one must not refuse the others.
    @Test func aMissingAssetFailsOnlyTheRequestsThatNeedIt() throws {
        let cache = AssetCache(limit: 1000)
        let loop = EmbeddedEventLoop()
        let loading = loop.makePromise(of: [Result<ByteBuffer, StoreError>].self)
        let damaged = cache.entries(["logo", "lost"], on: loop) { _ in loading.futureResult }
        let whole = cache.entries(["logo"], on: loop) { _ in loop.makeFailedFuture(Unread()) }
        loading.succeed([.success(self.entry(1)), .failure(StoreError(.corrupt, "reading asset lost: it is missing"))])
        #expect(try whole.wait() == [self.entry(1)])
        #expect(throws: StoreError.self) { try damaged.wait() }
        #expect(self.missing(cache, ["logo", "lost"]) == ["lost"], "what was there is kept")
    }

    @Test func aFailedLoadFailsAllWaitersAndTheNextRequestRetries() throws {
        let cache = AssetCache(limit: 1000)
        let loop = EmbeddedEventLoop()
        let loading = loop.makePromise(of: [Result<ByteBuffer, StoreError>].self)
        let one = cache.entries(["a"], on: loop) { _ in loading.futureResult }
        let two = cache.entries(["a"], on: loop) { _ in loop.makeFailedFuture(CancellationError()) }
        loading.fail(Unread())
        #expect(throws: Unread.self) { try one.wait() }
        #expect(throws: Unread.self) { try two.wait() }
        try self.insert(cache, "a", 5)
        #expect(self.missing(cache, ["a"]) == [])
        let short = cache.entries(["b"], on: loop) { _ in loop.makeSucceededFuture([]) }
        #expect(throws: (any Error).self) { try short.wait() }
    }
}
