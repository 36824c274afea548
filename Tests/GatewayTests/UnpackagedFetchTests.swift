import Foundation
import HTTPServer
import Model
import NIOCore
import NIOPosix
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Gateway

/// Fetches of versions without a package: held while a packager is asked for it.
@Suite(.server, .timeLimit(.minutes(2))) struct UnpackagedFetchTests {
    private typealias Fixture = GatewayFixture

    /// Packages an order under the version that it has, as a packager does.
    private func package(_ key: OrderKey, _ fixture: GatewayFixture) async throws {
        let store = OrderStore(redis: fixture.redis)
        let stored = try #require(try await store.orders([key])[0].get())
        let package = OrderStore.StoredPackage(
            assets: Fixture.assets.map(\.digest), head: Fixture.head, certificates: Fixture.certificates.digest,
            tail: Fixture.tail, entityTag: "made")
        let outcomes = try await store.write([
            .init(
                state: stored.state, after: stored,
                content: .requested(package, epochSeconds: 1_700_000_000))
        ])
        #expect(outcomes == [.written])
    }

    /// Takes the orders that gateways ask for, over a connection of its own, since it waits.
    private func asked(_ fixture: GatewayFixture) async throws -> [OrderKey] {
        let client = RedisClient(
            waiting: try RedisConfiguration(url: fixture.server.url),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton)
        do {
            try await client.connect()
            let asked = try await PackageRequests(redis: client).take(10)
            await client.close()
            return asked
        } catch {
            await client.close()
            throw error
        }
    }

    /// A receipt is one order's: it is read for each fetch, and one of a version that was replaced is waited for.
    @Test func aDocumentOfOneOrderIsKeptByNoGateway() async throws {
        try await Fixture.with(.init(holding: .init(time: .milliseconds(200)))) { fixture in
            try await fixture.put("1")
            let reference = OwnDocument.reference(
                "0123456789abcdef", digest: String(repeating: "a", count: 64), bytes: 7)
            let key = try Fixture.key("1")
            let store = OrderStore(redis: fixture.redis)
            let stored = try #require(try await store.orders([key])[0].get())
            let package = OrderStore.StoredPackage(
                assets: [reference] + Fixture.assets.map(\.digest), head: Fixture.head,
                certificates: Fixture.certificates.digest, tail: Fixture.tail, entityTag: "with")
            #expect(
                try await store.write([.init(state: stored.state, after: stored, content: .signature(package))])
                    == [.written])
            let place = RedisArgument.string("waybill:1:order:{\(key)}")
            for receipt in ["receipt", "another"] {
                _ = try await fixture.redis.send(
                    RedisCommand("HSET", place, .string(reference), .bytes(Array(receipt.utf8))))
                let answer = try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken)
                #expect(answer.status == 200)
                let rest = Fixture.assets.flatMap(\.entry) + Fixture.head
                #expect(answer.body.starts(with: Array(receipt.utf8) + rest))
            }
            _ = try await fixture.redis.send(RedisCommand("HDEL", place, .string(reference)))
            #expect(try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken).status == 503)
        }
    }

    @Test func aFetchIsHeldUntilAPackagerHasMadeThePackage() async throws {
        try await Fixture.with(.init(holding: .init(time: .seconds(60)))) { fixture in
            try await fixture.put("1")
            try await fixture.put("1", version: 2, isPackaged: false)
            try await fixture.connected { connection in
                try await connection.send(fixture.request("GET", fixture.package("1"), token: Fixture.ownToken))
                let asked = try await self.asked(fixture)
                #expect(asked == [try Fixture.key("1")])
                try await self.package(asked[0], fixture)
                let answer = try await connection.response()
                #expect(answer.status == 200)
                #expect(answer["etag"] == "\"made\"")
                #expect(answer.body == Fixture.package)
            }
            #expect(fixture.metricsText.contains("waybill_fetches_unpackaged_total 1\n"))
        }
    }

    @Test func aRequestThatWasLostIsRepeated() async throws {
        let holding = PackageEndpoint.Hold(time: .seconds(60), requestAgain: .milliseconds(50))
        try await Fixture.with(.init(holding: holding)) { fixture in
            try await fixture.put("1", isPackaged: false)
            try await fixture.connected { connection in
                try await connection.send(fixture.request("GET", fixture.package("1"), token: Fixture.ownToken))
                var requests: [OrderKey] = []
                while requests.count < 3 { requests += try await self.asked(fixture) }
                #expect(Set(requests) == [try Fixture.key("1")])
                try await self.package(try Fixture.key("1"), fixture)
                #expect(try await connection.response().status == 200)
            }
            #expect(fixture.metricsText.contains("waybill_fetches_unpackaged_total 1\n"))
        }
    }

    @Test func withoutPackagersTheAnswerIs503() async throws {
        try await Fixture.with(.init(holding: .init(time: .milliseconds(300)))) { fixture in
            try await fixture.put("1")
            try await fixture.put("1", version: 2, isPackaged: false)
            let answer = try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken)
            #expect(answer.status == 503)
            #expect(answer["retry-after"] == "1")
            // A client that has an older package by its tag is not told that nothing changed.
            let condition = ["If-None-Match: \"tag-1\""]
            let known = try await fixture.once("GET", fixture.package("1"), token: Fixture.ownToken, condition)
            #expect(known.status == 503)
        }
    }

    @Test func neitherAClientThatHasTheVersionNorAStrangerCausesARequest() async throws {
        try await Fixture.with { fixture in
            try await fixture.put("1", isPackaged: false)
            let key = RedisArgument.string("waybill:1:order:{\(try Fixture.key("1"))}")
            let date = "If-Modified-Since: \(HTTPDate.format(epochSeconds: 784_111_777))"
            // As it is, and cold.
            for _ in 0..<2 {
                for condition in [[date], [date, "If-None-Match: \"tag-1\""], [date, "If-None-Match: \"\""]] {
                    let known = try await fixture.once(
                        "GET", fixture.package("1"), token: Fixture.ownToken, condition)
                    #expect(known.status == 304)
                    #expect(known["etag"] == nil, "the client keeps its own")
                }
                _ = try await fixture.redis.send(RedisCommand("HSET", key, "record", "0:1:100:00000000:ended"))
                _ = try await fixture.redis.send(RedisCommand("HDEL", key, "document", "sources", "recent"))
            }
            let empty = try await fixture.once("GET", fixture.package("1"), token: "a-wrong-token-of-someone")
            #expect(empty.status == 401)
            #expect(try await self.asked(fixture).isEmpty)
        }
    }

    /// The JSON view of a cold order is held while a packager reads the order back, for who may have it.
    @Test func theViewOfAColdOrderIsHeldUntilItIsWarm() async throws {
        var options = CompatibilityTests.options
        options.holding = .init(time: .seconds(60))
        try await Fixture.with(options) { fixture in
            try await fixture.put("1", isPackaged: false)
            let key = RedisArgument.string("waybill:1:order:{\(try Fixture.key("1"))}")
            let fields: [RedisArgument] = ["document", "sources", "recent"]
            let warm = try await fixture.redis.send(RedisCommand(["HMGET", key] + fields)).array ?? []
            _ = try await fixture.redis.send(RedisCommand("HSET", key, "record", "0:1:100:00000000:ended"))
            _ = try await fixture.redis.send(RedisCommand("HDEL", key, "document", "sources", "recent"))
            let wrong = try await fixture.once(
                "GET", CompatibilityTests.path, ["Authorization: Bearer nobody-s-token-here"])
            #expect(wrong.status == 401)
            try await fixture.connected { connection in
                try await connection.send(
                    fixture.request("GET", CompatibilityTests.path, ["Authorization: Bearer \(Fixture.ownToken)"]))
                #expect(try await self.asked(fixture) == [try Fixture.key("1")], "and not for the wrong token")
                _ = try await fixture.redis.send(
                    RedisCommand(
                        "HSET", key, "document", .bytes(warm[0].bytes ?? []), "sources", .bytes(warm[1].bytes ?? []),
                        "recent", .bytes(warm[2].bytes ?? [])))
                #expect(try await connection.response().status == 200)
            }
        }
    }
}
