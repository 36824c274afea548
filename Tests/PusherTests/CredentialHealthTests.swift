import APNS
import Model
import Testing

@testable import Pusher

@Suite struct CredentialHealthTests {
    /// A credential and a clock; each attempt takes 50 ms by default.
    private struct Fixture {
        var health = CredentialHealth()
        var now = MonotonicTime.now

        @discardableResult
        mutating func receive(
            _ verdict: PushVerdict, of notification: UInt64 = 1, device: Int = 1, took: Duration = .milliseconds(50)
        ) -> CredentialHealth.Ruling {
            self.health.receive(
                verdict, of: notification, origin: .init(device: device, order: device), sent: self.now - took,
                now: self.now)
        }

        mutating func pass(_ time: Duration) { self.now += time }

        var permission: CredentialHealth.Permission { self.health.permission(now: self.now) }

        /// Lets two notifications fail in turn until the credential is ill.
        mutating func fallIll(_ retry: PushRetry) -> [CredentialHealth.Change] {
            var changes: [CredentialHealth.Change] = []
            for attempt in 0..<CredentialHealth.failuresToIll {
                if let change = self.receive(.retry(retry), of: UInt64(attempt % 2)).change { changes.append(change) }
            }
            return changes
        }
    }

    private static func answer(_ status: Int, _ reason: String? = nil, after: Int? = nil) -> PushRetry {
        let answer = PushAnswer(status: status, reason: reason, retryAfterSeconds: after)
        guard case .retry(let retry) = verdict(of: .answered(answer)) else {
            preconditionFailure("\(status) is repeated")
        }
        return retry
    }

    private static func error(_ code: APNSError.Code) -> PushRetry {
        PushRetry(reason: code.rawValue, scope: .connection, cause: .error(code))
    }

    /// The permission of an ill credential whose next probes are due.
    private static let few = CredentialHealth.Permission.probes(CredentialHealth.illProbes)

    /// APNs judged the notification itself, so it is available.
    private static let judgements: [PushVerdict] = [
        .delivered, .retire(registeredBeforeMilliseconds: 1), .unknownToken, .drop(reason: "400 BadPriority"),
        .retry(answer(429, "TooManyRequests")),
    ]

    /// Failures of requests that were sent, or might have been.
    private static let failures: [PushRetry] =
        [
            answer(500, "InternalServerError"), answer(503, "ServiceUnavailable"), answer(503, "Shutdown"), answer(502),
            answer(400, "IdleTimeout"), answer(403, "ExpiredProviderToken"), answer(403, "UnrelatedKeyIdInToken"),
            answer(429, "TooManyProviderTokenUpdates"),
        ] + [.timeout, .silent, .connectionLost, .protocolViolation].map(error)

    private static let neverSent: [APNSError.Code] = [.notStarted, .connecting, .tls]
    private static let ownDoing: [APNSError.Code] = [.queueFull, .closed]

    @Test func theTestListsCoverEveryErrorCode() {
        let sent = Self.failures.compactMap { if case .error(let code) = $0.cause { code } else { nil } }
        let stopping: [APNSError.Code] = [.configuration, .credential]
        #expect(Set(sent + Self.neverSent + Self.ownDoing + stopping) == Set(APNSError.Code.allCases))
    }

    /// A middlebox that answers with 403 or 404 has not judged the credential or the notification.
    @Test func answersThatAreNotOfAPNsMakeACredentialIllAndNeverStopIt() {
        for status in [301, 400, 403, 404, 410] {
            var fixture = Fixture()
            var changes: [CredentialHealth.Change] = []
            for _ in 0..<180 {
                if let change = fixture.receive(.retry(Self.answer(status))).change { changes.append(change) }
                fixture.pass(.seconds(1))
            }
            guard case .ill(let reason)? = changes.first, changes.count == 1 else {
                Issue.record("\(status): \(changes)")
                continue
            }
            #expect(reason.contains("\(status) is not an answer of APNs"))
            #expect(fixture.receive(.delivered).change != nil)
            #expect(fixture.health.state == .healthy)
        }
    }

    @Test func anUnreachableAPNsMakesACredentialIllUntilOneIsJudged() {
        var fixture = Fixture()
        #expect(fixture.health.unreachable("refused", now: fixture.now) == .ill(reason: "refused"))
        #expect(fixture.health.unreachable("refused", now: fixture.now) == nil)
        #expect(fixture.permission == Self.few)
        fixture.pass(.seconds(2))
        #expect(fixture.receive(.delivered).change == .healthy(after: .seconds(2)))
        fixture.receive(.stopCredential(reason: "403 Forbidden"), took: .zero)
        fixture.pass(.seconds(120))
        fixture.receive(.stopCredential(reason: "403 Forbidden"))
        #expect(fixture.health.unreachable("refused", now: fixture.now) == nil, "it stays stopped")
    }

    @Test func aFailureCountsByTimeWhenAnotherNotificationWasJudgedMeanwhile() {
        for judgement in Self.judgements {
            for failure in Self.failures {
                var fixture = Fixture()
                fixture.receive(judgement, of: 2)
                fixture.pass(.milliseconds(10))
                #expect(fixture.receive(.retry(failure)).blame == .time, "\(judgement) \(failure)")
                #expect(fixture.health.state == .healthy)
            }
        }
    }

