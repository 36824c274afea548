import Foundation
import Glibc
import Kafka
import Model
import Operations
import Store
import TestKit
import TestTraits
import Testing

@testable import Pusher

/// Keys that wait for longer than seconds move to the pending topic: on a real broker, Redis and simulator.
@Suite(.server, .timeLimit(.minutes(4))) struct PendingPushesTests {
    private static let refused = APNSSimulatorFault.Effect.answer(
        APNSSimulatorAnswer(403, "BadCertificate"), delayMilliseconds: 0)
    private static let reload = ["WAYBILL_BRANDS_RELOAD_SECONDS": "1"]

    private func orders(_ type: String, _ count: Int) throws -> [OrderKey] {
        try (0..<count).map { try OrderKey("\(type)/o\($0)") }
    }

    private func quickly(_ limits: inout PushLimits) { limits.parkedHold = .milliseconds(500) }

    private func timesTold(_ fixture: PusherFixture, _ tokens: Range<Int>) async throws -> [Int] {
        let notified = try await fixture.delivered()
        return tokens.map { token in notified.count { $0 == PusherFixture.token(token) } }
    }

    /// Returns the number of requests to APNs for some devices.
    private func timesAsked(_ fixture: PusherFixture, _ tokens: Range<Int>) async throws -> Int {
        let tokens = Set(tokens.map(PusherFixture.token))
        return try await fixture.notified().count { tokens.contains($0) }
    }

    @Test func aStoppedCredentialDoesNotBlockOffsetsAndRenewalNotifiesOnce() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-pending")
            let troubled = try self.orders(PusherBrandFixture.otherType, 100)
            try await fixture.register(troubled, devices: 100, tokens: 1000)
            try await fixture.hit(tokens: 1000..<1100, Self.refused)
            try await fixture.publish(changed: troubled)
            try await fixture.serve(
                directory, settings: Self.reload, brands: ["shop", "market"], limits: self.quickly
            ) {
                try await eventually("offsets move", within: .seconds(60)) { try await fixture.lag() == 0 }
                #expect(try await fixture.pendingLag() > 0)
                #expect(try await fixture.delivered().isEmpty)
                try await fixture.apns.clearFaults()
                _ = try PusherBrandFixture.shared.get().write(["renewed"], into: directory)
                try await eventually("nobody waits any more", within: .seconds(60)) {
                    try await fixture.pendingLag() == 0
                }
            }
            #expect(try await self.timesTold(fixture, 1000..<1100) == Array(repeating: 1, count: 100))
            #expect(fixture.pushes("dropped") == 0)
        }
    }

    @Test func fullParkingDoesNotBlockLaterRecords() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-pending")
            let well = try self.orders(PusherBrandFixture.orderType, 10)
            try await fixture.register(well, devices: 10, tokens: 5000)
            // Of a type without a brand, so none of them leaves the parking to be sent.
            let troubled = try self.orders(PusherBrandFixture.otherType, 1000)
            try await fixture.register(troubled, devices: 1000, tokens: 10_000)
            try await fixture.publish(changed: troubled)
            try await fixture.publish(changed: well)
            let crowded: (inout PushLimits) -> Void = { limits in
                limits.records = 3200
                limits.parkedKeys = 100
                limits.parkedHold = .seconds(300)
            }
            try await fixture.serve(directory, limits: crowded) {
                try await eventually("the others are notified", within: .seconds(60)) {
                    try await self.timesTold(fixture, 5000..<5010) == Array(repeating: 1, count: 10)
                }
            }
        }
    }

    @Test func devicesAreNotifiedWhenAMissingBrandIsAdded() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-pending")
            let early = try self.orders(PusherBrandFixture.otherType, 30)
            try await fixture.register(early, devices: 30, tokens: 1000)
            try await fixture.publish(changed: early)
            try await fixture.serve(directory, settings: Self.reload, limits: self.quickly) {
                try await eventually("offsets move", within: .seconds(60)) {
                    let pending = try await fixture.pendingLag()
                    return try await fixture.lag() == 0 && pending >= 30
                }
                _ = try PusherBrandFixture.shared.get().write(["market"], into: directory)
                try await eventually("nobody waits any more", within: .seconds(60)) {
                    try await fixture.pendingLag() == 0
                }
            }
            #expect(try await self.timesTold(fixture, 1000..<1030) == Array(repeating: 1, count: 30))
        }
    }

    @Test func theNextPusherSkipsDevicesAlreadyNotified() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-pending")
            let stuck = try self.orders(PusherBrandFixture.orderType, 20)
            let healing = try self.orders(PusherBrandFixture.otherType, 20)
            try await fixture.register(stuck, devices: 20, tokens: 0)
            try await fixture.register(healing, devices: 20, tokens: 1000)
            for tokens in [0..<20, 1000..<1020] { try await fixture.hit(tokens: tokens, Self.refused) }
            try await fixture.publish(changed: stuck + healing)
            try await fixture.serve(
                directory, settings: Self.reload, brands: ["shop", "market"], limits: self.quickly
            ) {
                try await eventually("offsets move", within: .seconds(60)) { try await fixture.lag() == 0 }
                try await fixture.apns.clearFaults()
                try await fixture.hit(tokens: 0..<20, Self.refused)
                _ = try PusherBrandFixture.shared.get().write(["renewed"], into: directory)
                try await eventually("one brand is notified", within: .seconds(60)) {
                    try await self.timesTold(fixture, 1000..<1020).allSatisfy { $0 > 0 }
                }
            }
            let asked = try await self.timesAsked(fixture, 0..<20)
            try await fixture.serve(directory, brands: ["shop", "renewed"], limits: self.quickly) {
                try await eventually("the topic was read, and the other one is asked", within: .seconds(60)) {
                    try await self.timesAsked(fixture, 0..<20) > asked
                }
                try await fixture.publish(changed: [healing[0]])
                try await eventually("a new change is notified", within: .seconds(60)) {
                    try await self.timesTold(fixture, 1000..<1001) == [2]
                }
            }
            #expect(try await self.timesTold(fixture, 1001..<1020) == Array(repeating: 1, count: 19))
            #expect(try await self.timesTold(fixture, 0..<20) == Array(repeating: 0, count: 20))
        }
    }

    @Test func aRateLimitedDeviceHoldsNoOffset() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-pending")
            let orders = try self.orders(PusherBrandFixture.orderType, 20)
            try await fixture.register(orders, devices: 20, tokens: 0)
            let limits: (inout PushLimits) -> Void = { limits in
                limits.parkedHold = .milliseconds(500)
                // One immediately, the next one after half an hour.
                limits.hourlyLimit = 2
            }
            try await fixture.publish(changed: [orders[0]])
            try await fixture.serve(directory, limits: limits) {
                try await eventually("the first change is notified", within: .seconds(60)) {
                    try await self.timesTold(fixture, 0..<1) == [1]
                }
                try await fixture.publish(changed: orders)
                try await eventually("the others are notified", within: .seconds(60)) {
                    try await self.timesTold(fixture, 1..<20) == Array(repeating: 1, count: 19)
                }
                try await eventually("offsets move", within: .seconds(20)) { try await fixture.lag() == 0 }
                #expect(try await fixture.pendingLag() > 0)
                #expect(try await self.timesTold(fixture, 0..<1) == [1])
            }
            // Another pusher does not know how many notifications the device got.
            try await fixture.serve(directory, limits: limits) {
                try await eventually("nobody waits any more", within: .seconds(60)) {
                    try await fixture.pendingLag() == 0
                }
            }
            #expect(try await self.timesTold(fixture, 0..<1) == [2])
            #expect(try await self.timesTold(fixture, 1..<20) == Array(repeating: 1, count: 19))
        }
    }

    @Test func pendingPushesSurviveAKillAndAreSentOnce() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-pending")
            let troubled = try self.orders(PusherBrandFixture.otherType, 100)
            try await fixture.redis.completeView()
            try await fixture.register(troubled, devices: 100, tokens: 1000)
            try await fixture.hit(tokens: 1000..<1100, Self.refused)
            try await fixture.publish(changed: troubled)
            let first = try fixture.child(directory, brands: ["shop", "market"])
            try await eventually("offsets move", within: .seconds(90)) { try await fixture.lag() == 0 }
            first.signal(SIGKILL)
            _ = try await first.exit(within: .seconds(10))
            try await fixture.apns.clearFaults()
            let second = try fixture.child(directory, brands: ["shop", "renewed"])
            try await eventually("nobody waits any more", within: .seconds(90)) { try await fixture.pendingLag() == 0 }
            #expect(await second.stop(grace: .seconds(20)) == .code(0))
            #expect(try await self.timesTold(fixture, 1000..<1100) == Array(repeating: 1, count: 100))
        }
    }

    @Test func devicesWithDeadLettersCanBeNotifiedAgain() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-pending")
            for number in 0..<3 { try await fixture.register("d\(number)", for: "o\(number)", token: number) }
            let busy = APNSSimulatorFault.Effect.answer(
                APNSSimulatorAnswer(429, "TooManyRequests"), delayMilliseconds: 0)
            try await fixture.hit(tokens: 0..<2, busy)
            try await fixture.publish(["o0", "o1", "o2", "o1"])
            try await fixture.serve(directory, settings: ["WAYBILL_PUSH_ATTEMPTS": "1"]) {
                try await eventually("given up", within: .seconds(60)) { try await fixture.lag() == 0 }
                try await fixture.apns.clearFaults()
                let kafka = KafkaConfiguration(bootstrap: fixture.broker.bootstrap)
                let survey = PushDeadLetterSurvey(code: "push-undeliverable", since: nil)
                let found = try await survey.read(kafka, topic: fixture.topics.deadLetters)
                #expect(Set(found.keys.compactMap { $0.device?.rawValue }) == ["d0", "d1"])
                let none = PushDeadLetterSurvey(code: "push-refused", since: nil)
                #expect(try await none.read(kafka, topic: fixture.topics.deadLetters).keys.isEmpty)
                let writer = PendingPushWriter(
                    producer: fixture.producer, topic: fixture.topics.pushPending, rate: 1000,
                    nowEpochMilliseconds: Int64(Date().timeIntervalSince1970 * 1000))
                try await writer.write(found.keys)
                try await eventually("they are notified", within: .seconds(60)) {
                    try await fixture.pendingLag() == 0
                }
            }
            #expect(try await self.timesTold(fixture, 0..<3) == [1, 1, 1])
        }
    }

    /// Both notifications of a device are dropped; then it leaves the order of either.
    @Test(arguments: ["o0", "o1"])
    func aDeviceThatLeftOneOrderIsNotifiedOfTheOther(_ left: String) async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-pending")
            for order in ["o0", "o1"] { try await fixture.register("d", for: order, token: 0) }
            let busy = APNSSimulatorFault.Effect.answer(
                APNSSimulatorAnswer(429, "TooManyRequests"), delayMilliseconds: 0)
            try await fixture.hit(tokens: 0..<1, busy)
            try await fixture.publish(["o0", "o1"])
            try await fixture.serve(directory, settings: ["WAYBILL_PUSH_ATTEMPTS": "1"]) {
                try await eventually("given up", within: .seconds(60)) { try await fixture.lag() == 0 }
                try await fixture.apns.clearFaults()
                let key = RegistrationKey(device: try DeviceIdentifier("d"), order: try PusherFixture.order(left))
                _ = try await fixture.registrations.unregister(key)
                let kafka = KafkaConfiguration(bootstrap: fixture.broker.bootstrap)
                let found = try await PushDeadLetterSurvey(code: nil, since: nil)
                    .read(kafka, topic: fixture.topics.deadLetters)
                #expect(Set(found.keys.map(\.order.order.rawValue)) == ["o0", "o1"])
                let writer = PendingPushWriter(
                    producer: fixture.producer, topic: fixture.topics.pushPending, rate: 1000,
                    nowEpochMilliseconds: Int64(Date().timeIntervalSince1970 * 1000))
                try await writer.write(found.keys)
                try await eventually("it is notified", within: .seconds(60)) { try await fixture.pendingLag() == 0 }
            }
            #expect(try await self.timesTold(fixture, 0..<1) == [1])
        }
    }

    @Test func closedDeadLettersAreLeftOutUnlessAskedFor() async throws {
        try await PusherFixture.run { fixture in
            let registrations = try ["d0/\(PusherFixture.order("o0"))", "d1/\(PusherFixture.order("o0"))"].map {
                try RegistrationKey($0)
            }
            let origin = KafkaPosition(topic: fixture.topics.orders, partition: 0, offset: 7)
            for registration in registrations {
                let letter = PushDeadLetter(.refused, "400", registration: registration, origin: origin)
                _ = try await fixture.producer.produce(letter.message(fixture.topics))
            }
            let kafka = KafkaConfiguration(bootstrap: fixture.broker.bootstrap)
            let survey = PushDeadLetterSurvey(code: nil, since: nil)
            let topic = fixture.topics.deadLetters
            let all = try await survey.read(kafka, topic: topic)
            #expect(Set(all.keys) == Set(registrations.map { PendingPushKey($0) }))
            #expect(all.deadLetterCount == 2)
            for record in try await fixture.broker.records(2, of: topic) {
                guard case .letter(let letter) = DeadLetterRecord.read(record), letter.notification?["device"] == "d1"
                else { continue }
                _ = try await fixture.producer.produce(letter.purge(by: "anna", fixture.topics))
            }
            let open = try await survey.read(kafka, topic: topic)
            #expect(open.keys == [PendingPushKey(registrations[0])])
            #expect(open.deadLetterCount == 1)
            var every = survey
            every.takesClosed = true
            #expect(try await every.read(kafka, topic: topic).keys.count == 2)
            every.limit = 1
            #expect(try await every.read(kafka, topic: topic).isOverfull)
        }
    }
}
