import Foundation
import Kafka
import Model
import Operations
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Packager

/// Restoring needs no brand: one that cannot be loaded delays only its own changes and packages.
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

    @Test func aBrandThatFailsToLoadDelaysNoRestore() async throws {
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
            _ = try await fleet.redis.send(RedisCommand("FLUSHALL"))
            try second.damage()
            // Two packagers that never had the brand.
            let members = try (0..<2).map { _ in try fleet.member(["WAYBILL_BRANDS_RELOAD_SECONDS": "1"]) }
            try await fleet.working(members) {
                try await eventually("complete") { try await fleet.isComplete() }
                #expect(try await fleet.content(ours + theirs, []) == before)
                try await eventually("ready") { members.allSatisfy { $0.isReady } }
                // Changes of all others are packaged, those of the brand wait.
                try await self.changed(fleet, Self.second, names, "late")
                try await self.changed(fleet, BrandFixture.orderType, names, "late")
                try await eventually("packaged") {
                    try await self.versions(fleet, ours) == Array(repeating: 2, count: 8)
                }
                #expect(try await self.versions(fleet, theirs) == Array(repeating: 1, count: 8))
                try second.mend()
                try await fleet.settle()
                #expect(try await self.versions(fleet, theirs) == Array(repeating: 2, count: 8))
                let after = try await fleet.content(theirs, [])
                for key in theirs {
                    let (old, new) = (try #require(before.states[key]), try #require(after.states[key]))
                    #expect(new.document.members["statusDescription"] == "late")
                    #expect(new.token == old.token)
                    #expect(new.modifiedEpochSeconds > old.modifiedEpochSeconds)
                }
                #expect(try await fleet.admin.endOffsets(fleet.topics.deadLetters).values.reduce(0, +) == 0)
            }
        }
    }
}
