import Model
import Redis
import TestKit
import TestTraits
import Testing

@testable import Store

/// A Redis whose `maxmemory` is reached and that evicts nothing.
@Suite(.server) struct FullStoreTests {
    private func package(_ length: Int) -> OrderStore.StoredPackage {
        OrderStore.StoredPackage(
            assets: ["aa"], head: [UInt8](repeating: 7, count: length), certificates: "certificates", tail: [1],
            entityTag: "e\(length)")
    }

    private func version(_ order: String, _ number: Int64, _ length: Int) throws -> OrderStore.Write {
        OrderStore.Write(
            state: try state(order, version: number), revision: number - 1,
            content: .version(self.package(length)))
    }

    private func isFull(_ outcome: OrderStore.WriteOutcome) -> Bool {
        if case .refused(let message) = outcome { message.hasPrefix("OOM") } else { false }
    }

    /// No asset is written here, so only the script is refused.
    @Test func aFullRedisRefusesOnlyWritesThatGrowAnOrder() async throws {
        try await StoreFixture.with { fixture in
            for order in ["grows", "shrinks", "same", "goes", "moves"] {
                #expect(try await fixture.write(self.version(order, 1, 5000)) == .written)
            }
            try await fixture.server.everywhere("CONFIG", "SET", "maxmemory", "1")
            let outcomes = try await fixture.write([
                try self.version("new", 1, 5000), try self.version("grows", 2, 5001),
                try self.version("shrinks", 2, 4000), try self.version("same", 2, 5000), try removal("goes", 2),
                OrderStore.Write(state: try state("moves", version: 1), revision: 1, content: .positions),
            ])
            #expect(self.isFull(outcomes[0]))
            #expect(self.isFull(outcomes[1]))
            #expect(outcomes[2...] == [.written, .written, .written, .written])
            #expect(fixture.redis.memoryRefusals >= 2)
            let read = try await fixture.store.orders(["new", "grows", "shrinks", "goes"].map(key))
            #expect(try read[0].get() == nil)
            #expect(try read[1].get()?.entityTag == "e5000")
            #expect(try read[1].get()?.state.version == 1)
            #expect(try read[2].get()?.entityTag == "e4000")
            #expect(try read[2].get()?.state.version == 2)
            #expect(try read[3].get()?.state.isRemoved == true)
            #expect(try await fixture.raw("TTL", StoreKeys.order(try key("goes"))).integer ?? 0 > 0)
            // The trace of a removal does not grow into an order again either.
            #expect(self.isFull(try await fixture.write(self.version("goes", 3, 5000))))
            #expect(try await fixture.raw("TTL", StoreKeys.order(try key("goes"))).integer ?? 0 > 0)

            try await fixture.server.everywhere("CONFIG", "SET", "maxmemory", "0")
            let later = try await fixture.write([
                try self.version("new", 1, 5000), try self.version("grows", 2, 5001), try self.version("goes", 3, 5000),
            ])
            #expect(later == [.written, .written, .written])
            #expect(try await fixture.raw("TTL", StoreKeys.order(try key("goes"))).integer == -1)
            #expect(try await fixture.raw("HGET", StoreKeys.order(try key("goes")), "removed").isNull)
        }
    }

    @Test func anUnannouncedOrderStaysUnannouncedWhenWritten() async throws {
        try await StoreFixture.with { fixture in
            for order in ["a", "b"] {
                _ = try await fixture.write(
                    OrderStore.Write(
                        state: try state(order, version: 1),
                        content: .unpublishedVersion(self.package(5000))))
            }
            #expect(try await fixture.write(self.version("a", 2, 6000)) == .written)
            try await fixture.server.everywhere("CONFIG", "SET", "maxmemory", "1")
            #expect(try await fixture.write(self.version("b", 2, 1000)) == .written)
            #expect(try await fixture.write(removal("b", 3)) == .written)
            for result in try await fixture.store.orders([key("a"), key("b")]) {
                #expect(try result.get()?.unpublished == "1")
            }
        }
    }

    @Test func restoringANewOrderFailsWhileRedisIsFull() async throws {
        try await StoreFixture.with { fixture in
            _ = try await fixture.store.restore([.version(try state("1", version: 3), content: "c1")])
            try await fixture.server.everywhere("CONFIG", "SET", "maxmemory", "1")
            let error = await #expect(throws: StoreError.self) {
                _ = try await fixture.store.restore([.version(try state("2", version: 1), content: "c1")])
            }
            #expect(error?.code == .unavailable)
            #expect(error?.message.contains("OOM") == true)
            #expect(try await fixture.store.restore([.version(try state("1", version: 4), content: nil)]).written == 1)
            let removed = OrderStore.Restored.removed(try state("1", version: 5, isRemoved: true))
            #expect(try await fixture.store.restore([removed]).written == 1)
            try await fixture.server.everywhere("CONFIG", "SET", "maxmemory", "0")
            #expect(try await fixture.store.restore([.version(try state("2", version: 1), content: "c1")]).written == 1)
        }
    }

    /// Otherwise a gateway would answer 503 until there is room.
    @Test func aFullRedisCanBeConfirmedAsComplete() async throws {
        try await StoreFixture.with { fixture in
            try await fixture.redis.completeView()
            try await fixture.server.everywhere("CONFIG", "SET", "maxmemory", "1")
            let view = MaterializedView(redis: fixture.redis)
            let seen = try await view.look().map {
                MaterializedView.Shard(
                    hashTag: $0.hashTag, epoch: $0.epoch, isHere: false, plan: nil, history: $0.history, tails: $0.tails
                )
            }
            try await view.confirm(seen, epoch: "again")
            let shards = try await view.look()
            #expect(shards.allSatisfy { $0.epoch?.hasPrefix("again") == true })
            #expect(shards.allSatisfy { $0.isHere })
        }
    }
}
