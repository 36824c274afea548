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

/// Changes of a brand that cannot be loaded, next to those of one that can.
@Suite(.server, .timeLimit(.minutes(3))) struct WaitingBrandTests {
    private static let second = "order.com.example.second"
    private static let orders = 40
    private static let changes = 100
    /// An eighth of what waits.
    private static let limits = KeyQueue.Limits(records: 500, bytes: 1 << 20, batchKeys: 64, batchBytes: 256 << 10)

    /// The n-th change of an order; its first one makes it.
    private func change(_ type: String, _ order: String, _ number: Int) -> KafkaMessage {
        let key = "\(type)/\(order)"
        let (name, data): (String, JSON) =
            number == 0
            ? ("order.replaced", ChangeLog.document("n0")) : ("order.patched", ["orderNumber": .string("n\(number)")])
        return KafkaMessage(
            topic: Topics().orderChanges, key: Array(key.utf8),
            value: ChangeLog.event(name, subject: key, id: "\(key)-\(number)", data), headers: [ChangeLog.contentType])
    }

    private func publish(_ fleet: Fleet, _ messages: [KafkaMessage]) async throws {
        for outcome in await fleet.producer.produce(messages) { _ = try outcome.get() }
    }

    private func number(_ fleet: Fleet, _ type: String, _ order: String) async throws -> String? {
        let key = try OrderKey("\(type)/\(order)")
        return try await OrderStore(redis: fleet.redis).orders([key])[0].get()?.state.document.members["orderNumber"]?
            .string
    }

    /// Publishes changes of our brand one after the other, and expects each to be packaged.
    private func expectOursToGoOn(_ fleet: Fleet, _ order: String) async throws {
        for number in 0..<5 {
            try await self.publish(fleet, [self.change(BrandFixture.orderType, order, number)])
            try await eventually("\(order) \(number)") {
                try await self.number(fleet, BrandFixture.orderType, order) == "n\(number)"
            }
        }
    }

    @Test func changesOfABrokenBrandDelayNoOtherAndArePackagedWhenItLoads() async throws {
        try await Fleet.run(partitions: 8) { fleet in
            let folder = fleet.directory.path("brands/second")
            let certificates = try DevelopmentCertificates.copy(
                to: fleet.directory.path("second-certificates"), orderType: Self.second)
            try DevelopmentBrand.make(in: folder, orderType: Self.second, certificates: certificates)
            try fleet.directory.write("brands/second/certificate.pem", "none")
            let changes = (0..<Self.changes).flatMap { number in
                (0..<Self.orders).map { self.change(Self.second, "o\($0)", number) }
            }
            func member() throws -> Fleet.Member {
                try fleet.member(limits: Self.limits, ["WAYBILL_BRANDS_RELOAD_SECONDS": "1"])
            }
            try await self.publish(fleet, changes)
            try await fleet.working([try member()]) { try await self.expectOursToGoOn(fleet, "before") }
            let child = try fleet.child("waybill-packager")
            try await self.expectOursToGoOn(fleet, "between")
            child.signal(SIGKILL)
            #expect(try await self.number(fleet, Self.second, "o0") == nil)
            // After a restart, a kill and with a rebalance.
            let members = [try member(), try member()]
            try await fleet.working(members) {
                try await self.expectOursToGoOn(fleet, "after")
                try await eventually("all of them wait", within: .seconds(60)) {
                    members.reduce(0) {
                        $0 + ($1.metrics.gauge("waybill_waiting_records{brand=\"\(Self.second)\"}") ?? 0)
                    } == Double(Self.orders * Self.changes)
                }
                #expect(members.allSatisfy { $0.isReady })
                try DevelopmentBrand.make(in: folder, orderType: Self.second, certificates: certificates)
                try await eventually("nothing left", within: .seconds(100)) {
                    let lag = try await fleet.admin.lag(group: Packager.group, topic: fleet.topics.orderChanges)
                    return lag.values.reduce(0, +) == 0
                }
            }
            for order in 0..<Self.orders {
                #expect(try await self.number(fleet, Self.second, "o\(order)") == "n\(Self.changes - 1)")
            }
            #expect(try await fleet.admin.endOffsets(fleet.topics.deadLetters).values.reduce(0, +) == 0)
        }
    }
}
