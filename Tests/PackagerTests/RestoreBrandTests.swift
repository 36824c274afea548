import Foundation
import Glibc
import Kafka
import Model
import NIOCore
import NIOPosix
import Operations
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Restoring orders whose brand is missing.
@Suite(.server, .timeLimit(.minutes(4))) struct RestoreBrandTests {
    private static let second = "order.com.example.second"

    private func publish(_ fleet: Fleet, _ type: String, _ orders: [String]) async throws {
        try await self.send(fleet, type, orders) {
            ChangeLog.event("order.replaced", subject: $0, id: $0, ChangeLog.document($1))
        }
    }

    private func changed(_ fleet: Fleet, _ type: String, _ orders: [String], _ status: String) async throws {
        try await self.send(fleet, type, orders) { key, _ in
            ChangeLog.event(
                "order.patched", subject: key, id: "\(status) \(key)", ["statusDescription": .string(status)])
        }
    }

    private func send(
        _ fleet: Fleet, _ type: String, _ orders: [String], _ event: (_ key: String, _ name: String) -> [UInt8]
    ) async throws {
        let messages = orders.map { name in
            KafkaMessage(
                topic: fleet.topics.orderChanges, key: Array("\(type)/\(name)".utf8),
                value: event("\(type)/\(name)", name), headers: [ChangeLog.contentType])
        }
        for outcome in await fleet.producer.produce(messages) { _ = try outcome.get() }
    }

    private func standing(_ fleet: Fleet, _ keys: [OrderKey]) async throws -> Int {
        try await OrderStore(redis: fleet.redis).storedVersions(keys).compactMap(\.self).count
    }

    /// Returns the types that the view awaits; nil while it is not complete.
    private func awaited(_ fleet: Fleet) async throws -> Set<OrderTypeIdentifier>? {
        let shards = try await MaterializedView(redis: fleet.redis).look()
        guard ViewStatus(shards) == .complete else { return nil }
        return shards.reduce(into: []) { $0.formUnion($1.awaited) }
    }

    private func versions(_ fleet: Fleet, _ keys: [OrderKey]) async throws -> [Int64] {
        try await OrderStore(redis: fleet.redis).storedVersions(keys).compactMap { $0?.version.ordinal }
    }

    /// The second brand, which can be broken and mended.
    private struct Second {
        let folder: String
        let certificates: DevelopmentCertificates
        let fleet: Fleet

        init(_ fleet: Fleet) throws {
            self.fleet = fleet
            self.folder = fleet.directory.path("brands/second")
            self.certificates = try DevelopmentCertificates.copy(
                to: fleet.directory.path("second-certificates"), orderType: RestoreBrandTests.second)
            try self.mend()
        }

        func mend() throws {
            try DevelopmentBrand.make(
                in: self.folder, orderType: RestoreBrandTests.second, certificates: self.certificates)
        }
        func damage() throws { try self.fleet.directory.write("brands/second/certificate.pem", "none") }
    }

    private static let quickly = ["WAYBILL_BRANDS_RELOAD_SECONDS": "1"]

    @Test func aBrandThatFailsToLoadDelaysOnlyItsOwnOrders() async throws {
        try await Fleet.run { fleet in
            let second = try Second(fleet)
            let names = (0..<8).map { "o\($0)" }
            let ours = try names.map(ChangeLog.key)
            let theirs = try names.map { try OrderKey("\(Self.second)/\($0)") }
            try await fleet.working([try fleet.member()]) {
                try await self.publish(fleet, BrandFixture.orderType, names)
                try await self.publish(fleet, Self.second, names)
                try await fleet.settle()
            }
            let before = try await fleet.content(ours + theirs, [])
            #expect(before.states.count == 16)
            // An order of a brand that was removed long ago.
            let stranger = OrderRecord(try #require(before.states[ours[0]]), package: .init(assets: [], entityTag: "e"))
            _ = try await fleet.producer.produce(
                KafkaMessage(
                    topic: fleet.topics.orders, key: Array("order.com.example.gone/o1".utf8), value: stranger.encoded))
            let published = try await fleet.admin.endOffsets(fleet.topics.orders).values.reduce(0, +)

            _ = try await fleet.redis.send(RedisCommand("FLUSHALL"))
            try second.damage()
            // Two packagers that never had the brand.
            let members = try (0..<2).map { _ in try fleet.member(Self.quickly) }
            @Sendable func read() -> Int64 {
                members.reduce(0) { $0 + $1.metrics.counter("waybill_restore_records_total") }
            }
            try await fleet.working(members) {
                let type = try OrderTypeIdentifier(Self.second)
                try await eventually("complete but for the brand") { try await self.awaited(fleet) == [type] }
                #expect(try await self.standing(fleet, ours) == 8)
                #expect(try await self.standing(fleet, theirs) == 0)
                try await eventually("it is said which brand is waited for") {
                    members.allSatisfy {
                        $0.isReady && $0.metrics.gauge("waybill_restore_waiting") == 1
                            && $0.environment.readiness.remarks.contains { $0.contains(Self.second) }
                    }
                }
                // An order that is missing does not exist, unless it is of that brand.
                let reader = PackageReader(redis: fleet.redis)
                let loop = MultiThreadedEventLoopGroup.singleton.next()
                for _ in 0..<2 {
                    #expect(try await reader.lookup(of: ChangeLog.key("never"), on: loop).get().isComplete)
                    #expect(try await !reader.lookup(of: theirs[0], on: loop).get().isComplete)
                }
                // Changes of all others are packaged, those of the brand wait.
                try await self.changed(fleet, Self.second, names, "late")
                try await self.changed(fleet, BrandFixture.orderType, names, "late")
                try await eventually("packaged") {
                    try await self.versions(fleet, ours) == Array(repeating: 2, count: 8)
                }
                #expect(try await fleet.admin.endOffsets(fleet.topics.deadLetters).values.reduce(0, +) == 0)
                #expect(read() == published, "everything is read once")

                try second.mend()
                try await eventually("restored") { try await self.awaited(fleet) == [] }
                try await fleet.settle()
                // A packager that saw the brand awaited a moment too long reads them as well.
                #expect([8, 16].contains(read() - published), "the brand's orders once more, and nothing else")
                #expect(try await self.versions(fleet, theirs) == Array(repeating: 2, count: 8))
                let after = try await fleet.content(theirs, [])
                for key in theirs {
                    let (old, new) = (try #require(before.states[key]), try #require(after.states[key]))
                    #expect(new.document.members["statusDescription"] == "late")
                    #expect(new.token == old.token)
                    #expect(new.modifiedEpochSeconds > old.modifiedEpochSeconds)
                }
                #expect(try await fleet.admin.endOffsets(fleet.topics.deadLetters).values.reduce(0, +) == 0)
                #expect(try await self.standing(fleet, [try OrderKey("order.com.example.gone/o1")]) == 0)
                #expect(members.reduce(0) { $0 + $1.metrics.counter("waybill_restore_strangers_total") } >= 1)
                try await eventually("said") {
                    members.allSatisfy {
                        $0.isReady && $0.metrics.gauge("waybill_restore_waiting") == 0
                            && $0.environment.readiness.remarks.isEmpty
                    }
                }
            }
        }
    }

    @Test func anAwaitedBrandSurvivesARedisCrashAndAFlush() async throws {
        try await Fleet.run(redis: ["--appendonly", "yes", "--appendfsync", "always"]) { fleet in
            let second = try Second(fleet)
            let type = try OrderTypeIdentifier(Self.second)
            let names = (0..<8).map { "o\($0)" }
            let all = try names.map(ChangeLog.key) + names.map { try OrderKey("\(Self.second)/\($0)") }
            try await fleet.working([try fleet.member()]) {
                try await self.publish(fleet, BrandFixture.orderType, names)
                try await self.publish(fleet, Self.second, names)
                try await fleet.settle()
            }
            let before = try await fleet.content(all, [])
            _ = try await fleet.redis.send(RedisCommand("FLUSHALL"))
            try second.damage()
            try await fleet.working([try fleet.member(Self.quickly)]) {
                try await eventually("complete but for the brand") { try await self.awaited(fleet) == [type] }
                // Nothing is lost: the view is judged, and awaits the same type.
                await fleet.server.kill()
                try await fleet.server.restart()
                try await eventually("judged") { (try? await self.awaited(fleet)) == [type] }
                // All is lost.
                _ = try await fleet.redis.send(RedisCommand("FLUSHALL"))
                try await eventually("complete but for the brand again") { try await self.awaited(fleet) == [type] }
                try second.mend()
                try await eventually("restored") { try await self.awaited(fleet) == [] }
                #expect(try await fleet.content(all, []) == before)
            }
        }
    }

    @Test func aRestoreStopsWaitingForARemovedBrand() async throws {
        try await Fleet.run { fleet in
            let second = try Second(fleet)
            let type = try OrderTypeIdentifier(Self.second)
            try await fleet.working([try fleet.member()]) {
                try await self.publish(fleet, BrandFixture.orderType, ["o1"])
                try await self.publish(fleet, Self.second, ["o1"])
                try await fleet.settle()
            }
            _ = try await fleet.redis.send(RedisCommand("FLUSHALL"))
            try second.damage()
            try await fleet.working([try fleet.member(Self.quickly)]) {
                try await eventually("complete but for the brand") { try await self.awaited(fleet) == [type] }
                try FileManager.default.removeItem(atPath: second.folder)
                try await eventually("gone") { try await self.awaited(fleet) == [] }
                #expect(try await self.standing(fleet, [try ChangeLog.key("o1")]) == 1)
                #expect(try await self.standing(fleet, [try OrderKey("\(Self.second)/o1")]) == 0)
            }
        }
    }

    /// A packager whose mount lacks the folder of a brand takes jobs as well; it learns of the brand from the others.
    @Test func aPackagerThatLacksABrandDoesNotDropItsOrders() async throws {
        try await Fleet.run(partitions: 16) { fleet in
            let second = try Second(fleet)
            let names = (0..<64).map { "o\($0)" }
            let theirs = try names.map { try OrderKey("\(Self.second)/\($0)") }
            let stale = fleet.directory.path("stale")
            _ = try fleet.settings()
            try FileManager.default.copyItem(atPath: fleet.directory.path("brands"), toPath: stale)
            try FileManager.default.removeItem(atPath: "\(stale)/second")
            try await fleet.working([try fleet.member()]) {
                try await self.publish(fleet, Self.second, names)
                try await fleet.settle()
            }
            let before = try await fleet.content(theirs, [])
            #expect(before.states.count == 64)
            #expect(FileManager.default.fileExists(atPath: second.folder))
            let members = try [fleet.member(["WAYBILL_BRANDS": stale]), fleet.member()]
            try await fleet.working(members) {
                // Ready packagers have seen each other.
                try await eventually("ready") { members.allSatisfy(\.isReady) }
                for round in 0..<3 {
                    _ = try await fleet.redis.send(RedisCommand("FLUSHALL"))
                    try await eventually("restored", within: .seconds(60)) {
                        guard try await self.awaited(fleet) == [] else { return false }
                        return try await self.standing(fleet, theirs) == 64
                    }
                    #expect(try await fleet.content(theirs, []) == before, "round \(round)")
                }
                // The test proves nothing if the packager without the brand never had a job.
                #expect(members[0].metrics.counter("waybill_restore_records_total") > 0)
            }
        }
    }

    /// Starts a packager that finds the brand damaged and Redis empty, mends the brand, and stops the packager amid the
    /// orders of that brand. If the packager finishes too early, it tries again.
    private func stopAmidRestoring(_ fleet: Fleet, _ second: Second, _ orders: [OrderKey]) async throws -> ChildProcess
    {
        let type = try OrderTypeIdentifier(Self.second)
        for _ in 0..<10 {
            try second.damage()
            _ = try await fleet.redis.send(RedisCommand("FLUSHALL"))
            let packager = try fleet.child("waybill-packager", Self.quickly)
            try await eventually("complete but for the brand") { try await self.awaited(fleet) == [type] }
            try second.mend()
            try await eventually("some are there") { try await self.standing(fleet, orders) > 0 }
            packager.signal(SIGSTOP)
            if try await self.awaited(fleet) == [type] { return packager }
            packager.signal(SIGKILL)
            _ = try await packager.exit(within: .seconds(10))
        }
        Issue.record("it was always too fast")
        throw CancellationError()
    }

    /// The killed packager's job is free only when its lease of 15 s ends, so this takes that long.
    @Test func anotherPackagerFinishesTheBrandRestoreOfAKilledPackager() async throws {
        try await Fleet.run(partitions: 16) { fleet in
            let second = try Second(fleet)
            let names = (0..<900).map { "o\($0)" }
            let theirs = try names.map { try OrderKey("\(Self.second)/\($0)") }
            try await fleet.working([try fleet.member()]) {
                try await self.publish(fleet, Self.second, names)
                try await fleet.settle()
            }
            let before = try await fleet.content(theirs, [])
            let first = try await self.stopAmidRestoring(fleet, second, theirs)
            let next = try fleet.child("waybill-packager", Self.quickly)
            first.signal(SIGKILL)
            #expect(try await first.exit(within: .seconds(10)) == .signal(SIGKILL))
            try await eventually("restored", within: .seconds(60)) { try await self.awaited(fleet) == [] }
            #expect(try await fleet.content(theirs, []) == before)
            #expect(await next.stop(grace: .seconds(20)) == .code(0))
        }
    }
}
