import Model
import NIOCore
import Redis
import TestKit
import TestTraits
import Testing

@testable import Store

/// One test at a time: each has its own server.
@Suite(.server, .serialized) struct OrderStoreTests {
    @Test func aWriteSucceedsOnlyAtItsExpectedRevision() async throws {
        try await StoreFixture.with { fixture in
            #expect(try await fixture.write(version("1", 1)) == .written)
            #expect(try await fixture.write(version("1", 1)) == .conflict)
            #expect(try await fixture.write(version("1", 3)) == .conflict)
            #expect(try await fixture.write(version("2", 2)) == .conflict, "nothing stands there yet")
            #expect(try await fixture.write([version("1", 2), version("2", 1)]) == [.written, .written])
            let stored = try await fixture.store.orders([key("1"), key("none"), key("2")])
            let first = try #require(try stored[0].get())
            let expected = try state("1", version: 2)
            #expect(first.state == expected)
            #expect(first.entityTag == "e1")
            #expect(first.assets == ["aa", "bb"])
            #expect(try stored[1].get() == nil)
            #expect(try stored[2].get()?.state.version == 1)
            #expect(try await fixture.store.orders([]).isEmpty)
            #expect(try await fixture.write([]).isEmpty)
        }
    }

    @Test func exactlyOneConcurrentWriteOfAVersionSucceeds() async throws {
        try await StoreFixture.with { fixture in
            let outcomes = try await withThrowingTaskGroup(of: OrderStore.WriteOutcome.self) { group in
                for _ in 0..<20 { group.addTask { try await fixture.write(version("1", 1)) } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(outcomes.count { $0 == .written } == 1)
            #expect(outcomes.count { $0 == .conflict } == 19)
        }
    }

    @Test func positionsAdvanceWithoutANewVersion() async throws {
        try await StoreFixture.with { fixture in
            _ = try await fixture.write(version("1", 1))
            let stamp = try await fixture.stamp(key("1"))
            var moved = try state("1", version: 1)
            moved.positions.advance(to: ChangePosition(partition: 3, offset: 7, timestampMilliseconds: 5))
            moved.recent.append(source: "oms", id: "a")
            let first = try #require(try await fixture.store.orders([key("1")])[0].get()).revision
            let write = OrderStore.Write(state: moved, revision: first, content: .positions)
            #expect(try await fixture.write(write) == .written)
            #expect(try await fixture.store.orders([key("1")])[0].get()?.state == moved)
            #expect(try await fixture.stamp(key("1")) == stamp, "devices have nothing new to fetch")
            // A worker that lost its partition read the order before its successor moved the positions.
            let late = OrderStore.Write(
                state: try state("1", version: 1), revision: first, content: .positions)
            #expect(try await fixture.write(late) == .conflict)
            #expect(try await fixture.store.orders([key("1")])[0].get()?.state == moved)
            #expect(
                try await fixture.write(version("1", 2, expecting: first)) == .conflict, "nor may it write a version")
            #expect(try await fixture.write(version("1", 2)) == .written)
        }
    }

    /// Redis loses a write, and another worker writes. A worker that was stalled since before the loss must not take
    /// that write for the one that it has seen.
    @Test func aRevisionIsNotReusedAfterALostWrite() async throws {
        try await StoreFixture.with { fixture in
            _ = try await fixture.write(version("1", 1))
            let kept = try await fixture.raw("DUMP", StoreKeys.order(try key("1"))).bytes
            let first = try #require(try await fixture.store.orders([key("1")])[0].get()).revision
            let positions = OrderStore.Write(
                state: try state("1", version: 1), revision: first, content: .positions)
            #expect(try await fixture.write(positions) == .written)
            let seen = try #require(try await fixture.store.orders([key("1")])[0].get()).revision
            let restored = RedisCommand(
                "RESTORE", .string(StoreKeys.order(try key("1"))), "0", .bytes(try #require(kept)), "REPLACE")
            _ = try await fixture.redis.send(restored)
            #expect(try await fixture.write(version("1", 2, expecting: first)) == .written)
            #expect(try await fixture.write(version("1", 2, expecting: seen)) == .conflict)
        }
    }

    @Test func aRemovedOrderLeavesAnExpiringTraceAndNoPackage() async throws {
        try await StoreFixture.with { fixture in
            _ = try await fixture.write(version("1", 1))
            #expect(try await fixture.write(removal("1", 2)) == .written)
            let name = StoreKeys.order(try key("1"))
            let seconds = try #require(try await fixture.raw("TTL", name).integer)
            #expect((1...OrderStore.removedSeconds).contains(seconds))
            #expect(try await fixture.raw("HEXISTS", name, "head").integer == 0, "no package bytes are kept")
            let trace = try #require(try await fixture.store.orders([key("1")])[0].get())
            #expect(trace.state.isRemoved)
            #expect(trace.state.version == 2)
            let loop = fixture.loop
            #expect(try await fixture.reader.stamp(of: key("1"), on: loop).get() == nil)
            #expect(try await fixture.reader.spans(of: key("1"), on: loop).get() == nil)
            #expect(try await fixture.reader.lookup(of: key("1"), on: loop).get().isRemoved)
            #expect(try await !fixture.reader.lookup(of: key("none"), on: loop).get().isRemoved)
            #expect(try await fixture.registrations.modified([key("1")]) == [nil])
            let gone = try #require(try await fixture.raw("TTL", StoreKeys.gone(try key("1"))).integer)
            #expect((OrderStore.removedSeconds + 1...OrderStore.goneSeconds).contains(gone))
            #expect(try await fixture.reader.isGone(key("1"), on: loop).get())
            #expect(try await !fixture.reader.isGone(key("none"), on: loop).get())

            #expect(try await fixture.write(version("1", 3)) == .written, "an order may come back")
            #expect(try await fixture.raw("TTL", name).integer == -1, "and then it does not expire")
            #expect(try await fixture.reader.stamp(of: key("1"), on: loop).get()?.version == 3)
        }
    }

    @Test func stampsIncreaseWithEachVersionEvenIfTheClockDoesNot() async throws {
        try await StoreFixture.with { fixture in
            var last: Int64 = 0
            for number in Int64(1)...50 {
                #expect(try await fixture.write(version("1", number)) == .written)
                let stamp = try #require(try await fixture.stamp(key("1")))
                #expect(stamp > last)
                last = stamp
            }
            // A clock that stands still, or was set back, looks like a stamp that lies ahead of it.
            let ahead: Int64 = 4_102_444_800_000_000
            _ = try await fixture.raw("HSET", StoreKeys.order(try key("1")), "stamp", "\(ahead)")
            _ = try await fixture.write(version("1", 51))
            #expect(try await fixture.stamp(key("1")) == ahead + 1)
            _ = try await fixture.write(removal("1", 52))
            _ = try await fixture.write(version("1", 53))
            #expect(try await fixture.stamp(key("1")) == ahead + 3, "a removal is a version as well")
        }
    }

    @Test func assetsAreWrittenOnlyIfMissing() async throws {
        try await StoreFixture.with { fixture in
            let assets: [(digest: String, entry: [UInt8])] = [("aa", [1, 2, 0]), ("bb", [255, 13, 10])]
            try await fixture.store.putAssets([])
            try await fixture.store.putAssets(assets)
            let loop = fixture.loop
            #expect(
                try await fixture.reader.assets(["bb", "aa"], of: key("o"), on: loop).get()
                    .map { Array(try $0.get().readableBytesView) } == [[255, 13, 10], [1, 2, 0]])
            try await fixture.store.putAssets([("aa", [9]), ("cc", [3])])
            #expect(try await fixture.raw("GET", StoreKeys.asset("aa")).bytes == [1, 2, 0], "what stands stays")
            _ = try await fixture.raw("DEL", StoreKeys.asset("aa"))
            let read = try await fixture.reader.assets(["bb", "aa"], of: key("o"), on: loop).get()
            #expect(try read[0].get().readableBytes == 3)
            let error = #expect(throws: StoreError.self) { try read[1].get() }
            #expect(error?.code == .corrupt)
            try await fixture.store.putAssets(assets)
            #expect(try await fixture.raw("GET", StoreKeys.asset("aa")).bytes == [1, 2, 0])
        }
    }

    @Test func aCorruptOrderDoesNotAffectOthers() async throws {
        try await StoreFixture.with { fixture in
            for order in ["1", "2", "3", "4", "5", "6"] { _ = try await fixture.write(version(order, 1)) }
            _ = try await fixture.raw("HSET", StoreKeys.order(try key("2")), "document", "{")
            _ = try await fixture.raw("HDEL", StoreKeys.order(try key("3")), "token")
            _ = try await fixture.raw("HSET", StoreKeys.order(try key("4")), "version", "x")
            _ = try await fixture.raw("SET", StoreKeys.order(try key("5")), "a string")
            let results = try await fixture.store.orders(["1", "2", "3", "4", "5", "6"].map(key))
            let codes = results.map { result -> StoreError.Code? in
                if case .failure(let error) = result { error.code } else { nil }
            }
            #expect(codes == [nil, .corrupt, .corrupt, .corrupt, .corrupt, nil])
            for order in ["3", "4", "5"] {
                await #expect(throws: StoreError.self, "order \(order)") {
                    _ = try await fixture.reader.spans(of: key(order), on: fixture.loop).get()
                }
            }
            let outcomes = try await fixture.write([version("5", 1, expecting: 1), version("6", 2)])
            guard case .refused = outcomes[0] else {
                Issue.record("a write to another type must be refused, it is \(outcomes[0])")
                return
            }
            #expect(outcomes[1] == .written)
        }
    }

    @Test func aPermissionErrorMakesAnOrderUnavailableNotCorrupt() async throws {
        try await StoreFixture.with { fixture in
            _ = try await fixture.write(version("1", 1))
            try await fixture.server.everywhere("ACL", "SETUSER", "default", "-hmget")
            let error = await #expect(throws: StoreError.self) { _ = try await fixture.store.orders([key("1")]) }
            #expect(error?.code == .unavailable)
            let reading = await #expect(throws: StoreError.self) {
                _ = try await fixture.reader.stamp(of: key("1"), on: fixture.loop).get()
            }
            #expect(reading?.code == .unavailable)
        }
    }

    @Test func storeOperationsFailWithoutRedis() async throws {
        try await StoreFixture.with { fixture in
            _ = try await fixture.write(version("1", 1))
            await fixture.server.kill()
            func code(_ body: () async throws -> Void) async -> StoreError.Code? {
                await #expect(throws: StoreError.self) { try await body() }?.code
            }
            #expect(await code { _ = try await fixture.store.orders([key("1")]) } == .unavailable)
            #expect(await code { _ = try await fixture.write(version("1", 2)) } == .unavailable)
            #expect(await code { try await fixture.store.putAssets([("aa", [1])]) } == .unavailable)
            #expect(await code { _ = try await fixture.registrations.devices(of: [key("1")]) } == .unavailable)
            #expect(
                await code { _ = try await fixture.registrations.register(registration("d", "1"), record("aa")) }
                    == .unavailable)
            await #expect(throws: RedisError.self) { _ = try await fixture.changes(DeviceIdentifier("d")) }
        }
    }
}
