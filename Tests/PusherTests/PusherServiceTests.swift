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
        _ scene: PusherFixture, _ directory: TemporaryDirectory, _ body: (KafkaAdmin) async throws -> Void
    ) async throws {
        try await scene.serve(directory) { try await body(scene.admin) }
    }

    private func lag(_ scene: PusherFixture, _ admin: KafkaAdmin) async throws -> Int64 { try await scene.lag() }

    private func publish(_ scene: PusherFixture, _ order: String) async throws { try await scene.publish([order]) }

    @Test(.timeLimit(.minutes(2)))
    func aRecordIsCommittedBehindItsLastVerdictOnly() async throws {
        try await PusherFixture.run { scene in
            let directory = try TemporaryDirectory("pusher-service")
            try await scene.register("d", for: "o", token: 1)
            try await scene.apns.add(
                APNSSimulatorFault(.answer(APNSSimulatorAnswer(503, "ServiceUnavailable"), delayMilliseconds: 0)))
            try await self.publish(scene, "o")
            // Stopped between two attempts: neither delivered nor given up.
            try await self.serve(scene, directory) { _ in
                try await eventually("two attempts") { try await scene.told().count >= 2 }
            }
            let attempts = try await scene.told().count
            #expect(attempts < 6)
            #expect(try await self.lag(scene, scene.admin) == 1)
            #expect(scene.pushes("dropped") == 0)

            // The next owner does it.
            try await scene.apns.clearFaults()
            try await self.serve(scene, directory) { admin in
                try await eventually("committed") { try await self.lag(scene, admin) == 0 }
            }
            #expect(try await scene.apns.deliveries().deliveries.filter { $0.status == 200 }.count == 1)
        }
    }

    /// The gateway's records about a device that registered a minute after a change, and about one that came late.
    @Test(.timeLimit(.minutes(2)))
    func whoRegistersSoonAfterAChangeIsToldByWayOfKafka() async throws {
        try await PusherFixture.run { scene in
            let directory = try TemporaryDirectory("pusher-service")
            _ = try await scene.redis.send(
                RedisCommand(
                    "HSET", .string("waybill:order:{\(try PusherFixture.order("o"))}"), "version", "1", "modified",
                    .integer(PusherFixture.noon - 60)))
            for (number, moment) in [PusherFixture.noon + 3600, PusherFixture.noon].enumerated() {
                let (key, record) = try await scene.register("d\(number)", for: "o", token: number, at: moment * 1000)
                _ = try await scene.producer.produce(
                    KafkaMessage(topic: scene.topics.registrations, key: Array(key.text.utf8), value: record.encoded))
            }
            try await self.serve(scene, directory) { admin in
                try await eventually("committed") {
                    let lag = try await admin.lag(group: Pusher.group, topic: scene.topics.registrations)
                    return lag.values.reduce(0, +) == 0
                }
            }
            #expect(try await scene.told() == [PusherFixture.token(1)])
        }
    }

    @Test(.timeLimit(.minutes(2)))
    func aBrandlessTypeAndANamelessRecordBlockNobody() async throws {
        try await PusherFixture.run { scene in
            let directory = try TemporaryDirectory("pusher-service")
            try await scene.register("d", for: "o", token: 1)
            _ = try await scene.producer.produce(KafkaMessage(topic: scene.topics.orders, key: nil, value: [1]))
            _ = try await scene.producer.produce(
                KafkaMessage(topic: scene.topics.orders, key: Array("order.com.example.other/x".utf8), value: [1]))
            try await self.publish(scene, "o")
            try await self.serve(scene, directory) { admin in
                try await eventually("committed") { try await self.lag(scene, admin) == 0 }
            }
            #expect(try await scene.told() == [PusherFixture.token(1)])
            #expect(scene.metrics.counter("waybill_records_unreadable_total") == 1)
        }
    }

    /// Takes long because the outage must last longer than the group's session.
    @Test(.timeLimit(.minutes(2)))
    func whatIsPublishedBeforeAndDuringAnOutageIsToldWhenKafkaIsBack() async throws {
        try await PusherFixture.run { scene in
            let directory = try TemporaryDirectory("pusher-service")
            for number in 0..<3 { try await scene.register("d\(number)", for: "o\(number)", token: number) }
            try await self.publish(scene, "o0")
            try await self.serve(scene, directory) { admin in
                try await eventually("the first is told") { try await scene.told().count == 1 }
                try await self.publish(scene, "o1")
                try scene.broker.setDown()
                async let late: Void = self.publish(scene, "o2")
                try await Task.sleep(for: .seconds(7))
                try scene.broker.setUp()
                try await late
                try await eventually("all are told and committed", within: .seconds(60)) {
                    guard try await Set(scene.told()) == Set((0..<3).map(PusherFixture.token)) else { return false }
                    return try await self.lag(scene, admin) == 0
                }
            }
        }
    }
}
