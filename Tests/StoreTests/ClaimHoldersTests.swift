import Redis
import TestKit
import TestTraits
import Testing

@testable import Store

/// The holders of merchants' claims, which all replicas share.
@Suite(.server, .timeLimit(.minutes(2))) struct ClaimHoldersTests {
    @Test func theFirstWriterHoldsAClaimUntilItReleasesIt() async throws {
        try await StoreFixture.with { fixture in
            let holders = ClaimHolders(redis: fixture.redis)
            #expect(try await holders.settle().isEmpty)
            #expect(try await holders.settle(taken: ["a": "zeta", "b": "zeta"]) == ["a": "zeta", "b": "zeta"])
            #expect(try await holders.settle(taken: ["a": "acme", "c": "acme"])["a"] == "zeta")
            #expect(try await holders.settle(released: ["a": "acme"])["a"] == "zeta", "of another")
            let settled = try await holders.settle(taken: ["a": "acme"], released: ["a": "zeta"])
            #expect(settled == ["a": "acme", "b": "zeta", "c": "acme"])
            _ = try await fixture.raw("SET", StoreKeys.claims, "damaged")
            await #expect(throws: StoreError.self) { try await holders.settle() }
        }
    }

    @Test func thereAreAtMostAHundredThousand() async throws {
        try await StoreFixture.with(isAlone: true) { fixture in
            // The answers are large.
            let redis = try fixture.server.client()
            let holders = ClaimHolders(redis: redis)
            let fill = """
                for i = 1, \(ClaimHolders.limit - 1) do redis.call('HSET', KEYS[1], 'claim:' .. i, 'm') end return 1
                """
            _ = try await redis.send(RedisCommand("EVAL", .string(fill), "1", .string(StoreKeys.claims)))
            let full = try await holders.settle(taken: ["x": "m"])
            #expect(full.count == Int(ClaimHolders.limit))
            #expect(full["x"] == "m")
            #expect(try await holders.settle(taken: ["y": "m"])["y"] == nil)
            #expect(try await holders.settle(taken: ["y": "m"], released: ["x": "m"])["y"] == "m")
            await redis.close()
        }
    }
}
