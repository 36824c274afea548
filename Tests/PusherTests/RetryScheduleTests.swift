import APNS
import Testing

@testable import Pusher

@Suite struct RetryScheduleTests {
    private static let limits = RetrySchedule.Limits(attempts: 8, hold: .seconds(300))

    private static func retry(_ scope: PushRetry.Scope, after: Int? = nil) -> PushRetry {
        PushRetry(reason: "why", scope: scope, afterSeconds: after, cause: .answer(status: 503))
    }

    /// Returns the pauses until it gives up, at most `most` of them.
    private static func pauses(
        _ retry: PushRetry, blame: FailureAttribution, most: Int, took: Duration = .zero,
        limits: RetrySchedule.Limits = Self.limits,
        random: (ClosedRange<Double>) -> Double = { $0.upperBound }
    ) -> [Duration] {
        var schedule = RetrySchedule()
        var pauses: [Duration] = []
        while pauses.count < most,
            case .again(let pause) = schedule.failed(
                retry, blame: blame, took: took, limits: limits, random: random)
        { pauses.append(pause) }
        return pauses
    }

    @Test func backoffDoublesUpToALimit() {
        func seconds(_ scope: PushRetry.Scope) -> [Double] {
            Self.pauses(Self.retry(scope), blame: .nobody, most: 9).map { $0 / .seconds(1) }
        }
        #expect(seconds(.service) == [1, 2, 4, 8, 16, 30, 30, 30, 30])
        #expect(seconds(.device) == [2, 4, 8, 16, 32, 60, 60, 60, 60])
        #expect(seconds(.connection) == [0.1, 1, 2, 4, 8, 16, 30, 30, 30])
    }

