import Kafka
import Model
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Pusher

/// The service under load and with stalled parts: nothing is lost, nothing is committed too early.
@Suite(.server, .timeLimit(.minutes(3))) struct PusherLoadTests {
    @Test func changesWithinAWindowAreOnePushCommittedAfterItsVerdict() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-load")
            for number in 0..<20 { try await fixture.register("d", for: "o\(number % 4)", token: 1) }
            // Long enough to be seen in flight by a test that seldom gets a processor.
            try await fixture.apns.add(
                APNSSimulatorFault(.answer(APNSSimulatorAnswer(200), delayMilliseconds: 6_000)))
            try await fixture.publish((0..<20).map { "o\($0 % 4)" })
            try await fixture.serve(directory, settings: ["WAYBILL_PUSH_WINDOW_MILLISECONDS": "3000"]) {
                try await eventually("in flight") {
                    try await fixture.apns.connections().map(\.openStreams).reduce(0, +) == 1
                }
                #expect(try await fixture.lag() == 20)
                try await eventually("committed") { try await fixture.lag() == 0 }
            }
            #expect(try await fixture.notified() == [PusherFixture.token(1)])
            #expect(fixture.pushes("coalesced") == 19)
        }
    }

    @Test func withoutAWindowAChangeIsSentWithoutWaitingForATick() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-load")
            for number in 0..<60 { try await fixture.register("d\(number)", for: "o\(number)", token: number) }
            try await fixture.serve(directory, settings: ["WAYBILL_PUSH_WINDOW_MILLISECONDS": "0"]) {
                try await fixture.publish(["o0"])
                try await eventually("the connection is there") { try await fixture.delivered().count == 1 }
                var best = Duration.seconds(60)
                for number in 1..<60 {
                    let start = MonotonicTime.now
                    try await fixture.publish(["o\(number)"])
                    while try await fixture.delivered().count == number { await Task.yield() }
                    best = min(best, .now - start)
                }
                // Each change follows the end of the one before, so one that waits for a tick waits for a whole one.
                #expect(best < PushWorker.tick * 3 / 4, "the quickest of some: others work on this machine")
            }
        }
    }

    /// Takes long because a silent connection is only detected by its silence.
    @Test func aFullSchedulerSurvivesASilentAPNsAndNotifiesEveryDevice() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-load")
            for number in 0..<200 { try await fixture.register("d\(number)", for: "o\(number)", token: number) }
            try await fixture.publish((0..<200).map { "o\($0)" })
            try await fixture.apns.add(APNSSimulatorFault(.condition(.blackHole)))
            let limits = { (limits: inout PushLimits) in
                (limits.records, limits.targets, limits.links, limits.inFlight) = (50, 50, 60, 20)
                limits.attempts = 2
            }
            try await fixture.serve(directory, limits: limits) {
                try await eventually("full") { fixture.gauge("waybill_records_in_hand") == 50 }
                for _ in 0..<100 {
                    try await Task.sleep(for: .milliseconds(30))
                    #expect(fixture.gauge("waybill_records_in_hand") <= 50)
                }
                try await fixture.apns.clearFaults()
                // Records that waited for seconds are committed before their notifications: they are on push-pending.
                try await eventually("notified", within: .seconds(90)) {
                    try await Set(fixture.delivered()) == Set((0..<200).map(PusherFixture.token))
                }
                try await eventually("committed", within: .seconds(90)) { try await fixture.lag() == 0 }
            }
            #expect(fixture.pushes("dropped") == 0)
        }
    }

    /// Takes long because the group waits for all of its members twice.
    @Test func aRebalanceNotifiesEveryDeviceAndMovesNoOffsetBack() async throws {
        try await PusherFixture.run(partitions: 4) { fixture in
            let directory = try TemporaryDirectory("pusher-load")
            let names = (0..<120).map { "o\($0)" }
            for (number, name) in names.enumerated() {
                try await fixture.register("d\(number)", for: name, token: number)
            }
            try await fixture.apns.add(APNSSimulatorFault(.randomDelay(50...400)))
            let last = Mutex<[Int32: Int64]>([:])
            func look() async throws {
                let committed = try await fixture.admin.committed(group: Pusher.group, topic: fixture.topics.orders)
                last.withLock { last in
                    for (partition, offset) in committed {
                        #expect(offset >= last[partition] ?? .min)
                        last[partition] = offset
                    }
                }
            }
            try await fixture.serve(directory) {
                try await fixture.publish(Array(names[..<40]))
                try await eventually("the first one works") { try await fixture.notified().count >= 20 }
                try await fixture.serve(directory) {
                    for name in names[40..<80] {
                        try await fixture.publish([name])
                        try await Task.sleep(for: .milliseconds(100))
                        try await look()
                    }
                }
                try await fixture.publish(Array(names[80...]))
                try await eventually("committed", within: .seconds(60)) {
                    try await look()
                    return try await fixture.lag() == 0
                }
            }
            #expect(try await Set(fixture.delivered()) == Set((0..<120).map(PusherFixture.token)))
        }
    }

    @Test func aStoppedServiceCommitsOnlyNotifiedRecords() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-load")
            for number in 0..<20 { try await fixture.register("d\(number)", for: "o\(number)", token: number) }
            try await fixture.apns.add(
                APNSSimulatorFault(.answer(APNSSimulatorAnswer(200), delayMilliseconds: 6000)))
            try await fixture.publish((0..<20).map { "o\($0)" })
            try await fixture.serve(directory, limits: { $0.inFlight = 5 }) {
                try await eventually("all in flight that may be") {
                    try await fixture.apns.connections().map(\.openStreams).reduce(0, +) == 5
                }
                #expect(try await fixture.lag() == 20)
            }
            let notified = try await fixture.delivered()
            #expect(notified.count == 5)
            // Devices are notified in the order of the lookups, which varies: the committed ones are among them.
            let committed = 20 - Int(try await fixture.lag())
            #expect(Set((0..<committed).map(PusherFixture.token)).isSubset(of: notified))
            #expect(!notified.contains(PusherFixture.token(committed)), "as far as verdicts go")
            try await fixture.apns.clearFaults()
            try await fixture.serve(directory) {
                try await eventually("the rest is committed") { try await fixture.lag() == 0 }
            }
            #expect(try await Set(fixture.delivered()) == Set((0..<20).map(PusherFixture.token)))
        }
    }

    @Test func anOffsetIsNotCommittedUntilItsDeadLetterIsWritten() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-load")
            for number in 0..<2 { try await fixture.register("d\(number)", for: "o\(number)", token: number) }
            let answer = APNSSimulatorAnswer(429, "TooManyRequests")
            try await fixture.apns.add(
                APNSSimulatorFault(.answer(answer, delayMilliseconds: 0), token: PusherFixture.token(0)))
            try await fixture.publish(["o0", "o1"])
            // The group must not consider the partition lost before the retry, which takes two seconds.
            let patient = KafkaBroker.quickFile(["session.timeout.ms": "30000"])
            let settings = [
                "WAYBILL_PUSH_ATTEMPTS": "2",
                "WAYBILL_KAFKA_PROPERTIES": try directory.write("patient.properties", patient),
            ]
            try await fixture.serve(directory, settings: settings) {
                try await eventually("the first attempt") { try await fixture.notified().count == 2 }
                try fixture.broker.setDown()
                try await eventually("given up") { fixture.pushes("dropped") == 1 }
                try await Task.sleep(for: .seconds(2))
                #expect(fixture.gauge("waybill_records_in_hand") == 1)
                #expect(fixture.count("waybill_push_dead_letters_total", "code=\"push-undeliverable\"") == 0)
                try fixture.broker.setUp()
                try await eventually("committed", within: .seconds(60)) { try await fixture.lag() == 0 }
                #expect(fixture.count("waybill_push_dead_letters_total", "code=\"push-undeliverable\"") == 1)
            }
            #expect(try await Set(fixture.deadLetters(1).map(\.code)) == ["push-undeliverable"])
        }
    }

    @Test func theLastOfManyChangesIsSentWhenTheHourlyLimitAllows() async throws {
        try await PusherFixture.run { fixture in
            try await fixture.register("d", for: "o", token: 1)
            let clock = Clock()
            try await PushTable.run(
                fixture, limits: { $0.hourlyLimit = 4 }, clock: { .now + clock.ahead.withLock { $0 } },
                now: { PusherFixture.noon * 1000 + Int64(clock.ahead.withLock { $0 } / .milliseconds(1)) }
            ) { table in
                // Two immediately, then one every 20 minutes.
                for offset in Int64(0)..<2 { try await table.process([try fixture.changed("o", offset: offset)]) }
                for offset in Int64(2)..<8 { try await table.put([try fixture.changed("o", offset: offset)]) }
                try await eventually("limited") { fixture.pushes("limited") == 1 }
                #expect(table.doneCount == 2)
                clock.ahead.withLock { $0 = .seconds(1100) }
                try await Task.sleep(for: .milliseconds(100))
                #expect(try await fixture.notified().count == 2)
                clock.ahead.withLock { $0 = .seconds(1300) }
                try await eventually("the last one is notified") { table.doneCount == 8 }
                #expect(try await fixture.notified().count == 3)
            }
        }
    }

    private final class Clock: Sendable {
        let ahead = Mutex(Duration.zero)
    }
}
