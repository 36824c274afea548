import Model
import NIOCore
import Redis
import TestKit
import TestTraits
import Testing

@testable import Store

@Suite(.server) struct PackageRequestsTests {
    @Test func theOldestRequestsAreTakenFirstAndEachOnce() async throws {
        try await StoreFixture.with { fixture in
            let requests = PackageRequests(redis: fixture.redis)
            for (order, time) in [("b", 2), ("a", 1), ("c", 3), ("a", 9)] as [(String, Int64)] {
                try await requests.add(try key(order), epochMilliseconds: time, on: fixture.loop).get()
            }
            #expect(try await requests.take(2) == [try key("a"), try key("b")])
            #expect(try await requests.take(2) == [try key("c")])
            #expect(try await requests.take(2).isEmpty)
        }
    }

    @Test func aCrowdOfOneBrandLetsOthersPass() async throws {
        try await StoreFixture.with { fixture in
            let requests = PackageRequests(redis: fixture.redis)
            for others in 0..<50 {
                try await requests.add(try key("crowd-\(others)"), behind: others * 100, on: fixture.loop).get()
            }
            try await requests.add(try key("other"), on: fixture.loop).get()
            #expect(try await requests.take(51).firstIndex(of: try key("other")).map { $0 < 25 } == true)
        }
    }

    @Test func someoneWhoWaitsGetsTheNextRequest() async throws {
        try await StoreFixture.with { fixture in
            let requests = PackageRequests(redis: fixture.redis)
            let own = RedisClient(
                waiting: try RedisConfiguration(url: fixture.server.url), eventLoopGroup: fixture.loop)
            async let taken = Self.takeSome(PackageRequests(redis: own))
            try await eventually("the command that waits") {
                try await fixture.raw("CLIENT", "LIST").text?.contains("cmd=bzpopmin") == true
            }
            try await requests.add(try key("a"), epochMilliseconds: 1, on: fixture.loop).get()
            #expect(try await taken == [try key("a")])
            await own.close()
        }
    }

    /// Waits again if a busy machine takes longer than one wait.
    private static func takeSome(_ requests: PackageRequests) async throws -> [OrderKey] {
        while true {
            let taken = try await requests.take(10)
            if !taken.isEmpty { return taken }
        }
    }

    @Test func theOldestOfTooManyAreForgotten() async throws {
        try await StoreFixture.with(isAlone: true) { fixture in
            let requests = PackageRequests(redis: fixture.redis)
            try await fixture.raw(
                "EVAL",
                "for i = 1, \(PackageRequests.limit) do redis.call('ZADD', KEYS[1], i, '\(orderType)/' .. i) end",
                "1", StoreKeys.packageRequests)
            try await requests.add(try key("new"), epochMilliseconds: 1 << 40, on: fixture.loop).get()
            #expect(try await fixture.raw("ZCARD", StoreKeys.packageRequests).integer == PackageRequests.limit)
            #expect(try await requests.take(1) == [try key("2")])
        }
    }
}
