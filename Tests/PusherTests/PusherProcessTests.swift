import Foundation
import Glibc
import Kafka
import Model
import TestKit
import TestTraits
import Testing

@testable import Pusher

/// The program itself, stopped and killed while notifications are in flight.
@Suite(.server, .timeLimit(.minutes(4))) struct PusherProcessTests {
    private func publish(_ fixture: PusherFixture, _ orders: Range<Int>) async throws {
        for outcome in await fixture.producer.produce(
            try orders.map { number in
                KafkaMessage(
                    topic: fixture.topics.orders, key: Array("\(try PusherFixture.order("o\(number)"))".utf8),
                    value: Array("{}".utf8))
            })
        {
            _ = try outcome.get()
        }
    }

    /// Changes the orders of three devices, one of which APNs throttles.
    private func publishThree(_ fixture: PusherFixture, busy: Int) async throws {
        try await fixture.redis.completeView()
        for number in 0..<3 { try await fixture.register("d\(number)", for: "o\(number)", token: number) }
        let answer = APNSSimulatorAnswer(429, "TooManyRequests")
        try await fixture.apns.add(
            APNSSimulatorFault(.answer(answer, delayMilliseconds: 0), token: PusherFixture.token(busy)))
        try await self.publish(fixture, 0..<3)
    }

    private func lag(_ fixture: PusherFixture) async throws -> Int64 {
        try await fixture.admin.lag(group: Pusher.group, topic: fixture.topics.orders).values.reduce(0, +)
    }

    @Test func theNextPusherRetriesTheUncommittedRecordsOfAKilledPusher() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-process")
            try await self.publishThree(fixture, busy: 0)
            let first = try fixture.child(directory)
            try await eventually("two attempts for the first, one for each other") {
                let notified = try await fixture.notified()
                return notified.count { $0 == PusherFixture.token(0) } >= 2 && Set(notified).count == 3
            }
            first.signal(SIGKILL)
            _ = try await first.exit(within: .seconds(10))
            #expect(try await self.lag(fixture) == 3, "nothing is committed in front of what has no verdict")
            try await fixture.apns.clearFaults()
            let second = try fixture.child(directory)
            try await eventually("committed", within: .seconds(60)) { try await self.lag(fixture) == 0 }
            #expect(await second.stop(grace: .seconds(20)) == .code(0))
            let deliveries = try await fixture.apns.deliveries().deliveries
            #expect(deliveries.last { $0.token == PusherFixture.token(0) }?.status == 200)
        }
    }

    @Test func anUndeliverableNotificationIsDeadLetteredAndTheOffsetAdvances() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-process")
            try await self.publishThree(fixture, busy: 1)
            let pusher = try fixture.child(directory, ["WAYBILL_PUSH_ATTEMPTS": "2"])
            try await eventually("committed") { try await self.lag(fixture) == 0 }
            #expect(await pusher.stop(grace: .seconds(20)) == .code(0))
            let deadLetter = try #require(try await fixture.deadLetters(1).first)
            #expect(deadLetter.code == "push-undeliverable")
            #expect(deadLetter.value.object?["device"]?.string == "d1")
            #expect(!pusher.output.contains(PusherFixture.token(1)), "no push token in the log")
        }
    }

    @Test func aStoppedPusherFinishesAndCommitsWhatIsInFlight() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-process")
            try await fixture.redis.completeView()
            // No more than a new connection accepts before its first answer. Of one order, so that they leave together.
            for number in 0..<8 { try await fixture.register("d\(number)", for: "o0", token: number) }
            try await fixture.apns.add(
                APNSSimulatorFault(.answer(APNSSimulatorAnswer(200), delayMilliseconds: 4000)))
            try await self.publish(fixture, 0..<1)
            let pusher = try fixture.child(directory)
            try await eventually("all in flight") {
                try await fixture.apns.connections().map(\.openStreams).reduce(0, +) == 8
            }
            pusher.signal(SIGTERM)
            #expect(try await pusher.exit(within: .seconds(20)) == .code(0))
            #expect(try await fixture.notified().count == 8, "nobody twice")
            #expect(try await self.lag(fixture) == 0)
        }
    }

    @Test func anIdlePusherUsesAlmostNoCPUTime() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-process")
            try await fixture.redis.completeView()
            try await fixture.register("d", for: "o0", token: 0)
            try await self.publish(fixture, 0..<1)
            let pusher = try fixture.child(directory)
            try await eventually("committed") { try await self.lag(fixture) == 0 }
            // User and system time in hundredths of a second. Source: proc(5)
            func used() throws -> Int {
                let text = try String(contentsOfFile: "/proc/\(pusher.processIdentifier)/stat", encoding: .utf8)
                let fields = text.split(separator: ")").last?.split(separator: " ") ?? []
                try #require(fields.count > 12)
                return try #require(Int(fields[11])) + #require(Int(fields[12]))
            }
            // 2 are a hundredth of a processor; a debug build uses several times as much as a release build. Repeated
            // until it is idle: a pusher that polls never is, and a busy machine takes longer to finish starting.
            try await eventually("an idle pusher uses at most a twenty-fifth of a processor") {
                let before = try used()
                try await Task.sleep(for: .seconds(2))
                return try used() - before <= 8
            }
            #expect(await pusher.stop(grace: .seconds(20)) == .code(0))
        }
    }

    /// Pushers that trap at a record, and one without the defect.
    @Test func aRecordThatEndsEachPusherBecomesADeadLetterAndStopsNoOther() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-process")
            try await fixture.redis.completeView()
            for number in 0..<20 { try await fixture.register("d\(number)", for: "o\(number)", token: number) }
            try await self.publish(fixture, 0..<10)
            let poison = KafkaMessage(
                topic: fixture.topics.orders, key: Array("\(try PusherFixture.order("o3"))".utf8),
                value: Array(#"{"ends":"pushers"}"#.utf8))
            _ = try await fixture.producer.produce(poison)
            try await self.publish(fixture, 10..<20)
            let trap = ["WAYBILL_TRAP_AT": "pushers", "SWIFT_BACKTRACE": "enable=no"]
            var deaths = 0
            var pusher = try fixture.child(directory, trap)
            try await eventually("committed", within: .seconds(200)) {
                if let exit = pusher.exit {
                    deaths += 1
                    try #require(deaths <= 4 && exit != .code(0), "\(pusher.tail)")
                    pusher = try fixture.child(directory, trap)
                }
                return try await self.lag(fixture) == 0
            }
            #expect(deaths == 4, "one with others in work, and three alone")
            let letter = try #require(try await fixture.deadLetters(1).first)
            #expect(letter.code == "push-worker-ended")
            try await eventually("all others") {
                try await Set(fixture.notified()).isSuperset(of: (0..<20).map { PusherFixture.token($0) })
            }
            let survey = try await PushDeadLetterSurvey(code: nil, since: nil).read(
                KafkaConfiguration(bootstrap: fixture.broker.bootstrap), topic: fixture.topics.deadLetters)
            #expect(survey.keys == [PendingPushKey(order: try PusherFixture.order("o3"))], "all of its order's")
            #expect(await pusher.stop(grace: .seconds(20)) == .code(0))
        }
    }
}

extension PusherFixture {
    /// Starts a pusher on the fixture's servers. Its executable is next to that of the tests.
    func child(
        _ directory: TemporaryDirectory, _ settings: [String: String] = [:], brands: [String] = ["shop"]
    ) throws -> ChildProcess {
        let brandFixture = try PusherBrandFixture.shared.get()
        let program = Program.built("waybill-pusher")
        let quick = KafkaBroker.quickFile()
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
