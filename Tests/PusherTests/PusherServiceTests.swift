import Kafka
import Model
import Redis
import TestKit
import TestTraits
import Testing

@testable import Pusher

/// The service as it is built for production, run and stopped.
@Suite(.server) struct PusherServiceTests {
    private func serve(
        _ fixture: PusherFixture, _ directory: TemporaryDirectory, _ body: (KafkaAdmin) async throws -> Void
    ) async throws {
        try await fixture.serve(directory) { try await body(fixture.admin) }
    }

    private func lag(_ fixture: PusherFixture, _ admin: KafkaAdmin) async throws -> Int64 { try await fixture.lag() }

    private func publish(_ fixture: PusherFixture, _ order: String) async throws { try await fixture.publish([order]) }

    @Test(.timeLimit(.minutes(2)))
    func aRecordIsCommittedOnlyAfterItsLastVerdict() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-service")
            try await fixture.register("d", for: "o", token: 1)
            try await fixture.apns.add(
                APNSSimulatorFault(.answer(APNSSimulatorAnswer(503, "ServiceUnavailable"), delayMilliseconds: 0)))
            try await self.publish(fixture, "o")
            // Stopped between two attempts: neither delivered nor given up.
            try await self.serve(fixture, directory) { _ in
                try await eventually("two attempts") { try await fixture.notified().count >= 2 }
            }
            let attempts = try await fixture.notified().count
            #expect(attempts < 6)
            #expect(try await self.lag(fixture, fixture.admin) == 1)
            #expect(fixture.pushes("dropped") == 0)

            // The next owner of the partition delivers it.
            try await fixture.apns.clearFaults()
            try await self.serve(fixture, directory) { admin in
                try await eventually("committed") { try await self.lag(fixture, admin) == 0 }
            }
            #expect(try await fixture.apns.deliveries().deliveries.filter { $0.status == 200 }.count == 1)
        }
    }

    /// The gateway's records about a device that registered a minute after a change, and about one much later.
    @Test(.timeLimit(.minutes(2)))
    func aRegistrationRecordSoonAfterAChangeNotifiesItsDevice() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-service")
            _ = try await fixture.redis.send(
                RedisCommand(
                    "HSET", .string("waybill:1:order:{\(try PusherFixture.order("o"))}"), "version", "1", "modified",
                    .integer(PusherFixture.noon - 60)))
            for (number, moment) in [PusherFixture.noon + 3600, PusherFixture.noon].enumerated() {
                let (key, record) = try await fixture.register("d\(number)", for: "o", token: number, at: moment * 1000)
                _ = try await fixture.producer.produce(
                    KafkaMessage(topic: fixture.topics.registrations, key: Array(key.text.utf8), value: record.encoded))
            }
            try await self.serve(fixture, directory) { admin in
                try await eventually("committed") {
                    let lag = try await admin.lag(group: Pusher.group, topic: fixture.topics.registrations)
                    return lag.values.reduce(0, +) == 0
                }
            }
            #expect(try await fixture.notified() == [PusherFixture.token(1)])
        }
    }

    /// Made-up devices register soon after a change; the device of another order does so too.
    @Test(.timeLimit(.minutes(2)))
    func registrationsHaveAShareOfAnOrdersNotifications() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-service")
            for order in ["o", "other"] {
                _ = try await fixture.redis.send(
                    RedisCommand(
                        "HSET", .string("waybill:1:order:{\(try PusherFixture.order(order))}"), "version", "1",
                        "modified", .integer(PusherFixture.noon - 60)))
            }
            for number in 0..<30 {
                let (key, record) = try await fixture.register(
                    "d\(number)", for: number < 29 ? "o" : "other", token: number, at: PusherFixture.noon * 1000)
                _ = try await fixture.producer.produce(
                    KafkaMessage(topic: fixture.topics.registrations, key: Array(key.text.utf8), value: record.encoded))
            }
            try await fixture.serve(directory, limits: { $0.registrationLimit = 20 }) {
                try await eventually("committed") {
                    let lag = try await fixture.admin.lag(group: Pusher.group, topic: fixture.topics.registrations)
                    return lag.values.reduce(0, +) == 0
                }
                try await eventually("the other order's device is notified") {
                    try await fixture.notified().contains(PusherFixture.token(29))
                }
            }
            #expect(try await fixture.notified().count == 11, "half of twenty at once, and the other order's")
            #expect(fixture.metrics.counter("waybill_push_registrations_limited_total") >= 19)
        }
    }

    @Test(.timeLimit(.minutes(2)))
    func orderTypesWithoutABrandAndKeylessRecordsDoNotBlockOthers() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-service")
            try await fixture.register("d", for: "o", token: 1)
            _ = try await fixture.producer.produce(KafkaMessage(topic: fixture.topics.orders, key: nil, value: [1]))
            _ = try await fixture.producer.produce(
                KafkaMessage(topic: fixture.topics.orders, key: Array("order.com.example.other/x".utf8), value: [1]))
            try await self.publish(fixture, "o")
            try await self.serve(fixture, directory) { admin in
                try await eventually("committed") { try await self.lag(fixture, admin) == 0 }
            }
            #expect(try await fixture.notified() == [PusherFixture.token(1)])
            #expect(fixture.metrics.counter("waybill_records_unreadable_total") == 1)
        }
    }

    /// Takes long because the outage must last longer than the group's session.
    @Test(.timeLimit(.minutes(2)))
    func changesBeforeAndDuringAKafkaOutageAreNotified() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-service")
            for number in 0..<3 { try await fixture.register("d\(number)", for: "o\(number)", token: number) }
            try await self.publish(fixture, "o0")
            try await self.serve(fixture, directory) { admin in
                try await eventually("the first is notified") { try await fixture.notified().count == 1 }
                try await self.publish(fixture, "o1")
                try fixture.broker.setDown()
                async let late: Void = self.publish(fixture, "o2")
                try await Task.sleep(for: .seconds(7))
                try fixture.broker.setUp()
                try await late
                try await eventually("all are notified and committed", within: .seconds(60)) {
                    guard try await Set(fixture.notified()) == Set((0..<3).map(PusherFixture.token)) else {
                        return false
                    }
                    return try await self.lag(fixture, admin) == 0
                }
            }
        }
    }
}