    @Test func failuresOfOneInFourAreNotBlamedOnNotifications() {
        for failure in Self.failures {
            var fixture = Fixture()
            var blames: [FailureAttribution] = []
            for number in UInt64(0)..<100 {
                fixture.pass(.milliseconds(10))
                if number % 4 == 3 {
                    blames.append(fixture.receive(.retry(failure), of: number).blame)
                } else {
                    fixture.receive(.delivered, of: number)
                }
            }
            #expect(blames.prefix(9).allSatisfy { $0 == .time }, "too few to compare")
            #expect(blames.dropFirst(9).allSatisfy { $0 == .nobody }, "\(failure)")
            // A minute later none of it counts.
            fixture.pass(CredentialHealth.period)
            fixture.receive(.delivered, of: 1000)
            #expect(fixture.receive(.retry(failure), of: 1001).blame == .time)
        }
    }

    @Test func aJudgementPrecedingTheAttemptIsIgnored() {
        for failure in Self.failures {
            var fixture = Fixture()
            fixture.receive(.delivered, of: 2)
            fixture.pass(.milliseconds(51))
            let isLone = failure.cause != .error(.silent) && failure.cause != .error(.connectionLost)
            #expect(fixture.receive(.retry(failure)).blame == (isLone ? .time : .nobody), "\(failure)")
        }
    }

