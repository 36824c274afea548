import Foundation
import Glibc
import Kafka
import Model
import TestKit
import TestTraits
import Testing

@testable import Pusher

/// The program itself, stopped and killed while notifications are in flight.
@Suite(.server, .timeLimit(.minutes(2))) struct PusherProcessTests {
    private func publish(_ scene: PusherFixture, _ orders: Range<Int>) async throws {
        for outcome in await scene.producer.produce(
            try orders.map { number in
                KafkaMessage(
                    topic: scene.topics.orders, key: Array("\(try PusherFixture.order("o\(number)"))".utf8),
                    value: Array("{}".utf8))
            })
        {
            _ = try outcome.get()
        }
    }

    /// Changes the orders of three devices, one of which APNs throttles.
    private func publishThree(_ scene: PusherFixture, busy: Int) async throws {
        try await scene.redis.completeView()
        for number in 0..<3 { try await scene.register("d\(number)", for: "o\(number)", token: number) }
        let answer = APNSSimulatorAnswer(429, "TooManyRequests")
        try await scene.apns.add(
            APNSSimulatorFault(.answer(answer, delayMilliseconds: 0), token: PusherFixture.token(busy)))
        try await self.publish(scene, 0..<3)
    }

    private func lag(_ scene: PusherFixture) async throws -> Int64 {
        try await scene.admin.lag(group: Pusher.group, topic: scene.topics.orders).values.reduce(0, +)
    }

    @Test func aKilledPusherLeavesWhatHasToBeTriedAgainToTheNextOne() async throws {
        try await PusherFixture.run { scene in
            let directory = try TemporaryDirectory("pusher-process")
            try await self.publishThree(scene, busy: 0)
            let first = try scene.child(directory)
            try await eventually("two attempts for the first, one for each other") {
                let told = try await scene.told()
                return told.count { $0 == PusherFixture.token(0) } >= 2 && Set(told).count == 3
            }
            first.signal(SIGKILL)
            _ = try await first.exit(within: .seconds(10))
            #expect(try await self.lag(scene) == 3, "nothing is committed in front of what has no verdict")
            try await scene.apns.clearFaults()
            let second = try scene.child(directory)
            try await eventually("committed", within: .seconds(60)) { try await self.lag(scene) == 0 }
            #expect(await second.stop(grace: .seconds(20)) == .code(0))
            let deliveries = try await scene.apns.deliveries().deliveries
            #expect(deliveries.last { $0.token == PusherFixture.token(0) }?.status == 200)
        }
    }

    @Test func aStuckDeviceGetsALetterAndTheOffsetMoves() async throws {
        try await PusherFixture.run { scene in
            let directory = try TemporaryDirectory("pusher-process")
            try await self.publishThree(scene, busy: 1)
            let pusher = try scene.child(directory, ["WAYBILL_PUSH_ATTEMPTS": "2"])
            try await eventually("committed") { try await self.lag(scene) == 0 }
            #expect(await pusher.stop(grace: .seconds(20)) == .code(0))
            let letter = try #require(try await scene.letters(1).first)
            #expect(letter.code == "push-undeliverable")
            #expect(letter.value.object?["device"]?.string == "d1")
            #expect(!pusher.output.contains(PusherFixture.token(1)), "no push token in the log")
        }
    }

    @Test func aStoppedPusherWaitsForWhatIsInFlightAndCommitsIt() async throws {
        try await PusherFixture.run { scene in
            let directory = try TemporaryDirectory("pusher-process")
            try await scene.redis.completeView()
            // No more than a new connection accepts before its first answer.
            for number in 0..<8 { try await scene.register("d\(number)", for: "o\(number)", token: number) }
            try await scene.apns.add(
                APNSSimulatorFault(.answer(APNSSimulatorAnswer(200), delayMilliseconds: 2000)))
            try await self.publish(scene, 0..<8)
            let pusher = try scene.child(directory)
            try await eventually("all in flight") {
                try await scene.apns.connections().map(\.openStreams).reduce(0, +) == 8
            }
            pusher.signal(SIGTERM)
            #expect(try await pusher.exit(within: .seconds(20)) == .code(0))
            #expect(try await scene.told().count == 8, "nobody twice")
            #expect(try await self.lag(scene) == 0)
        }
    }

    @Test func anIdlePusherHardlyUsesAProcessor() async throws {
        try await PusherFixture.run { scene in
            let directory = try TemporaryDirectory("pusher-process")
            try await scene.redis.completeView()
            try await scene.register("d", for: "o0", token: 0)
            try await self.publish(scene, 0..<1)
            let pusher = try scene.child(directory)
            try await eventually("committed") { try await self.lag(scene) == 0 }
            // User and system time in hundredths of a second. Source: proc(5)
            func used() throws -> Int {
                let text = try String(contentsOfFile: "/proc/\(pusher.processIdentifier)/stat", encoding: .utf8)
                let fields = text.split(separator: ")").last?.split(separator: " ") ?? []
                try #require(fields.count > 12)
                return try #require(Int(fields[11])) + #require(Int(fields[12]))
            }
            // 2 are a hundredth of a processor; a debug build uses several times as much as a release build. Looked at
            // until it is calm: a pusher that polls never is, and what a start leaves to do takes a busy machine longer.
            try await eventually("an idle pusher uses at most a twenty-fifth of a processor") {
                let before = try used()
                try await Task.sleep(for: .seconds(2))
                return try used() - before <= 8
            }
            #expect(await pusher.stop(grace: .seconds(20)) == .code(0))
        }
    }
}

extension PusherFixture {
    /// Starts a pusher on the scene's servers. Its executable is beside that of the tests.
    func child(
        _ directory: TemporaryDirectory, _ settings: [String: String] = [:], brands: [String] = ["shop"]
    ) throws -> ChildProcess {
        let brandFixture = try PusherBrandFixture.shared.get()
        let tests = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let program = URL(filePath: tests).deletingLastPathComponent().appending(path: "waybill-pusher").path()
        let quick = KafkaBroker.quick.map { "\($0)=\($1)\n" }.joined()
        let environment = [
            "WAYBILL_KAFKA_BOOTSTRAP": self.broker.bootstrap, "WAYBILL_REDIS_URL": self.server.url,
            "WAYBILL_KAFKA_PROPERTIES": try directory.write("kafka.properties", quick),
            "WAYBILL_BRANDS": try brandFixture.write(brands, into: directory), "WAYBILL_APNS_URL": self.apns.url,
            "WAYBILL_APNS_ROOTS": try directory.write("roots.pem", brandFixture.rootPEM),
            "WAYBILL_PUSH_WINDOW_MILLISECONDS": "50", "WAYBILL_OPERATIONS_LISTEN": "127.0.0.1:0",
        ]
        return try ChildProcess(program, environment: environment.merging(settings) { $1 })
    }
}
