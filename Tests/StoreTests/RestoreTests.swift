import Model
import NIOCore
import Redis
import TestKit
import TestTraits
import Testing

@testable import Store

/// Jobs and their leases, and the restoring of lost data.
@Suite(.server, .serialized, .timeLimit(.minutes(2))) struct RestoreTests {
    typealias Job = RestoreJobQueue.Job

    @Test func aJobHasOneOwnerUntilItsLeaseExpires() async throws {
        try await StoreFixture.with { fixture in
            let queue = RestoreJobQueue(MaterializedView(redis: fixture.redis))
            let job = Job(name: "waybill.orders/0", from: 5, to: 9)
            try await queue.note([job], of: "p")
            try await queue.note([Job(name: "waybill.orders/1", from: 0, to: 1)], of: "p")
            #expect(try await queue.jobs(of: "p") == [job], "noted once")
            #expect(try await queue.jobs(of: "q") == nil)
            #expect(try await queue.claim(of: "p", by: "a", lease: .seconds(60)) == .job(job))
            #expect(try await queue.claim(of: "p", by: "b", lease: .seconds(60)) == .wait)
            #expect(try await queue.claim(of: "q", by: "b", lease: .seconds(60)) == .over)
            var moved = job
            moved.done = 2
            #expect(try await queue.keep(moved, of: "p", by: "a", lease: .milliseconds(100)))
            let deadline = ContinuousClock.now + .seconds(20)
            var taken = RestoreJobQueue.Claim.wait
            while taken == .wait, ContinuousClock.now < deadline {
                taken = try await queue.claim(of: "p", by: "b", lease: .seconds(60))
                try await Task.sleep(for: .milliseconds(5))
            }
            #expect(taken == .job(moved), "gone on with where it was noted")
            #expect(try await !queue.keep(moved, of: "p", by: "a", lease: .seconds(60)), "lost")
            moved.done = 4
            moved.isDone = true
            #expect(try await queue.keep(moved, of: "p", by: "b", lease: .seconds(60)))
            #expect(try await queue.claim(of: "p", by: "a", lease: .seconds(60)) == .allDone)
            #expect(try await queue.jobs(of: "p")?.allSatisfy(\.isDone) == true)
            try await queue.note([Job(name: "waybill.orders/0", from: 0, to: 2)], of: "q")
            #expect(try await queue.claim(of: "p", by: "a", lease: .seconds(60)) == .over)
            try await queue.forget("q")
            #expect(try await queue.jobs(of: "q") == nil)
        }
    }

    @Test func aTypeAndAnotherClusterHaveJobsOfTheirOwn() async throws {
        try await StoreFixture.with { fixture in
            let view = MaterializedView(redis: fixture.redis)
            let (whole, own) = (RestoreJobQueue(view), RestoreJobQueue(view, of: try OrderTypeIdentifier(orderType)))
            let jobs = [Job(name: "waybill.orders/0", from: 0, to: 9), Job(name: "waybill.orders/1", from: 0, to: 9)]
            try await whole.note(jobs, of: "p")
            try await own.note([jobs[0]], of: "q")
            #expect(try await whole.jobs(of: "p").map(Set.init) == Set(jobs))
            #expect(try await own.jobs(of: "q") == [jobs[0]])
            let moved = RestoreJobQueue(view, in: "another cluster")
            #expect(try await moved.jobs(of: "p") == nil, "offsets of one cluster are none of another")
        }
    }

    @Test func aReturnedJobIsClaimedAgainWithItsProgress() async throws {
        try await StoreFixture.with { fixture in
            let queue = RestoreJobQueue(MaterializedView(redis: fixture.redis))
            var job = Job(name: "t/0", from: 0, to: 9)
            try await queue.note([job], of: "p")
            _ = try await queue.claim(of: "p", by: "a", lease: .seconds(60))
            job.done = 4
            try await queue.giveBack(job, of: "p", by: "a", pause: .zero)
            #expect(try await queue.claim(of: "p", by: "b", lease: .seconds(60)) == .job(job))
        }
    }

    @Test func theLeastAdvancedJobIsClaimedAfterThePreferredTopic() async throws {
        try await StoreFixture.with { fixture in
            let queue = RestoreJobQueue(MaterializedView(redis: fixture.redis))
            let names = ["o/0", "o/1", "r/0"]
            try await queue.note(names.map { Job(name: $0, from: 0, to: 10_000) }, of: "p")
            var taken: [String] = []
            func claim() async throws -> RestoreJobQueue.Claim {
                try await queue.claim(of: "p", by: "a", lease: .seconds(60), first: "o")
            }
            for round in 1...4 {
                guard case .job(var job) = try await claim() else { break }
                taken.append(job.name)
                job.done += 5000
                job.isDone = round > 2
                if round == 4 { #expect(try await claim() == .wait, "one of the orders is still in work") }
                if job.isDone {
                    #expect(try await queue.keep(job, of: "p", by: "a", lease: .seconds(60)))
                } else {
                    try await queue.giveBack(job, of: "p", by: "a", pause: .zero)
                }
            }
            #expect(Set(taken.prefix(2)) == ["o/0", "o/1"])
            #expect(Set(taken.suffix(2)) == ["o/0", "o/1"])
            #expect(try await claim() == .job(Job(name: "r/0", from: 0, to: 10_000)))
        }
    }

    @Test func restoreNeverReplacesANewerVersion() async throws {
        try await StoreFixture.with { fixture in
            let store = fixture.store
            #expect(try await store.restore([.version(try state("1", version: 3), content: "c1")]).written == 1)
            let stored = try #require(try await store.orders([try key("1")])[0].get())
            #expect(stored.state == (try state("1", version: 3)))
            #expect(stored.content == "c1")
            #expect(!stored.isPackaged, "its package is made when it is asked for")
            for number in [Int64(2), 3] {
                let older = OrderStore.Restored.version(try state("1", version: number), content: "c1")
                #expect(try await store.restore([older]).written == 0)
            }
            #expect(try await store.restore([.version(try state("1", version: 4), content: "c1")]).written == 1)
            var other = try state("1", version: 4)
            other.modifiedEpochSeconds += 5
            let later = try await store.restore([.version(other, content: "c1")])
            #expect(later.written == 1, "of two of one version the later")
            #expect(
                try await store.storedVersions([try key("1"), try key("2")]) == [
                    .init(
                        version: 4, modifiedEpochSeconds: other.modifiedEpochSeconds, isRemoved: false, record: nil,
                        isWhole: true),
                    nil,
                ])
        }
    }

    /// As after a fall-back: no part of the version before is left, so that it is never served for the restored one.
    @Test(arguments: [nil, "c2"])
    func aRestoredVersionDropsThePackageOfTheOneBefore(_ content: String?) async throws {
        try await StoreFixture.with { fixture in
            _ = try await fixture.write(try version("1", 1))
            #expect(try await fixture.store.orders([try key("1")])[0].get()?.isPackaged == true)
            let next = OrderStore.Restored.version(try state("1", version: 2), content: content)
            #expect(try await fixture.store.restore([next]).written == 1)
            let stored = try #require(try await fixture.store.orders([try key("1")])[0].get())
            #expect(!stored.isPackaged && stored.shared.isEmpty && stored.signer.isEmpty)
            #expect(stored.contentIfKnown == content)
            #expect(stored.isPublished)
        }
    }

    @Test func aWriteWithARevisionFromBeforeTheLossConflicts() async throws {
        try await StoreFixture.with { fixture in
            for number in 1...3 { _ = try await fixture.write(try version("1", Int64(number))) }
            let read = try #require(try await fixture.store.orders([try key("1")])[0].get())
            try await fixture.raw("FLUSHALL")
            _ = try await fixture.store.restore([.version(try state("1", version: 3), content: "c1")])
            let restored = try #require(try await fixture.store.orders([try key("1")])[0].get())
            #expect(restored.revision > 1_000_000_000_000_000)
            #expect(try await fixture.write(try version("1", 4, expecting: read.revision)) == .conflict)
            #expect(try await fixture.write(try version("1", 4, expecting: restored.revision)) == .written)
        }
    }

    @Test func aTagIssuedBeforeADataLossHidesNoRestoredOrder() async throws {
        try await StoreFixture.with { fixture in
            let key = try registration("d", "1")
            _ = try await fixture.registrations.register(key, try record("aa"))
            _ = try await fixture.write(try version("1", 1))
            let tag = try #require(try await fixture.changes(key.device)).tag
            try await fixture.raw("FLUSHALL")
            try await fixture.registrations.restore([
                .init(key: key, registration: try record("aa"), stamp: .init(offset: 1, epochMilliseconds: 1))
            ])
            // A server whose clock is an hour behind the lost server's.
            var ahead = try state("1", version: 2)
            ahead.modifiedEpochSeconds = 3600 + (try #require(try await fixture.raw("TIME").array?[0].integer))
            _ = try await fixture.store.restore([.version(ahead, content: "c1")])
            #expect(try await fixture.changes(key.device, tag)?.orders == [key.order.order])
            #expect(try #require(try await fixture.stamp(key.order)) > ahead.modifiedEpochSeconds * 1_000_000)
        }
    }

    @Test func aRemovedOrderStaysRemoved() async throws {
        try await StoreFixture.with { fixture in
            _ = try await fixture.store.restore([.version(try state("1", version: 3), content: "c1")])
            let gone = try state("1", version: 4, isRemoved: true)
            #expect(try await fixture.store.restore([.removed(gone)]).written == 1)
            #expect(try await fixture.store.orders([try key("1")])[0].get()?.state == gone)
            #expect(try await fixture.store.restore([.version(try state("1", version: 3), content: "c1")]).written == 0)
            let expiry = try await fixture.raw("TTL", StoreKeys.order(try key("1"))).integer ?? 0
            #expect(expiry > 0)
            // Without its trace, only the time decides.
            let modified = try state("2", version: 3).modifiedEpochSeconds
            _ = try await fixture.store.restore([.version(try state("2", version: 3), content: "c1")])
            #expect(
                try await fixture.store.restore([.forgotten(try key("2"), epochMilliseconds: modified * 1000 - 1)])
                    .written == 0
            )
            #expect(
                try await fixture.store.restore([.forgotten(try key("2"), epochMilliseconds: modified * 1000)]).written
                    == 1)
            #expect(try await fixture.store.orders([try key("2")])[0].get() == nil)
            // A partition is read backwards: records from before the order was forgotten arrive later.
            #expect(try await fixture.store.restore([.version(try state("2", version: 3), content: "c1")]).written == 0)
            var again = try state("2", version: 4)
            again.modifiedEpochSeconds += 1
            #expect(try await fixture.store.restore([.version(again, content: "c1")]).written == 1)
        }
    }

    /// Waiting changes are part of their order's entry: no gateway sees them, and an order that is restored ends them.
    @Test func aRestoredOrderEndsWhatWaitedForIt() async throws {
        try await StoreFixture.with { fixture in
            let order = try key("1")
            func wait(_ changes: [UInt8], removed: OrderState? = nil, after revision: Int64) async throws {
                let write = OrderStore.Write(
                    waiting: changes, for: order, removed: removed, expectedRevision: revision)
                #expect(try await fixture.store.write([write]) == [.written])
            }
            func entry() async throws -> OrderStore.Entry {
                try #require(try await fixture.store.entries([order]).first).get()
            }
            try await wait([1], after: 0)
            #expect(try await entry().waiting == [1])
            #expect(try await fixture.store.orders([order])[0].get() == nil)
            #expect(try await fixture.store.storedVersions([order]) == [nil])
            let seen = try await fixture.reader.lookup(of: order, on: fixture.loop).get()
            #expect(seen.stamp == nil)
            #expect(!seen.isRemoved)
            #expect(try await fixture.store.restore([.version(try state("1", version: 3), content: "c1")]).written == 1)
            #expect(try await entry().waiting.isEmpty)
            #expect(try await fixture.raw("TTL", StoreKeys.order(order)).integer == -1)
            // A removed order keeps its trace while changes wait.
            let gone = try state("1", version: 4, isRemoved: true)
            #expect(try await fixture.store.restore([.removed(gone)]).written == 1)
            try await wait([2], removed: gone, after: try await entry().revision)
            #expect(try await entry().waiting == [2])
            #expect(try await entry().order?.state == gone)
            try await wait([], removed: gone, after: try await entry().revision)
            #expect(try await entry().order?.state == gone)
            #expect(try await entry().waiting.isEmpty)
        }
    }

    @Test func registrationsAreRestoredUnlessNewerOnesExist() async throws {
        try await StoreFixture.with { fixture in
            let registrations = fixture.registrations
            let now: Int64 = 1_741_190_531_000
            func item(
                _ device: String, _ token: String?, offset: Int64, at moment: Int64 = now
            ) throws -> Registrations.Restored {
                .init(
                    key: try registration(device, "1"), registration: try token.map { try record($0, at: moment) },
                    stamp: .init(offset: offset, epochMilliseconds: moment))
            }
            let all = [try item("a", "aa", offset: 1), try item("b", nil, offset: 2), try item("c", "cc", offset: 3)]
            #expect(try await registrations.stand(all) == [false, true, false])
            try await registrations.restore(all)
            #expect(try await registrations.stand(all) == [true, true, true])
            func tokens() async throws -> [String] {
                try await registrations.devices(of: [try key("1")])[0].map(\.registration.pushToken.rawValue).sorted()
            }
            #expect(try await tokens() == ["aa", "cc"])
            try await registrations.restore([try item("a", "00", offset: 0), try item("c", nil, offset: 2)])
            #expect(try await tokens() == ["aa", "cc"], "older")
            #expect(
                try await registrations.stand([try item("a", "00", offset: 0), try item("a", "11", offset: 5)]) == [
                    true, false,
                ])
            try await registrations.restore([try item("a", "11", offset: 5), try item("c", nil, offset: 6)])
            #expect(try await tokens() == ["11"])
            let orders = try await registrations.orders(of: try DeviceIdentifier("c"), type: try .init(orderType))
            #expect(orders.isEmpty)
        }
    }
}
