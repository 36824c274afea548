import APNS
import Model
import TestKit
import Testing

@testable import Pusher

/// An APNs that works only partially, for the duration of an incident: queue, health and schedule on a simulated clock.
@Suite struct BrownOutTests {
    /// Notifications that pass through a queue, in the order of their events.
    private struct Fixture {
        private enum Event {
            case ready(Int)
            case answered(Int)
        }

        var queue: CredentialQueue
        private let start = MonotonicTime.now
        private var events: [Int: [Event]] = [:]
        private var tries: [PushAttempts] = []
        private var ready: [Int] = []
        private var random: SeededGenerator
        /// Milliseconds.
        private(set) var time = 0
        private(set) var given = 0
        private(set) var attempts = 0
        /// The time when each was notified, in milliseconds after it arrived.
        private(set) var notified: [Int: Int] = [:]
        private(set) var changes: [CredentialQueue.Change] = []

        /// Milliseconds between two checks of what is due.
        private static let step = 5

        init(seed: UInt64) throws {
            self.random = SeededGenerator(seed: seed)
            var limits = PushLimits()
            limits.hourlyLimit = 0
            self.queue = CredentialQueue(
                try OrderTypeIdentifier(SchedulerFixture.order), generation: 1, limits: limits)
        }

        var waiting: Int { self.tries.count - self.notified.count }
        private var now: MonotonicTime { self.start + .milliseconds(self.time) }

        /// Lets time pass.
        ///
        /// - Parameters:
        ///   - every: milliseconds between two new notifications; nil for none.
        ///   - answer: returns the answer to an attempt of one notification.
        mutating func run(milliseconds: Int, every: Int?, answer: (Int, inout SeededGenerator) -> PushOutcome) throws {
            let end = self.time + milliseconds
            while self.time < end {
                self.time += Self.step
                if every == nil, self.ready.isEmpty, self.events.count < 10 {
                    self.time = min(self.events.keys.min() ?? end, end)
                }
                if let every, self.time % every == 0 {
                    self.tries.append(PushAttempts(serial: UInt64(self.tries.count), now: self.now))
                    self.ready.append(self.tries.count - 1)
                }
                for event in self.events.removeValue(forKey: self.time) ?? [] {
                    switch event {
                    case .ready(let number): self.ready.append(number)
                    case .answered(let number): self.judge(number, answer(number, &self.random))
                    }
                }
                self.send()
            }
        }

        private mutating func send() {
            let count = min(self.queue.free(now: self.now), self.ready.count)
            for number in self.ready.prefix(count) {
                self.tries[number].sent = self.now
                self.attempts += 1
                self.events[self.time + 50, default: []].append(.answered(number))
            }
            self.ready.removeFirst(count)
            self.queue.sent(count, now: self.now)
        }

        private mutating func judge(_ number: Int, _ outcome: PushOutcome) {
            let jitter = Double.random(in: 0...1, using: &self.random)
            let ruling = self.queue.judge(
                outcome, &self.tries[number], of: .init(device: number, order: number), generation: 1, now: self.now,
                epochMilliseconds: Int64(self.time), jitter: jitter)
            self.changes += self.queue.takeChanges()
            switch ruling {
            case .delivered: self.notified[number] = self.time
            case .again(let pause):
                let steps = max(1, Int(pause / .milliseconds(Self.step)))
                self.events[self.time + steps * Self.step, default: []].append(.ready(number))
            default: self.given += 1
            }
        }
    }

    private static let away = PushOutcome.answered(PushAnswer(status: 503, reason: "ServiceUnavailable"))
    private static let delivered = PushOutcome.answered(PushAnswer(status: 200))

    @Test func fourOfFiveRequestsFailForFiveMinutesAndAllAreToldWithinAMinuteOfTheEnd() throws {
        var fixture = try Fixture(seed: 1)
        try fixture.run(milliseconds: 10_000, every: 5) { _, _ in Self.delivered }
        try fixture.run(milliseconds: 300_000, every: 5) { _, random in
            Double.random(in: 0..<1, using: &random) < 0.8 ? Self.away : Self.delivered
        }
        #expect(fixture.given == 0)
        #expect(fixture.attempts < 400_000, "no storm")
        try fixture.run(milliseconds: 60_000, every: nil) { _, _ in Self.delivered }
        #expect(fixture.given == 0)
        #expect(fixture.waiting == 0)
        #expect(fixture.changes.isEmpty, "it is there all the time")
    }

    /// Some of the devices fail, always, for an hour.
    @Test func devicesFailingForAnHourAreNotifiedWithinAMinuteOfRecovery() throws {
        var fixture = try Fixture(seed: 4)
        try fixture.run(milliseconds: 3_600_000, every: 500) { number, _ in
            number % 10 == 0 ? Self.away : Self.delivered
        }
        #expect(fixture.given == 0)
        try fixture.run(milliseconds: 60_000, every: nil) { _, _ in Self.delivered }
        #expect(fixture.given == 0)
        #expect(fixture.waiting == 0)
    }

    @Test func aLoneNotificationSurvivesAnHourOfFailures() throws {
        for answer in [Self.away, .unanswered(APNSError(.timeout, "late")), .unanswered(APNSError(.silent, "mute"))] {
            var fixture = try Fixture(seed: 5)
            try fixture.run(milliseconds: 5, every: 5) { _, _ in answer }
            try fixture.run(milliseconds: 3_600_000, every: nil) { _, _ in answer }
            #expect(fixture.given == 0)
            #expect(fixture.attempts < 500)
            try fixture.run(milliseconds: 60_000, every: nil) { _, _ in Self.delivered }
            #expect(fixture.waiting == 0)
        }
    }
}
