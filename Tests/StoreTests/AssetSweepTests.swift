import Model
import NIOCore
import NIOPosix
import Redis
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Store

@Suite struct AssetMarksTests {
    @Test func insertedDigestsAreFoundWithFewFalsePositives() {
        var marks = AssetMarks(salt: 7)
        for number in 0..<50_000 { marks.insert("digest-\(number)") }
        #expect((0..<50_000).allSatisfy { marks.contains("digest-\($0)") })
        #expect((0..<50_000).count { marks.contains("other-\($0)") } < 50)
        #expect(!AssetMarks(salt: 8).contains("digest-1"))
    }
}

@Suite(.server, .timeLimit(.minutes(2))) struct AssetSweepTests {
    /// Short times, with nothing that the clock forbids.
    private var timing: AssetTiming {
        var timing = AssetTiming()
        timing.grace = .milliseconds(1)
        return timing
    }

    private func write(_ order: String, _ assets: [String], after revision: Int64 = 0) throws -> OrderStore.Write {
        OrderStore.Write(
            state: try state(order, version: revision + 1), revision: revision,
            content: .version(
                OrderStore.StoredPackage(
                    assets: assets, head: [1], certificates: "certificates", tail: [2], entityTag: "e\(revision)")))
    }

    private func stands(_ fixture: StoreFixture, _ digest: String) async throws -> Bool {
        try await fixture.raw("EXISTS", StoreKeys.asset(digest)).integer == 1
    }

    /// Waits until the marks of the previous scan are old enough, then scans.
    private func sweep(_ fixture: StoreFixture, _ sweep: AssetSweep) async throws -> AssetSweep.Counts {
        try await Task.sleep(for: .milliseconds(5))
        return try await sweep.run {}
    }

    @Test func anUnreferencedAssetIsDeletedByTheSecondScan() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.redis.completeView()
            try await fixture.store.putAssets([("aa", [1, 2]), ("bb", [3]), ("cc", [4, 5, 6])])
            #expect(try await fixture.write(self.write("1", ["aa", "bb"])) == .written)
            // A removed order names nothing.
            #expect(try await fixture.write(self.write("2", ["cc"])) == .written)
            #expect(try await fixture.write(removal("2", 2)) == .written)
            let sweep = AssetSweep(ViewEpochCache(MaterializedView(redis: fixture.redis)), timing: self.timing)
            let first = try await self.sweep(fixture, sweep)
            #expect(first.orders == 2)
            #expect(first.assets == 3)
            #expect(first.bytes == 6)
            #expect(first.unused == 1)
            #expect(first.swept == 0)
            let second = try await self.sweep(fixture, sweep)
            #expect(second.assets == 2)
            #expect(second.unused == 0)
            #expect(second.swept == 1)
            #expect(second.sweptBytes == 3)
            for digest in ["aa", "bb"] { #expect(try await self.stands(fixture, digest)) }
            #expect(try await !self.stands(fixture, "cc"))
        }
    }

    @Test func thePackageOfAnOldVersionIsDroppedUnlessItWasAskedFor() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.redis.completeView()
            try await fixture.store.putAssets([("aa", [1, 2]), ("certificates", [3])])
            let now = try #require(try await fixture.raw("TIME").array?[0].integer)
            let package = OrderStore.StoredPackage(
                assets: ["aa"], head: [1], certificates: "certificates", tail: [2], entityTag: "e", signer: "s",
                content: "c")
            for (order, age, asked) in [
                ("new", 3600, 30 * 86_400), ("old", 8 * 86_400, 8 * 86_400), ("asked", 8 * 86_400, 60),
            ] {
                var state = try state(order, version: 1)
                state.modifiedEpochSeconds = now - Int64(age)
                #expect(
                    try await fixture.write(.init(state: state, content: .version(package)))
                        == .written)
                let key = StoreKeys.order(try key(order))
                try await fixture.raw("HSET", key, OrderField.requested.rawValue, "\(now - Int64(asked))")
            }
            let view = ViewEpochCache(MaterializedView(redis: fixture.redis))
            #expect(try await AssetSweep(view, timing: self.timing).run {}.dropped == 0)
            let sweep = AssetSweep(view, timing: self.timing, cooling: Cooling(after: .seconds(7 * 86_400)))
            #expect(try await sweep.run {}.dropped == 1)
            #expect(try await sweep.run {}.dropped == 0)
            let orders = try await fixture.store.orders(["new", "old", "asked"].map(key)).map { try $0.get() }
            #expect(orders.map { $0?.isPackaged } == [true, false, true])
            #expect(orders.map { $0?.content } == ["c", "c", "c"], "what devices have of it stays known")
            let spans = try await fixture.reader.spans(of: try key("old"), on: fixture.loop).get()
            #expect(spans?.stamp.isPackaged == false)
        }
    }

    @Test func anAssetLookedUpBetweenScansIsKept() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.redis.completeView()
            let sweep = AssetSweep(ViewEpochCache(MaterializedView(redis: fixture.redis)), timing: self.timing)
            let pictures = Pictures(redis: fixture.redis)
            let url = PictureKey(orderType: try OrderTypeIdentifier(orderType), url: "https://h/p.png")
            var record = PictureRecord()
            record.content = .init(name: "p", contentDigest: "c", asset: "bb", checksum: 1, size: 1)
            try await pictures.save(record, for: url)
            try await fixture.store.putAssets([("aa", [1]), ("bb", [2])])
            for _ in 0..<3 {
                _ = try await self.sweep(fixture, sweep)
                // The first asset is used by a packager, the second by a picture lookup.
                try await fixture.store.putAssets([("aa", [1])])
                #expect(try await pictures.records([url])[0]?.content != nil)
            }
            for digest in ["aa", "bb"] { #expect(try await self.stands(fixture, digest)) }
            _ = try await self.sweep(fixture, sweep)
            _ = try await self.sweep(fixture, sweep)
            #expect(try await pictures.records([url])[0]?.content == nil, "it is fetched again")
        }
    }

    /// The server may have forgotten that a mark was removed.
    @Test func marksFromBeforeAServerRestartAreIgnored() async throws {
        let server = try await RedisServer.start(["--appendonly", "yes"])
        let redis = RedisClient(
            try RedisConfiguration(url: server.url), eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        let fixture = StoreFixture(server: server, redis: redis)
        try await redis.completeView()
        try await fixture.store.putAssets([("aa", [1])])
        let sweep = AssetSweep(ViewEpochCache(MaterializedView(redis: redis)), timing: self.timing)
        #expect(try await self.sweep(fixture, sweep).unused == 1)
        await server.kill()
        try await server.restart()
        await #expect(throws: (any Error).self, "nobody has judged the view") {
            while true { _ = try await self.sweep(fixture, sweep) }
        }
        try await redis.completeView()
        let again = AssetSweep(ViewEpochCache(MaterializedView(redis: redis)), timing: self.timing)
        #expect(try await self.sweep(fixture, again).unused == 1)
        #expect(try await self.stands(fixture, "aa"))
        #expect(try await self.sweep(fixture, again).swept == 1)
        await redis.close()
        await server.stop()
    }

    @Test func aFullServerIsSweptDespiteDamagedKeys() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.redis.completeView()
            try await fixture.store.putAssets([("aa", [1])])
            _ = try await fixture.raw("RPUSH", StoreKeys.asset("list"), "x")
            _ = try await fixture.raw("SET", StoreKeys.order(try key("string")), "x")
            try await fixture.server.everywhere("CONFIG", "SET", "maxmemory", "1")
            let sweep = AssetSweep(ViewEpochCache(MaterializedView(redis: fixture.redis)), timing: self.timing)
            _ = try await self.sweep(fixture, sweep)
            #expect(try await self.sweep(fixture, sweep).swept == 1)
        }
    }

    @Test func aSweepIsClaimedByOneOwnerAndOnlyWhenDue() async throws {
        try await StoreFixture.with { fixture in
            let sweep = AssetSweep(ViewEpochCache(MaterializedView(redis: fixture.redis)))
            func claim(_ owner: String, lease: Duration = .seconds(60), period: Duration = .zero) async throws -> Bool {
                try await sweep.claim(by: owner, lease: lease, period: period)
            }
            #expect(try await !claim("a"), "the first one is due after a period")
            #expect(try await claim("a"))
            #expect(try await !claim("b"))
            #expect(try await claim("a", lease: .zero), "renewed")
            #expect(try await claim("b"))
            try await sweep.end(by: "a", period: .zero)
            #expect(try await !claim("a"), "the end of somebody else's sweep is none")
            try await sweep.end(by: "b", period: .seconds(60))
            #expect(try await !claim("a"))
            #expect(try await !claim("b"))
        }
    }

    @Test func aWriteThatBeganTooLongAgoIsRefused() async throws {
        try await StoreFixture.with { fixture in
            var store = fixture.store
            store.timing.write = .milliseconds(20)
            let begun = PackagingStart.now
            try await Task.sleep(for: .milliseconds(50))
            let writes = [
                try self.write("1", ["aa"]),
                OrderStore.Write(state: try state("2", version: 1), content: .removal),
            ]
            let outcomes = try await store.write(writes, begun: begun)
            guard case .refused(let reason) = outcomes[0] else {
                Issue.record("an order of long ago is written")
                return
            }
            #expect(reason.contains("too long ago"))
            #expect(outcomes[1] == .written, "a removal names no assets")
        }
    }
}