    @Test func repeatedTooManyRequestsForOneDeviceIsBlamedOnTheNotification() {
        var fixture = Fixture()
        for _ in 0..<1000 {
            #expect(
                fixture.receive(.retry(Self.answer(429, "TooManyRequests"))) == .init(blame: .notification, change: nil)
            )
        }
    }

    @Test func tooManyRequestsForMostDevicesMakesTheCredentialIll() {
        var fixture = Fixture()
        var changes: [CredentialHealth.Change] = []
        for device in 0..<500 {
            fixture.pass(.milliseconds(100))
            let ruling = fixture.receive(
                .retry(Self.answer(429, "TooManyRequests")), of: UInt64(device), device: device)
            #expect(ruling.blame == (device < CredentialHealth.busyDevices - 1 ? .notification : .nobody))
            if let change = ruling.change { changes.append(change) }
        }
        #expect(changes == [.ill(reason: "429 TooManyRequests")], "a device that hears it again heals nothing")
        fixture.receive(.delivered)
        #expect(fixture.health.state == .healthy)
    }

    @Test func tooManyRequestsForOneDeviceInTenIsBlamedOnTheNotifications() {
        var fixture = Fixture()
        for number in 0..<500 {
            fixture.pass(.milliseconds(10))
            let busy = PushVerdict.retry(Self.answer(429, "TooManyRequests"))
            let ruling = fixture.receive(number % 10 == 0 ? busy : .delivered, of: UInt64(number), device: number)
            if number % 10 == 0, number > 0 { #expect(ruling.blame == .notification) }
        }
    }

    @Test func anUnsentRequestIsBlamedOnNobody() {
        for code in Self.neverSent + Self.ownDoing {
            var fixture = Fixture()
            fixture.receive(.delivered, of: 2)
            #expect(fixture.receive(.retry(Self.error(code))).blame == .nobody, "\(code)")
            fixture.pass(.seconds(1))
            #expect(fixture.receive(.retry(Self.error(code))).blame == .nobody, "\(code)")
        }
    }

    @Test func localErrorsLeaveTheCredentialHealthy() {
        for code in Self.ownDoing {
            var fixture = Fixture()
            for number in 0..<100 {
                fixture.pass(.seconds(1))
                #expect(fixture.receive(.retry(Self.error(code)), of: UInt64(number)).change == nil)
            }
            #expect(fixture.health.state == .healthy)
        }
    }

    @Test func continuousFailuresMakeTheCredentialIllAndBlameNoNotification() {
        for failure in Self.failures + Self.neverSent.map(Self.error) where failure.cause != .answer(status: 403) {
            var fixture = Fixture()
            var changes: [CredentialHealth.Change] = []
            for attempt in 0..<1000 {
                fixture.pass(.seconds(4))
                let ruling = fixture.receive(.retry(failure), of: UInt64(attempt % 3), took: .seconds(3))
                // The first may be the only one.
                if attempt > 0 { #expect(ruling.blame == .nobody, "\(failure)") }
                if let change = ruling.change { changes.append(change) }
            }
            #expect(changes == [.ill(reason: failure.reason)])
        }
    }

    @Test func failuresOfALoneNotificationCountByTimeUnlessTheConnectionIsLost() {
        for failure in Self.failures where failure.cause != .answer(status: 403) {
            var fixture = Fixture()
            let isAPNs = failure.cause != .error(.silent) && failure.cause != .error(.connectionLost)
            for _ in 0..<50 {
                fixture.pass(.seconds(10))
                let ruling = fixture.receive(.retry(failure))
                #expect(ruling.blame == (isAPNs ? .time : .nobody), "\(failure)")
            }
            // With a broken network path others need not be tried; with a poisoned notification they must be.
            #expect((fixture.health.state == .healthy) == isAPNs, "\(failure)")
        }
    }

    @Test func failuresStopCountingByTimeWhenASecondNotificationFails() {
        var fixture = Fixture()
        let failure = Self.answer(503, "ServiceUnavailable")
        #expect(fixture.receive(.retry(failure)).blame == .time)
        #expect(fixture.receive(.retry(failure), of: 2).blame == .nobody)
        #expect(fixture.receive(.retry(failure)).blame == .nobody)
        fixture.receive(.delivered, of: 3)
        fixture.pass(.seconds(1))
        #expect(fixture.receive(.retry(failure)).blame == .time)
    }

    @Test func lostConnectionsDoNotMakeTheCredentialIllWhileAnotherAnswers() {
        var fixture = Fixture()
        fixture.receive(.delivered)
        for number in 0..<1000 {
            #expect(fixture.receive(.retry(Self.error(.connectionLost)), of: UInt64(number)).change == nil)
        }
        #expect(fixture.permission == .all)
    }

    @Test func aFewFailuresMakeTheCredentialIllOnlyAfterThePatienceInterval() {
        var fixture = Fixture()
        let failure = Self.error(.connectionLost)
        for number in 0..<3 { fixture.receive(.retry(failure), of: UInt64(number)) }
        #expect(fixture.health.state == .healthy)
        fixture.pass(CredentialHealth.patience)
        #expect(fixture.receive(.retry(failure), of: 4).change == .ill(reason: "connectionLost"))
    }

    @Test func anIllCredentialIsProbedAtIncreasingIntervals() {
        var fixture = Fixture()
        #expect(fixture.fallIll(Self.answer(503)) == [.ill(reason: "503 without a reason")])
        for pause in [1, 2, 4, 5, 5, 5] {
            #expect(fixture.permission == Self.few)
            fixture.health.probed(now: fixture.now)
            #expect(fixture.permission == .nothing(until: fixture.now + .seconds(pause)))
            fixture.pass(.seconds(pause) - .milliseconds(1))
            #expect(fixture.permission != Self.few)
            #expect(fixture.receive(.retry(Self.answer(503))).change == nil)
            fixture.pass(.milliseconds(1))
        }
    }

    @Test func aNewConnectionAllowsProbesImmediately() {
        var fixture = Fixture()
        fixture.health.connected(now: fixture.now)
        #expect(fixture.permission == .all)
        _ = fixture.fallIll(Self.error(.connecting))
        for _ in 0..<5 {
            fixture.health.probed(now: fixture.now)
            fixture.pass(.milliseconds(10))
        }
        #expect(fixture.permission != Self.few)
        fixture.health.connected(now: fixture.now)
        #expect(fixture.permission == Self.few)
    }

    @Test func onlyALargeShareOfUnknownTokensIsSuspicious() {
        var fixture = Fixture()
        for number in 0..<2000 {
            fixture.pass(.milliseconds(1))
            fixture.receive(number % 100 == 0 ? .unknownToken : .delivered, of: UInt64(number))
        }
        #expect(!fixture.health.isSuspicious, "one of a hundred")
        for number in 0..<600 { fixture.receive(.unknownToken, of: UInt64(number)) }
        #expect(fixture.health.isSuspicious)
        #expect(fixture.health.state == .healthy)
        fixture.pass(CredentialHealth.period)
        fixture.receive(.delivered)
        #expect(!fixture.health.isSuspicious)
    }

    @Test func anyJudgementMakesAnIllCredentialHealthy() {
        for judgement in Self.judgements {
            var fixture = Fixture()
            _ = fixture.fallIll(Self.answer(503))
            fixture.health.probed(now: fixture.now)
            fixture.pass(.seconds(7))
            #expect(fixture.receive(judgement).change == .healthy(after: .seconds(7)))
            #expect(fixture.permission == .all)
            // The next outage begins with quick probes again.
            _ = fixture.fallIll(Self.answer(503))
        }
    }

    @Test func retryAfterDelaysProbesByAtMostFiveMinutes() {
        for (asked, pause) in [(30, 30), (3600, 300), (-5, 0), (.max, 300)] {
            var fixture = Fixture()
            _ = fixture.fallIll(Self.answer(503, "ServiceUnavailable", after: asked))
            let expected: CredentialHealth.Permission =
                pause == 0 ? Self.few : .nothing(until: fixture.now + .seconds(pause))
            #expect(fixture.permission == expected)
        }
    }

    @Test func anAnswerToALoneNotificationMakesAnIllCredentialHealthy() {
        var fixture = Fixture()
        for _ in 0..<3 {
            fixture.receive(.retry(Self.error(.connecting)))
            fixture.pass(.seconds(5))
        }
        #expect(fixture.permission == Self.few)
        // The network works again, and APNs fails the remaining one.
        let ruling = fixture.receive(.retry(Self.answer(500)))
        #expect(ruling.blame == .time)
        #expect(ruling.change == .healthy(after: .seconds(15)))
        #expect(fixture.permission == .all)
    }
}
