import Kafka
import Model
import Operations
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// A full Redis delays orders that grow, and nothing else.
@Suite(.server) struct FullRedisTests {
    private func reason(_ outcome: KeyedWork.Outcome) -> String {
        if case .later(let reason) = outcome { reason } else { "" }
    }

    /// The assets exist beforehand, so that only the refusal of the order itself explains the wait.
    @Test func aFullRedisDelaysNewOrdersButNotRemovals() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            let long: [(String, JSON)] = [
                ("orderNumber", .string(String((0..<900).map { _ in "abcdefgh".randomElement() ?? "a" })))
            ]
            try await processor.process([
                log.change("order.replaced", "shrinks", ChangeLog.document(extra: long), id: "s"),
                log.change("order.replaced", "goes", ChangeLog.document(), id: "g"),
            ])
            try await fixture.server.everywhere("CONFIG", "SET", "maxmemory", "1")
            let works = KeyedWork.each(of: [
                log.change("order.replaced", "new", ChangeLog.document()),
                log.change("order.patched", "shrinks", ["orderNumber": "1"], id: "t"),
                log.change("order.removed", "goes", nil, id: "h"),
            ])
            let outcomes = await processor.process(works)
            #expect(self.reason(outcomes[0]).contains("OOM"))
            #expect(outcomes[1...] == [.done, .done])
            #expect(try await fixture.state("new") == nil)
            #expect(try await fixture.state("shrinks")?.version.ordinal == 2)
            #expect(try await fixture.state("goes")?.isRemoved == true)

            try await fixture.server.everywhere("CONFIG", "SET", "maxmemory", "0")
            #expect(await processor.process([works[0]]) == [.done])
            #expect(try await fixture.state("new")?.version.ordinal == 1)
            #expect(try await fixture.count(fixture.topics.deadLetters) == 0)
        }
    }

    /// A batch in which one order needs a new asset: the others do not wait for it.
    @Test func aRefusedAssetDelaysNoRemoval() async throws {
        try await PackagerFixture.run { fixture in
            var log = ChangeLog()
            let processor = try fixture.processor()
            let plain = ChangeLog.document(extra: [("lineItems", .array([]))])
            try await processor.process([log.change("order.replaced", "goes", plain)])
            for digest in try await fixture.stored("goes")?.assets ?? [] {
                _ = try await fixture.redis.send(RedisCommand("DEL", .string("waybill:1:asset:{\(digest)}")))
            }
            try await fixture.server.everywhere("CONFIG", "SET", "maxmemory", "1")
            let outcomes = await processor.process(
                KeyedWork.each(of: [
                    log.change("order.replaced", "new", ChangeLog.document()), log.change("order.removed", "goes", nil),
                ]))
            #expect(self.reason(outcomes[0]).contains("asset"))
            #expect(outcomes[1] == .done)
        }
    }
}
