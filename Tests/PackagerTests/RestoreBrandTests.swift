import Foundation
import Kafka
import Model
import Operations
import Redis
import Store
import TestKit
import Testing

@testable import Packager

/// What is restored of orders whose brand is not there.
@Suite(.timeLimit(.minutes(2))) struct RestoreBrandTests {
    private static let second = "order.com.example.second"

    private func publish(_ fleet: Fleet, _ type: String, _ orders: [String]) async throws {
        for name in orders {
            let key = "\(type)/\(name)"
            _ = try await fleet.producer.produce(
                KafkaMessage(
                    topic: fleet.topics.orderChanges, key: Array(key.utf8),
                    value: ChangeLog.event("order.replaced", subject: key, id: key, ChangeLog.document(name)),
                    headers: [ChangeLog.contentType]))
        }
    }

    private func standing(_ fleet: Fleet, _ keys: [OrderKey]) async throws -> Int {
        try await OrderStore(redis: fleet.redis).standing(keys).compactMap(\.self).count
    }

    @Test func ordersOfABrandThatCannotBeLoadedAreWaitedForAndOthersAreNot() async throws {
        try await Fleet.run { fleet in
            let folder = fleet.directory.path("brands/second")
            let certificates = try DevelopmentCertificates.make(
                in: fleet.directory.path("second-certificates"), orderType: Self.second)
            try DevelopmentBrand.make(in: folder, orderType: Self.second, certificates: certificates)
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
            // An order of a brand that was taken away long ago.
            let stranger = OrderRecord(try #require(before.states[ours[0]]), recipe: .init(assets: [], entityTag: "e"))
            _ = try await fleet.producer.produce(
                KafkaMessage(
                    topic: fleet.topics.orders, key: Array("order.com.example.gone/o1".utf8), value: stranger.encoded))

            _ = try await fleet.redis.send(RedisCommand("FLUSHALL"))
            try fleet.directory.write("brands/second/certificate.pem", "none")
            // Two that never had the brand, so that each has to say what it waits for.
            let members = try (0..<2).map { _ in try fleet.member(["WAYBILL_BRANDS_RELOAD_SECONDS": "1"]) }
            try await fleet.working(members) {
                try await eventually("it is said which brand is waited for") {
                    members.flatMap(\.environment.readiness.reasons).contains {
                        $0.contains("cannot be loaded: \(Self.second)")
                    }
                }
                try await eventually("the others are there") { try await self.standing(fleet, ours) == 8 }
                #expect(members.contains { $0.metrics.gauge("waybill_restore_waiting") == 1 })
                #expect(try await !fleet.isComplete())
                #expect(try await self.standing(fleet, theirs) == 0)
                try DevelopmentBrand.make(in: folder, orderType: Self.second, certificates: certificates)
                try await eventually("complete") { try await fleet.isComplete() }
                #expect(try await fleet.content(ours + theirs, []) == before)
                #expect(try await self.standing(fleet, [try OrderKey("order.com.example.gone/o1")]) == 0)
                #expect(members.reduce(0) { $0 + $1.metrics.counter("waybill_restore_strangers_total") } >= 1)
                try await eventually("ready") { members.allSatisfy(\.isReady) }
                #expect(members.allSatisfy { ($0.metrics.gauge("waybill_restore_waiting") ?? 0) == 0 })
            }
        }
    }
}
