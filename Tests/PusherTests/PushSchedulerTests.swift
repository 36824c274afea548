import APNS
import Kafka
import Model
import Redis
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Operations
@testable import Pusher
@testable import Store

/// The results of changed orders, on a real Redis, a broker and an APNs that checks every request.
@Suite(.server) struct PushSchedulerTests {
    @Test func aDeviceIsNotifiedOnceForManyChangedOrders() async throws {
        try await PusherFixture.run { fixture in
            for number in 0..<5 {
                try await fixture.register("d1", for: "o\(number)", token: 1)
                try await fixture.register("d2", for: "o\(number)", token: 2)
            }
            try await PushTable.process(fixture, try (0..<5).map { try fixture.changed("o\($0)", offset: Int64($0)) })
            #expect(try await fixture.notified().sorted() == [PusherFixture.token(1), PusherFixture.token(2)])
            #expect(fixture.pushes("delivered") == 2)
            #expect(fixture.pushes("coalesced") == 8)
        }
    }

    @Test func aNotificationHasTheHeadersThatWalletExpects() async throws {
        try await PusherFixture.run { fixture in
            try await fixture.register("d", for: "o", token: 1)
            try await PushTable.process(fixture, [try fixture.changed("o")])
            let delivery = try #require(try await fixture.apns.deliveries().deliveries.first)
            #expect(delivery.topic == PusherBrandFixture.orderType)
            #expect(delivery.pushType == "background")
            #expect(delivery.priority == 5)
            #expect(delivery.expirationEpochSeconds == PusherFixture.noon + 7 * 24 * 3600)
            #expect(delivery.status == 200)
        }
    }

    @Test func unregisteredRemovedAndKeylessOrdersNotifyNoDevice() async throws {
        try await PusherFixture.run { fixture in
            try await fixture.register("d", for: "gone", token: 1)
            let removal = KafkaRecord(
                topic: fixture.topics.orders, partition: 0, offset: 1, timestampMilliseconds: -1,
                key: Array("\(try PusherFixture.order("gone"))".utf8), value: nil)
            let nameless = KafkaRecord(
                topic: fixture.topics.orders, partition: 0, offset: 2, timestampMilliseconds: .min, key: nil, value: [1]
            )
            try await PushTable.process(fixture, [try fixture.changed("o"), removal, nameless])
            #expect(try await fixture.notified().isEmpty)
        }
    }

    @Test func anUnregisteredTokenRemovesOnlyItsOwnOlderRegistration() async throws {
        try await PusherFixture.run { fixture in
            let gone = try await fixture.register("gone", for: "o", token: 1, at: 5000)
            let renewed = try await fixture.register("renewed", for: "o", token: 2, at: 7000)
            let well = try await fixture.register("well", for: "o", token: 3)
            for token in [1, 2] {
                let answer = APNSSimulatorAnswer(410, "Unregistered", timestampEpochMilliseconds: 6000)
                try await fixture.apns.add(
                    APNSSimulatorFault(
                        .answer(answer, delayMilliseconds: 0), token: PusherFixture.token(token), count: 1))
            }
            try await PushTable.process(fixture, [try fixture.changed("o")])
            #expect(try await !fixture.isRegistered(gone.key))
            #expect(try await fixture.isRegistered(renewed.key))
            #expect(try await fixture.isRegistered(well.key))
            #expect(try await fixture.registrations.orders(of: gone.key.device, type: gone.key.order.orderType).isEmpty)
            #expect(try await fixture.tombstones() == 1)
            #expect(fixture.retired == 1)
            #expect(fixture.pushes("delivered") == 2, "whoever came back is notified")
            #expect(fixture.pushes("retried") == 1)
        }
    }

    /// Its tombstone follows the new record, so the new record is published again.
    @Test func aDeviceThatReregistersDuringRetirementIsKept() async throws {
        try await PusherFixture.run { fixture in
            let gone = try await fixture.register("d", for: "o", token: 1, at: 5000)
            let answer = APNSSimulatorAnswer(410, "Unregistered", timestampEpochMilliseconds: 6000)
            try await fixture.apns.add(
                APNSSimulatorFault(.answer(answer, delayMilliseconds: 0), token: PusherFixture.token(1)))
            // Registering counts as well: its script reads.
            func reads() async throws -> Int {
                var reads = 0
                for statistics in try await fixture.server.everywhere("INFO", "commandstats") {
                    let calls = statistics.split(separator: "cmdstat_hget:calls=")
                    reads += calls.dropFirst().first.flatMap { Int($0.prefix { $0.isNumber }) } ?? 0
                }
                return reads
            }
            let before = try await reads()
            // The tombstone is in flight as long as the broker is down.
            try fixture.broker.setDown()
            async let processed: Void = PushTable.process(fixture, [try fixture.changed("o")])
            try await eventually("the old one is read") { try await reads() > before }
            let again = try await fixture.register("d", for: "o", token: 2, at: 7000)
            try fixture.broker.setUp()
            try await processed
            let records = try await fixture.publishedRegistrations(2)
            #expect(records.map(\.key) == [Array(gone.key.text.utf8), Array(gone.key.text.utf8)])
            #expect(records.map(\.value) == [nil, again.record.encoded])
            #expect(try await fixture.isRegistered(again.key))
            #expect(try await fixture.tombstones() == 2)
            #expect(fixture.retired == 0, "it had gone by itself")
            #expect(try await fixture.notified() == [1, 2].map(PusherFixture.token), "the new token is notified")
        }
    }