/// Packagers, sweepers and restarts at the same time: every order that exists can be served.
@Suite(.server, .timeLimit(.minutes(2))) struct AssetSweepPropertyTests {
    private static let digests = (0..<48).map { "d\($0)" }
    private static let orders = 6

    /// The counts of all tasks together.
    private final class Tally: Sendable {
        private let counts = Mutex((written: 0, late: 0, swept: 0, missing: [String]()))
        var value: (written: Int, late: Int, swept: Int, missing: [String]) { self.counts.withLock { $0 } }
        func wrote() { self.counts.withLock { $0.written += 1 } }
        func refused() { self.counts.withLock { $0.late += 1 } }
        func swept(_ count: Int) { self.counts.withLock { $0.swept += count } }
        func misses(_ what: String) { self.counts.withLock { $0.missing.append(what) } }
    }

    private static func timing() -> AssetTiming {
        var timing = AssetTiming()
        timing.memory = .milliseconds(200)
        timing.write = .milliseconds(400)
        timing.grace = .milliseconds(800)
        return timing
    }

    /// Works as a packager that remembers what it has seen, and that sometimes pauses in the middle of its work.
    private static func package(_ redis: RedisClient, seed: UInt64, _ tally: Tally) async throws {
        var random = SeededGenerator(seed: seed)
        let watch = ViewEpochCache(MaterializedView(redis: redis))
        var store = OrderStore(redis: redis, view: watch)
        store.timing = Self.timing()
        while !Task.isCancelled {
            do {
                let order = "o\(Int.random(in: 0..<Self.orders, using: &random))"
                let begun = PackagingStart.now
                let epochs = try await watch.known()
                let standing = try await store.orders([key(order)])[0].get()
                let assets = Self.digests.shuffled(using: &random).prefix(3).sorted()
                let refused = try await store.putEachAsset(assets.map { ($0, Array($0.utf8)) }, under: epochs)
                guard refused.isEmpty else { continue }
                if Int.random(in: 0..<20, using: &random) == 0 { try await Task.sleep(for: .seconds(2)) }
                let write = OrderStore.Write(
                    state: try state(order, version: (standing?.state.version ?? 0) + 1),
                    revision: standing?.revision ?? 0,
                    content: .version(
                        .init(assets: assets, head: [1], certificates: "certificates", tail: [2], entityTag: "e")))
                switch try await store.write([write], begun: begun)[0] {
                case .written: tally.wrote()
                case .refused: tally.refused()
                case .conflict: break
                }
                // A packager mostly waits, so that assets fall out of use.
                try await Task.sleep(for: .milliseconds(Int.random(in: 0...60, using: &random)))
            } catch {
                try Task.checkCancellation()
                try await Task.sleep(for: .milliseconds(5))
            }
        }
    }

    private static func sweep(_ redis: RedisClient, _ tally: Tally) async throws {
        let sweep = AssetSweep(ViewEpochCache(MaterializedView(redis: redis)), timing: Self.timing())
        while !Task.isCancelled {
            do {
                tally.swept(try await sweep.run {}.swept)
                try await Task.sleep(for: .milliseconds(20))
            } catch {
                try Task.checkCancellation()
                try await Task.sleep(for: .milliseconds(5))
            }
        }
    }

    /// Reads as the gateway does.
    private static func look(_ fixture: StoreFixture, _ tally: Tally) async throws {
        for number in 0..<Self.orders {
            let order = try key("o\(number)")
            guard let before = try await fixture.store.orders([order])[0].get() else { continue }
            var missing: [String] = []
            for digest in before.assets where try await fixture.raw("EXISTS", StoreKeys.asset(digest)).integer != 1 {
                missing.append(digest)
            }
            guard !missing.isEmpty else { continue }
            // An order that has changed meanwhile named them before.
            let after = try await fixture.store.orders([order])[0].get()
            if after?.revision == before.revision { tally.misses("\(order): \(missing)") }
        }
    }

    @Test(arguments: [1]) func noOrderReferencesASweptAsset(_ seed: UInt64) async throws {
        let server = try await RedisServer.start(["--appendonly", "yes"])
        let redis = RedisClient(
            try RedisConfiguration(url: server.url), eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        let fixture = StoreFixture(server: server, redis: redis)
        try await redis.completeView()
        let tally = Tally()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for packager in 0..<UInt64(3) {
                group.addTask { try await Self.package(redis, seed: seed * 10 + packager, tally) }
            }
            for _ in 0..<2 { group.addTask { try await Self.sweep(redis, tally) } }
            for round in 0..<3 {
                let before = tally.value
                let end = ContinuousClock.now + .seconds(30)
                while tally.value.swept < before.swept + 3 || tally.value.written < before.written + 5,
                    ContinuousClock.now < end
                {
                    try await Self.look(fixture, tally)
                    try await Task.sleep(for: .milliseconds(20))
                }
                guard round < 2 else { break }
                await server.kill()
                try await server.restart()
                try await self.untilItAnswers(redis)
                try await redis.completeView()
            }
            group.cancelAll()
            while await group.nextResult() != nil {}
        }
        try await Self.look(fixture, tally)
        let value = tally.value
        #expect(value.missing.isEmpty)
        #expect(value.swept >= 9)
        #expect(value.written >= 15)
        await redis.close()
        await server.stop()
    }

    private func untilItAnswers(_ redis: RedisClient) async throws {
        let end = ContinuousClock.now + .seconds(30)
        while (try? await redis.send(RedisCommand("PING"))) == nil {
            try #require(ContinuousClock.now < end, "Redis does not come back")
        }
    }
}
