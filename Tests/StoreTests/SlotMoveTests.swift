import Model
import NIOCore
import NIOPosix
import Redis
import TestKit
import TestTraits
import Testing

@testable import Store

/// Slots that are moved on real clusters, with and without their keys.
@Suite(.serialized, .timeLimit(.minutes(2))) struct SlotMoveTests {
    private static let tails: [String: Int64] = ["t/0": 9, "t/1": 5]

    /// Runs `body` with a cluster of three masters, a complete view whose slots are marked, and a few orders.
    private func with(
        replicas: Bool = false, _ body: (RedisCluster, StoreFixture, MaterializedView) async throws -> Void
    ) async throws {
        let cluster = try await RedisCluster.start(withReplicas: replicas)
        let redis = RedisClient(
            try RedisConfiguration(url: cluster.url), eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        let result: Result<Void, any Error>
        do {
            let view = MaterializedView(redis: redis)
            let fixture = StoreFixture(server: cluster.masters[0], redis: redis)
            _ = try await fixture.store.write((0..<20).map { try version("\($0)", 1) })
            let plan = try #require(try await view.begin("plan", seen: try await view.look()))
            #expect(try await view.complete(plan, epoch: "one", tails: Self.tails))
            #expect(try await view.markSlots(of: try await view.look()))
            result = .success(try await body(cluster, fixture, view))
        } catch {
            result = .failure(error)
        }
        await redis.close()
        await cluster.stop()
        try result.get()
    }

    private func slot(of order: String) throws -> Int { HashSlot.of(StoreKeys.order(try key(order)).utf8) }

    private func owner(of slot: Int, _ cluster: RedisCluster) -> RedisServer {
        cluster.masters[slot / ((HashSlot.count + 2) / 3)]
    }

    /// Waits until the server has been running for longer than the view was last seen complete.
    private func outlive(_ server: RedisServer, _ view: MaterializedView) async throws {
        try await eventually("an uptime of 4 s") {
            #expect(try await view.markSlots(of: try await view.look()))
            let line = try await server.command("info", "server").split(whereSeparator: \.isNewline)
                .first { $0.hasPrefix("uptime_in_seconds:") }
            return (line?.split(separator: ":").last.flatMap { Int($0) } ?? 0) >= 4
        }
    }

    /// Lets the client learn the slots, and returns the shards once one of them lacks an epoch.
    private func untilOpen(_ fixture: StoreFixture, _ view: MaterializedView) async throws -> [MaterializedView.Shard] {
        var shards: [MaterializedView.Shard] = []
        try await eventually("a shard without an epoch") {
            for number in 0..<20 { _ = try await fixture.raw("EXISTS", StoreKeys.order(try key("\(number)"))) }
            shards = try await view.look()
            return shards.contains { $0.epoch == nil }
        }
        return shards
    }

    private func confirmMoved(_ fixture: StoreFixture, _ view: MaterializedView) async throws
        -> MaterializedView.MoveVerdict
    {
        var outcome = MaterializedView.MoveVerdict.unsettled
        try await eventually("servers agree on the slots") {
            outcome = try await view.confirmMoved(try await self.untilOpen(fixture, view), epoch: "two")
            return outcome != .unsettled
        }
        return outcome
    }

    @Test func everySlotHasATagHashingToIt() {
        let tags = Array(HashSlot.tags.utf8)
        #expect(tags.count == HashSlot.count * HashSlot.tagLength)
        for slot in 0..<HashSlot.count where HashSlot.of(tags[slot * 3..<slot * 3 + 3]) != slot {
            Issue.record("\(slot)")
        }
    }

    @Test(.server) func aNewMasterWhoseSlotsMovedWithTheirKeysIsComplete() async throws {
        try await self.with { cluster, fixture, view in
            let target = try await cluster.addMaster()
            try await self.outlive(target, view)
            let first = try self.slot(of: "1")
            try await cluster.move(slot: first, from: self.owner(of: first, cluster), to: target)
            #expect(try await self.confirmMoved(fixture, view) == .moved)
            let shards = try await view.look()
            #expect(shards.count == 4)
            #expect(shards.allSatisfy { $0.epoch != nil && $0.isHere && $0.tails == Self.tails })
            let store = OrderStore(redis: fixture.redis, view: ViewEpochCache(view))
            #expect(try await store.orders((0..<20).map { try key("\($0)") }).allSatisfy { try $0.get() != nil })
            // More slots: those of a master that is complete already.
            for order in ["2", "3"] {
                let next = try self.slot(of: order)
                try await cluster.move(slot: next, from: self.owner(of: next, cluster), to: target)
            }
            try await Task.sleep(for: .milliseconds(1100))
            #expect(try await view.markSlots(of: try await view.look()))
            // It is emptied: what was moved is lost.
            try await target.command("flushall")
            #expect(try await view.confirmMoved(try await view.look(), epoch: "three") == .refused)
            await target.stop()
        }
    }

    @Test(.server) func aNewMasterThatLostItsKeysIsNotComplete() async throws {
        try await self.with { cluster, fixture, view in
            let target = try await cluster.addMaster()
            try await self.outlive(target, view)
            let first = try self.slot(of: "1")
            try await cluster.move(slot: first, from: self.owner(of: first, cluster), to: target)
            try await target.command("flushall")
            #expect(try await self.confirmMoved(fixture, view) == .refused)
            await target.stop()
        }
    }

    @Test(.server) func aViewIsCompleteAgainAfterAnAnchorsSlotMoves() async throws {
        try await self.with { cluster, fixture, view in
            let hashTag = try #require(try await view.look()[0].hashTag)
            let slot = HashSlot.of(hashTag.utf8)
            let source = self.owner(of: slot, cluster)
            let target = try #require(cluster.masters.first { $0.port != source.port })
            try await cluster.move(slot: slot, from: source, to: target)
            // The client follows a redirection immediately, and reads the slots of all masters a little later.
            try await eventually("complete") {
                _ = try await fixture.raw("GET", StoreKeys.epoch(hashTag))
                let shards = try await view.look()
                if shards.allSatisfy({ $0.epoch != nil && $0.isHere }) {
                    let master = try await fixture.redis.topology().master(of: StoreKeys.epoch(hashTag))
                    return master?.description.hasSuffix(":\(target.port)") == true
                }
                #expect(try await view.confirmMoved(shards, epoch: "two") != .refused)
                return false
            }
            #expect(try await view.look().allSatisfy { $0.tails == Self.tails })
            try await source.command("flushall")
            #expect(try await view.confirmMoved(try await view.look(), epoch: "three") == .refused)
        }
    }

    @Test(.server) func slotsMovedWithoutTheirKeysAreDetected() async throws {
        try await self.with { cluster, fixture, view in
            let slot = try self.slot(of: "1")
            let source = self.owner(of: slot, cluster)
            let target = try #require(cluster.masters.first { $0.port != source.port })
            // The owner of a slot deletes its keys when it learns that another master has it.
            let name = try await source.command("cluster", "myid")
            try await target.command("cluster", "setslot", "\(slot)", "importing", name)
            try await target.command("cluster", "setslot", "\(slot)", "node", target.command("cluster", "myid"))
            try await eventually("another master has the slot") {
                try await fixture.raw("EXISTS", StoreKeys.order(try key("1"))).integer == 0
            }
            try await eventually("the loss is noticed") {
                let shards = try await view.look()
                if shards.contains(where: { $0.epoch == nil }) { return true }
                _ = try await view.markSlots(of: shards)
                return false
            }
            #expect(try await view.confirmMoved(try await view.look(), epoch: "two") == .refused)
        }
    }

    @Test(.server) func slotMarksAreRefreshedOnFullMasters() async throws {
        try await self.with { cluster, _, view in
            for master in cluster.masters { try await master.command("config", "set", "maxmemory", "1") }
            // The marks are refreshed after a second.
            try await Task.sleep(for: .milliseconds(1100))
            let shards = try await view.look()
            #expect(try await view.markSlots(of: shards))
            #expect(try await view.look() == shards)
            let ages = try await view.slotMarks(of: shards).compactMap(\.markedMillisecondsAgo)
            #expect(ages.count == 3 && ages.allSatisfy { $0 < 1000 }, "\(ages)")
        }
    }

    @Test(.server) func aPromotedReplicaIsNotAdoptedAsComplete() async throws {
        try await self.with(replicas: true) { cluster, fixture, view in
            let before = try await view.slotMarks(of: try await view.look())
            #expect(before.allSatisfy { $0.isFirst && $0.marks == $0.history && $0.unmarked == 0 })
            #expect(MaterializedView.judge(before, open: [0]) == .moved, "only the epoch is missing")
            let replica = cluster.replicas[0]
            try await replica.command("cluster", "failover")
            try await replica.until("role:master", in: "info", "replication")
            var shards: [MaterializedView.Shard] = []
            try await eventually("another server answers") {
                for number in 0..<20 { _ = try? await fixture.raw("EXISTS", StoreKeys.order(try key("\(number)"))) }
                guard let seen = try? await view.look() else { return false }
                shards = seen
                return seen.contains { !$0.isHere }
            }
            let after = try await view.slotMarks(of: shards)
            #expect(after.filter { !$0.isFirst }.count == 1)
            #expect(try await view.confirmMoved(shards, epoch: "two") == .refused)
        }
    }

    @Test func aPlaceIsAdoptedOnlyIfTheMastersInItsMarksAreUnchanged() {
        typealias Marks = MaterializedView.SlotMarks
        let one = Marks(slots: "0-5000", history: "a", marks: "a", markedMillisecondsAgo: 500)
        let two = Marks(slots: "5001-9999,12000-16383", history: "b", marks: "a,b", markedMillisecondsAgo: 700)
        let new = Marks(slots: "10000-11999", history: "c", marks: "b", isFirst: true, uptimeSeconds: 3)
        func judge(_ new: Marks, _ two: Marks = two, open: [Int] = [2]) -> MaterializedView.MoveVerdict {
            MaterializedView.judge([one, two, new], open: open)
        }
        func with(_ marks: Marks, _ change: (inout Marks) -> Void) -> Marks {
            var marks = marks
            change(&marks)
            return marks
        }
        #expect(judge(new) == .moved)
        #expect(judge(new, open: [1, 2]) == .moved)
        #expect(judge(with(new) { $0.unmarked = 1 }) == .refused, "keys of a slot are lost")
        #expect(judge(with(new) { $0.marks = "b,d" }) == .refused, "a master that gave slots is another one now")
        #expect(judge(with(new) { $0.uptimeSeconds = 2 }) == .refused, "it may have had more before it was started")
        #expect(judge(with(new) { $0.isFirst = false }) == .refused, "a replica took over")
        #expect(
            judge(
                with(new) {
                    $0.marks = "b,c"
                    $0.isFirst = false
                }) == .moved, "it was complete itself")
        #expect(judge(new, with(two) { $0.history = "e" }) == .refused)
        #expect(judge(with(new) { $0.history = "" }) == .refused)
        #expect(judge(with(new) { $0.marks = "" }) == .unsettled)
        #expect(judge(with(new) { $0.slots = "10000-11998" }) == .unsettled, "nobody has a slot")
        #expect(judge(with(new) { $0.slots = "5000-5000,10000-11999" }) == .unsettled, "two have a slot")
        #expect(judge(with(new) { $0.slots = "10000-99999" }) == .refused)
        let old = Marks(slots: "0-9999,12000-16383", history: "a", marks: "a", markedMillisecondsAgo: 60_001)
        let lasting = with(new) { ($0.marks, $0.uptimeSeconds) = ("a", 999) }
        #expect(MaterializedView.judge([old, lasting], open: [1]) == .refused, "too long ago")
        #expect(MaterializedView.judge([with(old) { $0.markedMillisecondsAgo = nil }, lasting], open: [1]) == .refused)
    }
}
