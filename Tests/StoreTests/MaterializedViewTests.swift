import Model
import NIOCore
import Redis
import TestKit
import TestTraits
import Testing

@testable import Store

/// The completeness of the view, and the rules for declaring it complete.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct MaterializedViewTests {
    private func complete(_ view: MaterializedView, _ epoch: String = "one", tails: [String: Int64] = [:]) async throws
    {
        let plan = try #require(try await view.begin("plan", seen: try await view.look()))
        #expect(try await view.complete(plan, epoch: epoch, tails: tails))
    }

    @Test func anEmptyServerIsIncompleteUntilItIsRestored() async throws {
        try await StoreFixture.with { fixture in
            let view = MaterializedView(redis: fixture.redis)
            let empty = try await view.look()[0]
            #expect(empty.epoch == nil)
            #expect(empty.plan == nil)
            #expect(empty.tails.isEmpty)
            let plan = try await view.begin("a", seen: [empty])
            #expect(plan == "a")
            #expect(try await view.begin("b", seen: try await view.look()) == "a", "the first plan holds")
            #expect(try await !view.complete("b", epoch: "x", tails: [:]), "another plan completes nothing")
            #expect(try await view.complete("a", epoch: "x", tails: ["waybill.orders/0": 7]))
            let seen = try await view.look()[0]
            #expect(seen.epoch?.hasPrefix("x:") == true)
            #expect(seen.isHere)
            #expect(seen.plan == nil)
            #expect(seen.tails == ["waybill.orders/0": 7])
            #expect(try await view.begin("c", seen: [empty]) == nil, "who looked before it was complete is late")
            #expect(try await !view.complete("a", epoch: "y", tails: [:]))
        }
    }

    @Test func aServerIsFreshOnlyDuringARestoreBegunWithoutOrders() async throws {
        try await StoreFixture.with { fixture in
            let view = MaterializedView(redis: fixture.redis)
            // Enough that each master of a cluster has some.
            let orders = try (0..<40).map { OrderStore.Restored.version(try state("\($0)", version: 3), content: nil) }
            func fresh() async throws -> Set<Bool> { Set(try await view.look().map(\.startedEmpty)) }
            try await fixture.raw("SET", "waybill:anything", "else")
            _ = try await view.begin("a", seen: try await view.look())
            #expect(try await fresh() == [true])
            _ = try await fixture.store.restore(orders)
            #expect(try await fresh() == [true], "what was restored since does not matter")
            #expect(try await view.begin("b", seen: try await view.look()) == "a")
            #expect(try await fresh() == [true])
            #expect(try await view.complete("a", epoch: "x", tails: [:]))
            #expect(try await fresh() == [false])
            // Another restore finds orders.
            for shard in try await view.look() { try await fixture.raw("DEL", StoreKeys.epoch(shard.hashTag)) }
            _ = try await view.begin("c", seen: try await view.look())
            #expect(try await fresh() == [false])
            // An interrupted restore leaves some of them behind.
            try await fixture.raw("FLUSHALL")
            _ = try await view.begin("d", seen: try await view.look())
            _ = try await fixture.store.restore(orders)
            for shard in try await view.look() {
                let plan = "d:0123456789abcdef0123456789abcdef01234567"
                try await fixture.raw("SET", StoreKeys.plan(shard.hashTag), plan)
            }
            #expect(try await fresh() == [false])
            _ = try await view.begin("e", seen: try await view.look())
            #expect(try await fresh() == [false])
        }
    }

    @Test func aServerThatHidesItsReplicationHistoryIsDetected() async throws {
        // One server: on a cluster the ACL would be set on any master, not on that of the shard.
        try await StoreFixture.with(isAlone: true) { fixture in
            let view = MaterializedView(redis: fixture.redis)
            #expect(try await !view.look()[0].hidesHistory)
            try await fixture.raw("ACL", "SETUSER", "default", "-info")
            #expect(try await view.look()[0].hidesHistory)
        }
    }

    @Test func aFlushDuringARestoreLeavesTheViewIncomplete() async throws {
        try await StoreFixture.with { fixture in
            let view = MaterializedView(redis: fixture.redis)
            _ = try await view.begin("a", seen: try await view.look())
            try await fixture.raw("FLUSHALL")
            #expect(try await !view.complete("a", epoch: "x", tails: [:]))
            #expect(try await view.look()[0].epoch == nil)
        }
    }

    @Test func aServerWithANewHistoryIsUntrustedUntilConfirmed() async throws {
        try await StoreFixture.with { fixture in
            let view = MaterializedView(redis: fixture.redis)
            try await self.complete(view)
            let before = try await view.look()
            // A replica that is seen for the first time is a new history as well; this needs no second server.
            let shard = StoreKeys.epoch(before[0].hashTag)
            try await fixture.raw("SET", shard, "one:0123456789abcdef0123456789abcdef01234567")
            let doubted = try await view.look()
            #expect(doubted[0].epoch != nil)
            #expect(!doubted[0].isHere)
            let replies = try await fixture.redis.pipeline(view.epochCommands)
            #expect(try MaterializedView.epochs(replies) == nil)
            try await view.keep(tails: ["t/0": 9], in: doubted)
            #expect(try await view.look()[0].tails.isEmpty, "nothing is certain of a view in doubt")
            try await view.confirm(doubted, epoch: "two")
            let confirmed = try await view.look()[0]
            #expect(confirmed.isHere)
            #expect(confirmed.epoch?.hasPrefix("two:") == true)
            try await view.confirm(doubted, epoch: "three")
            #expect(try await view.look()[0].epoch == confirmed.epoch, "judged once")
            try await view.keep(tails: ["t/0": 9], in: before)
            #expect(try await view.look()[0].tails.isEmpty, "taken under another epoch")
            try await view.keep(tails: ["t/0": 9], in: [confirmed])
            #expect(try await view.look()[0].tails == ["t/0": 9])
        }
    }

    @Test func aReadOfAnIncompleteViewFailsAndReportsIt() async throws {
        try await StoreFixture.with { fixture in
            let view = MaterializedView(redis: fixture.redis)
            let (doubts, doubt) = AsyncStream.makeStream(of: Void.self)
            let watch = ViewEpochCache(view) { doubt.yield() }
            let store = OrderStore(redis: fixture.redis, view: watch)
            let order = try key("1")
            func code() async -> StoreError.Code? {
                do throws(StoreError) {
                    _ = try await store.orders([order])
                    return nil
                } catch {
                    return error.code
                }
            }
            #expect(await code() == .incomplete)
            for await _ in doubts { break }
            try await self.complete(view)
            #expect(await code() == nil)
            let epochs = try await watch.known()
            try await watch.confirm(epochs)
            try await fixture.raw("FLUSHALL")
            #expect(await code() == .incomplete)
            try await self.complete(view, "two")
            await #expect(throws: StoreError.self) { try await watch.confirm(epochs) }
            #expect(await code() == nil, "a new epoch is learnt")
        }
    }

    @Test func cachedEpochsAreForgottenWhenTheServerRestarts() async throws {
        try await StoreFixture.with { fixture in
            let view = MaterializedView(redis: fixture.redis)
            try await self.complete(view)
            let watch = ViewEpochCache(view)
            _ = try await watch.known()
            let generation = fixture.redis.generation
            await fixture.server.kill()
            try await fixture.server.restart()
            let deadline = ContinuousClock.now + .seconds(20)
            while fixture.redis.generation == generation {
                _ = try? await fixture.raw("PING")
                try #require(ContinuousClock.now < deadline)
            }
            while true {
                let error = await #expect(throws: StoreError.self) { _ = try await watch.known() }
                guard error?.code == .unavailable, ContinuousClock.now < deadline else {
                    #expect(error?.code == .incomplete)
                    break
                }
            }
        }
    }

    @Test func aMissingOrderIsUnknownOnlyInACompleteView() async throws {
        try await StoreFixture.with { fixture in
            let view = MaterializedView(redis: fixture.redis)
            // Until the masters of a cluster are known, no read has a check.
            try await view.awaitShards()
            func standing() async throws -> PackageReader.LookupResult {
                try await fixture.reader.lookup(of: try key("1"), on: fixture.loop).get()
            }
            #expect(try await !standing().isComplete)
            try await self.complete(view)
            #expect(try await standing() == .init(isComplete: true, stamp: nil))
            _ = try await fixture.write(try version("1", 1))
            #expect(try await standing().stamp?.version == 1)
        }
    }
}