    @Test func anUnregisteredTokenIsRemovedFromAllOrdersOfItsDevice() async throws {
        try await PusherFixture.run { fixture in
            for number in 0..<5 { try await fixture.register("d", for: "o\(number)", token: 1, at: 5000) }
            let other = try await fixture.register("d", for: "other", token: 2, at: 5000)
            let stranger = try await fixture.register("e", for: "o1", token: 3)
            let answer = APNSSimulatorAnswer(410, "Unregistered", timestampEpochMilliseconds: 6000)
            try await fixture.apns.add(
                APNSSimulatorFault(.answer(answer, delayMilliseconds: 0), token: PusherFixture.token(1)))
            try await PushTable.process(fixture, [try fixture.changed("o0")])
            let type = other.key.order.orderType
            #expect(try await fixture.registrations.orders(of: other.key.device, type: type) == [other.key.order.order])
            #expect(try await fixture.isRegistered(stranger.key))
            #expect(try await fixture.tombstones() == 5)
            #expect(fixture.retired == 5)
        }
    }

    @Test func aTokenReregisteredForOneOrderKeepsItsOtherRegistrations() async throws {
        try await PusherFixture.run { fixture in
            let gone = try await fixture.register("d", for: "o0", token: 1, at: 5000)
            let old = try await fixture.register("d", for: "o1", token: 1, at: 5000)
            let new = try await fixture.register("d", for: "o2", token: 1, at: 7000)
            let answer = APNSSimulatorAnswer(410, "Unregistered", timestampEpochMilliseconds: 6000)
            try await fixture.apns.add(APNSSimulatorFault(.answer(answer, delayMilliseconds: 0), count: 1))
            try await PushTable.process(fixture, [try fixture.changed("o0")])
            #expect(try await !fixture.isRegistered(gone.key))
            #expect(try await fixture.isRegistered(old.key))
            #expect(try await fixture.isRegistered(new.key))
        }
    }

    /// A pusher that dies between the two leaves a tombstone and the entry that leads to it again; in the other order
    /// the next restore would bring the token back.
    @Test func aRegistrationLeftAfterItsTombstoneIsRemovedOnTheNextPush() async throws {
        try await PusherFixture.run { fixture in
            let gone = try await fixture.register("d", for: "o", token: 1, at: 5000)
            let answer = APNSSimulatorAnswer(410, "Unregistered", timestampEpochMilliseconds: 6000)
            try await fixture.apns.add(APNSSimulatorFault(.answer(answer, delayMilliseconds: 0)))
            _ = try await fixture.producer.produce(
                KafkaMessage(topic: fixture.topics.registrations, key: Array(gone.key.text.utf8), value: nil))
            try await PushTable.process(fixture, [try fixture.changed("o")])
            #expect(try await !fixture.isRegistered(gone.key))
            #expect(try await fixture.publishedRegistrations(2).allSatisfy { $0.value == nil })
            #expect(fixture.retired == 1)
        }
    }

    @Test func aTombstoneIsRetriedUntilTheBrokerIsAvailable() async throws {
        try await PusherFixture.run(producer: ["delivery.timeout.ms": "1000"]) { fixture in
            let gone = try await fixture.register("d", for: "o", token: 1, at: 5000)
            let answer = APNSSimulatorAnswer(410, "Unregistered", timestampEpochMilliseconds: 6000)
            try await fixture.apns.add(APNSSimulatorFault(.answer(answer, delayMilliseconds: 0)))
            try await PushTable.run(fixture) { table in
                try fixture.broker.setDown()
                try await table.put([try fixture.changed("o")])
                try await eventually("the tombstone is on its way") { table.scheduler.followUps.count == 1 }
                // Longer than one delivery may take.
                try await Task.sleep(for: .milliseconds(1500))
                #expect(try await fixture.isRegistered(gone.key), "it stands until the broker has the tombstone")
                #expect(table.doneCount == 0)
                try fixture.broker.setUp()
                try await eventually("done") { table.doneCount == 1 }
            }
            let records = try await fixture.publishedRegistrations(1)
            #expect(records.allSatisfy { $0.key == Array(gone.key.text.utf8) && $0.value == nil })
            #expect(try await !fixture.isRegistered(gone.key))
            #expect(fixture.retired == 1)
        }
    }