    @Test func jitterReducesABackoffByAtMostHalf() {
        for scope in PushRetry.Scope.allCases {
            let longest = Self.pauses(Self.retry(scope), blame: .nobody, most: 20)
            let shortest = Self.pauses(Self.retry(scope), blame: .nobody, most: 20) { $0.lowerBound }
            for (short, long) in zip(shortest, longest) { #expect(short * 2 == long) }
        }
    }

    @Test func attemptsAreBounded() {
        for scope in PushRetry.Scope.allCases {
            #expect(Self.pauses(Self.retry(scope), blame: .notification, most: 100).count == 7)
        }
        let one = RetrySchedule.Limits(attempts: 1, hold: .seconds(300))
        #expect(Self.pauses(Self.retry(.device), blame: .notification, most: 100, limits: one).isEmpty)
    }

    @Test func theHoldLimitIncludesTheFirstAttempt() {
        let short = RetrySchedule.Limits(attempts: 100, hold: .seconds(30))
        let pauses = Self.pauses(
            Self.retry(.service), blame: .notification, most: 100, took: .seconds(10), limits: short)
        // 10 s, then 1 s and 10 s, then the rest up to 30 s, cut from 2 s only if it would exceed the limit.
        #expect(pauses == [.seconds(1), .seconds(2)])
        let long = Self.pauses(
            Self.retry(.service), blame: .notification, most: 100, took: .seconds(31), limits: short)
        #expect(long.isEmpty)
    }

    @Test func theLastAttemptIsAtTheHoldLimit() {
        let limits = RetrySchedule.Limits(attempts: 100, hold: .seconds(20))
        let pauses = Self.pauses(Self.retry(.service), blame: .notification, most: 100, limits: limits)
        #expect(pauses == [1, 2, 4, 8, 5].map { .seconds($0) })
    }

    @Test func retryAfterIsCappedByTheHoldLimit() {
        for asked in [3600, 86_400, .max] {
            let pauses = Self.pauses(
                Self.retry(.device, after: asked), blame: .notification, most: 100, took: .seconds(1))
            #expect(pauses == [.seconds(299)])
        }
    }

    @Test func retryAfterIsHonoredWithinTheLimit() {
        for random: (ClosedRange<Double>) -> Double in [{ $0.lowerBound }, { $0.upperBound }] {
            let pauses = Self.pauses(
                Self.retry(.service, after: 30), blame: .notification, most: 3, random: random)
            #expect(pauses.allSatisfy { $0 >= .seconds(30) && $0 < .seconds(33.01) })
        }
        // A time earlier than our own does not shorten the pause.
        #expect(Self.pauses(Self.retry(.service, after: 1), blame: .nobody, most: 5).last == .seconds(16))
        #expect(Self.pauses(Self.retry(.service, after: -7), blame: .nobody, most: 1) == [.seconds(1)])
        // For failures without a count the bound is a fixed one, or the hold limit.
        for (hold, longest) in [(86_400, 300), (10, 10)] {
            let pauses = Self.pauses(
                Self.retry(.service, after: 3600), blame: .nobody, most: 1,
                limits: .init(attempts: 8, hold: .seconds(hold)))
            #expect(pauses == [.seconds(longest)])
        }
    }

    @Test func aFailureBlamedOnNobodyIsRetriedForever() {
        let pauses = Self.pauses(Self.retry(.service), blame: .nobody, most: 10_000, took: .seconds(10))
        #expect(pauses.count == 10_000)
    }

    @Test func aServiceFailureIsGivenUpOnlyAfterADay() {
        for scope in [PushRetry.Scope.connection, .service] {
            let pauses = Self.pauses(
                Self.retry(scope), blame: .time, most: 100_000, limits: .init(attempts: 1, hold: .seconds(10)))
            #expect(pauses.reduce(.zero, +) == .seconds(86_400))
            #expect(pauses.count > 2880)
        }
    }

    @Test func serviceFailuresDoNotUseUpADevicesAttempts() {
        var schedule = RetrySchedule()
        func fail(_ blame: FailureAttribution) -> RetrySchedule.Step {
            schedule.failed(
                Self.retry(.device), blame: blame, took: .seconds(10), limits: Self.limits, random: { $0.upperBound })
        }
        for _ in 0..<1000 { #expect(fail(.time) != .giveUp) }
        for _ in 0..<5 { #expect(fail(.notification) != .giveUp) }
        #expect(fail(.notification) == .giveUp, "six times ten seconds, and four minutes and ten seconds of pauses")
    }

    @Test func anOutageOfAPNsDoesNotCountAgainstTheNotification() {
        var schedule = RetrySchedule()
        func fail(_ blame: FailureAttribution) -> RetrySchedule.Step {
            schedule.failed(
                Self.retry(.service), blame: blame, took: .seconds(10), limits: Self.limits, random: { $0.upperBound })
        }
        #expect(fail(.notification) == .again(after: .seconds(1)))
        for _ in 0..<400 { _ = fail(.nobody) }
        #expect(schedule.held == .seconds(11))
        #expect(schedule.counted == 1)
        // Nor do the pauses caused by APNs' absence.
        #expect(fail(.notification) == .again(after: .seconds(30)))
        #expect(schedule.held == .seconds(51))
        #expect(schedule.attempts == 402)
    }

    @Test func holdTimeIsBoundedByTheLimitAndOneAttempt() {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<2000 {
            var schedule = RetrySchedule()
            var held = Duration.zero
            var pause = Duration.zero
            for attempt in 1...1000 {
                let took = Duration.milliseconds(Int64.random(in: 0...10_000, using: &generator))
                let scope = PushRetry.Scope.allCases.randomElement(using: &generator) ?? .device
                let after = Bool.random(using: &generator) ? Int.random(in: -10...5000, using: &generator) : nil
                let step = schedule.failed(
                    Self.retry(scope, after: after), blame: .notification, took: took, limits: Self.limits,
                    random: { Double.random(in: $0, using: &generator) })
                held += pause + took
                guard case .again(let next) = step else {
                    #expect(held >= .seconds(300) || schedule.counted == 8)
                    break
                }
                pause = next
                #expect(next > .zero)
                #expect(held + next <= .seconds(300))
                #expect(schedule.counted < 8)
                #expect(attempt < 1000)
            }
            #expect(held <= .seconds(310))
        }
    }
}
