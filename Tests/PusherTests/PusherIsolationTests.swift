import Kafka
import Model
import TestKit
import TestTraits
import Testing

@testable import Pusher

/// One brand with problems, and another one in the same partitions.
@Suite(.server, .timeLimit(.minutes(3))) struct PusherIsolationTests {
    private static let brands = ["shop", "market"]
    /// Device tokens of the brand with problems.
    private static let troubled = 1000..<1020

    private func orders(_ type: String, _ count: Int) throws -> [OrderKey] {
        try (0..<count).map { try OrderKey("\(type)/o\($0)") }
    }

    /// Changes orders of the healthy brand one by one, and expects a notification for each while no others are due.
    private func expectTold(_ fixture: PusherFixture, _ orders: [OrderKey], tokens first: Int) async throws {
        for (number, order) in orders.enumerated() {
            let before = try await fixture.delivered().count { $0 == PusherFixture.token(first + number) }
            try await fixture.publish(changed: [order])
            try await eventually("\(order) is notified", within: .seconds(10)) {
                try await fixture.delivered().count { $0 == PusherFixture.token(first + number) } > before
            }
        }
    }

    @Test(arguments: [
        APNSSimulatorFault.Effect.answer(APNSSimulatorAnswer(403, "BadCertificate"), delayMilliseconds: 0),
        .silence, .answer(APNSSimulatorAnswer(503, "ServiceUnavailable"), delayMilliseconds: 0),
    ])
    func aBrandThatCannotBeToldFillsNobodysShare(effect: APNSSimulatorFault.Effect) async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-isolation")
            let well = try self.orders(PusherBrandFixture.orderType, 5)
            let troubled = try self.orders(PusherBrandFixture.otherType, 1500)
            try await fixture.register(well, devices: well.count, tokens: 0)
            try await fixture.register(troubled, devices: Self.troubled.count, tokens: Self.troubled.lowerBound)
            try await fixture.hit(tokens: Self.troubled, effect)
            try await fixture.publish(changed: troubled)
            let limits = { (limits: inout PushLimits) in
                (limits.records, limits.targets, limits.links) = (400, 400, 400)
            }
            let settings = ["WAYBILL_BRANDS_RELOAD_SECONDS": "1"]
            try await fixture.serve(directory, settings: settings, brands: Self.brands, limits: limits) {
                try await eventually("the rest is parked") { fixture.gauge("waybill_push_records_parked") > 700 }
                try await self.expectTold(fixture, well, tokens: 0)
                #expect(fixture.gauge("waybill_records_in_hand") <= 400)
                try await fixture.apns.clearFaults()
                // A refused credential is probed once a minute, a renewed one immediately.
                _ = try PusherBrandFixture.shared.get().write(["renewed"], into: directory)
                try await eventually("all are notified", within: .seconds(120)) {
                    let notified = Set(try await fixture.delivered())
                    return Self.troubled.allSatisfy { notified.contains(PusherFixture.token($0)) }
                }
                try await eventually("committed", within: .seconds(120)) { try await fixture.lag() == 0 }
            }
            #expect(fixture.pushes("dropped") == 0)
        }
    }

    @Test func aBulkChangeOfOneBrandDoesNotDelayAnother() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-isolation")
            let well = try self.orders(PusherBrandFixture.orderType, 5)
            let bulk = try self.orders(PusherBrandFixture.otherType, 3000)
            try await fixture.register(well, devices: well.count, tokens: 0)
            try await fixture.register(bulk, devices: 1000, tokens: 1000)
            try await fixture.apns.add(APNSSimulatorFault(.delay(milliseconds: 1000)))
            try await fixture.publish(changed: bulk)
            let limits = { (limits: inout PushLimits) in
                (limits.records, limits.targets, limits.links, limits.inFlight) = (400, 400, 400, 20)
            }
            try await fixture.serve(directory, brands: Self.brands, limits: limits) {
                try await eventually("the rest is parked") { fixture.gauge("waybill_push_records_parked") > 1000 }
                try await self.expectTold(fixture, well, tokens: 0)
                #expect(fixture.gauge("waybill_push_records_parked") > 0, "the bulk is still on its way")
                try await fixture.apns.clearFaults()
                try await eventually("all are notified", within: .seconds(120)) {
                    let notified = Set(try await fixture.delivered())
                    return (1000..<2000).allSatisfy { notified.contains(PusherFixture.token($0)) }
                }
                try await eventually("committed", within: .seconds(120)) { try await fixture.lag() == 0 }
            }
        }
    }
}