    @Test func aRegistrationWithoutAStampIsPushedOrRetired() async throws {
        try await PusherFixture.run { fixture in
            let order = try PusherFixture.order("o")
            for (device, token) in [("well", 1), ("gone", 2)] {
                let record = "{ \"format\": 1, \"registered\": 5000, \"pushToken\": \"\(PusherFixture.token(token))\" }"
                _ = try await fixture.redis.send(
                    RedisCommand("HSET", .string("waybill:1:devices:{\(order)}"), .string(device), .string(record)))
                _ = try await fixture.redis.send(
                    RedisCommand(
                        "SADD", .string(StoreKeys.listed(DeviceTag(try DeviceIdentifier(device), order.orderType))), "o"
                    ))
            }
            let answer = APNSSimulatorAnswer(410, "Unregistered", timestampEpochMilliseconds: 6000)
            try await fixture.apns.add(
                APNSSimulatorFault(.answer(answer, delayMilliseconds: 0), token: PusherFixture.token(2)))
            try await PushTable.process(fixture, [try fixture.changed("o")])
            #expect(fixture.pushes("delivered") == 1)
            #expect(try await fixture.registrations.devices(of: [order])[0].map(\.device.rawValue) == ["well"])
            for (device, orders) in [("well", ["o"]), ("gone", [])] {
                let listed = try await fixture.registrations.orders(
                    of: DeviceIdentifier(device), type: order.orderType)
                #expect(listed.map(\.rawValue) == orders)
            }
            #expect(try await fixture.tombstones() == 1)
        }
    }

    @Test func aBadDeviceTokenRemovesNoRegistration() async throws {
        try await PusherFixture.run { fixture in
            let registration = try await fixture.register("d", for: "o", token: 1)
            let answer = APNSSimulatorAnswer(400, "BadDeviceToken")
            try await fixture.apns.add(APNSSimulatorFault(.answer(answer, delayMilliseconds: 0)))
            try await PushTable.process(fixture, [try fixture.changed("o")])
            #expect(try await fixture.isRegistered(registration.key))
            #expect(try await fixture.tombstones() == 0)
            #expect(try await fixture.deadLetters(1).map(\.code) == ["push-token-unknown"])
        }
    }

    @Test func aNotificationIsRetriedAfterAServerError() async throws {
        try await PusherFixture.run { fixture in
            try await fixture.register("d1", for: "o", token: 1)
            try await fixture.register("d2", for: "o", token: 2)
            let answer = APNSSimulatorAnswer(500, "InternalServerError")
            try await fixture.apns.add(
                APNSSimulatorFault(.answer(answer, delayMilliseconds: 0), token: PusherFixture.token(1), count: 2))
            try await PushTable.process(fixture, [try fixture.changed("o")])
            let deliveries = try await fixture.apns.deliveries().deliveries
            #expect(deliveries.filter { $0.token == PusherFixture.token(1) }.map(\.status) == [500, 500, 200])
            #expect(deliveries.filter { $0.token == PusherFixture.token(2) }.map(\.status) == [200])
            #expect(fixture.pushes("retried") == 2)
            #expect(fixture.pushes("delivered") == 2)
        }
    }

    private static let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    private static let otherTraceparent = "00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b8-00"

    @Test func anUndeliverableNotificationBecomesADeadLetterWithItsHistory() async throws {
        try await PusherFixture.run { fixture in
            try await fixture.register("d1", for: "o", token: 1)
            try await fixture.register("d2", for: "o", token: 2)
            let answer = APNSSimulatorAnswer(429, "TooManyRequests")
            try await fixture.apns.add(
                APNSSimulatorFault(.answer(answer, delayMilliseconds: 0), token: PusherFixture.token(1)))
            let spans = Mutex<[TraceSpan]>([])
            try await PushTable.run(fixture) {
                $0.attempts = 2
            } _: { table in
                table.scheduler.whenTraced { span in spans.withLock { $0.append(span) } }
                var record = try fixture.changed("o")
                record = KafkaRecord(
                    topic: record.topic, partition: 0, offset: 0,
                    timestampMilliseconds: record.timestampMilliseconds, key: record.key, value: record.value,
                    headers: [
                        KafkaHeader(name: "traceparent", text: Self.traceparent),
                        KafkaHeader(name: "waybill-links", text: "\(Self.otherTraceparent),x,"),
                    ])
                try await table.process([record])
            }
            let letters = try await fixture.broker.records(1, of: fixture.topics.deadLetters)
            #expect(
                letters.first?.headers.first { $0.name == "traceparent" }?.value == Array(Self.traceparent.utf8))
            #expect(try await fixture.notified().count { $0 == PusherFixture.token(1) } == 2)
            #expect(fixture.pushes("dropped") == 1)
            #expect(fixture.pushes("delivered") == 1)
            let deadLetter = try #require(try await fixture.deadLetters(1).first)
            #expect(deadLetter.code == "push-undeliverable")
            #expect(deadLetter.value.object?["device"]?.string == "d1")
            #expect(deadLetter.value.object?["history"]?.array?.count == 2)
            let attempts = spans.withLock { $0 }
            let traces = [Self.traceparent, Self.otherTraceparent]
            #expect(attempts.allSatisfy { $0.contexts.map(\.traceparent) == traces && $0.start <= $0.end })
            let outcomes = attempts.compactMap { $0.attributes.first { $0.name == "waybill.outcome" }?.value.string }
            #expect(outcomes.sorted() == ["again", "delivered", "given_up"])
        }
    }

    @Test func noNotificationIsDroppedWhileAPNsIsUnavailable() async throws {
        try await PusherFixture.run { fixture in
            for number in 1...5 { try await fixture.register("d\(number)", for: "o", token: number) }
            try await PushTable.run(fixture) {
                $0.attempts = 2
            } _: { table in
                try await fixture.apns.add(APNSSimulatorFault(.cut))
                try await table.put([try fixture.changed("o")])
                try await eventually("more attempts than one device would get") { fixture.pushes("retried") >= 12 }
                #expect(table.doneCount == 0)
                #expect(fixture.pushes("dropped") == 0)
                try await fixture.apns.clearFaults()
                try await eventually("done", within: .seconds(60)) { table.doneCount == 1 }
            }
            #expect(try await fixture.delivered().sorted() == (1...5).map(PusherFixture.token))
            #expect(fixture.pushes("delivered") == 5)
        }
    }

    @Test func changesWhileInFlightCauseOneMoreNotification() async throws {
        try await PusherFixture.run { fixture in
            try await fixture.register("d", for: "o", token: 1)
            try await fixture.apns.add(
                APNSSimulatorFault(.answer(APNSSimulatorAnswer(200), delayMilliseconds: 500), count: 1))
            try await PushTable.run(fixture) { table in
                try await table.put([try fixture.changed("o")])
                try await eventually("in flight") { table.scheduler.gauges.inFlight == 1 }
                try await table.put([try fixture.changed("o", offset: 1), try fixture.changed("o", offset: 2)])
                try await eventually("done") { table.doneCount == 3 }
            }
            #expect(fixture.pushes("delivered") == 2)
            #expect(fixture.pushes("coalesced") == 1)
        }
    }

    @Test func lookupsFailWhileRedisIsUnavailable() async throws {
        try await PusherFixture.run(redisDeadline: .seconds(2)) { fixture in
            await fixture.server.stop()
            try await PushTable.run(fixture) { table in
                await #expect(throws: StoreError.self) { try await table.put([try fixture.changed("o")]) }
            }
            #expect(try await fixture.notified().isEmpty)
        }
    }

    @Test func aDeviceThatRegistersSoonAfterAChangeIsNotified() async throws {
        try await PusherFixture.run { fixture in
            for (name, modified) in [("new", PusherFixture.noon - 899), ("old", PusherFixture.noon - 901)] {
                _ = try await fixture.redis.send(
                    RedisCommand(
                        "HSET", .string("waybill:1:order:{\(try PusherFixture.order(name))}"), "version", "1",
                        "modified",
                        .integer(modified)))
            }
            var records: [KafkaRecord] = []
            for (number, name) in ["new", "old", "unknown"].enumerated() {
                let (key, record) = try await fixture.register(
                    "d\(number)", for: name, token: number, at: PusherFixture.noon * 1000)
                records.append(
                    KafkaRecord(
                        topic: fixture.topics.registrations, partition: 0, offset: Int64(number),
                        timestampMilliseconds: PusherFixture.noon * 1000, key: Array(key.text.utf8),
                        value: record.encoded))
            }
            // Read an hour late.
            try await PushTable.run(fixture, now: { (PusherFixture.noon + 3600) * 1000 }) { [records] in
                try await $0.process(records)
            }
            #expect(try await fixture.notified() == [PusherFixture.token(0)])
        }
    }

    @Test func aLookupFailsUntilRedisIsRestored() async throws {
        try await PusherFixture.run { fixture in
            try await PushTable.run(fixture, view: MaterializedView(redis: fixture.redis)) { table in
                let change = try fixture.changed("o")
                await #expect(throws: StoreError.self) { try await table.put([change]) }
                #expect(try await fixture.notified().isEmpty)
                try await fixture.register("d", for: "o", token: 1)
                try await fixture.redis.completeView()
                try await table.process([change])
            }
            #expect(try await fixture.notified() == [PusherFixture.token(1)])
        }
    }
}
