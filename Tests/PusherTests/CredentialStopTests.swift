import APNS
import Model
import Testing

@testable import Pusher

/// The conditions under which a credential is stopped and recovers.
@Suite struct CredentialStopTests {
    private var health = CredentialHealth()
    private var now = MonotonicTime.now
    private static let refused = PushVerdict.stopCredential(reason: "403 BadCertificate")
    private static let dropped = PushVerdict.drop(reason: "400 DeviceTokenNotForTopic")
    private static let expired = PushVerdict.retry(
        PushRetry(reason: "403 ExpiredProviderToken", scope: .connection, cause: .answer(status: 403)))

    private mutating func receive(
        _ verdict: PushVerdict, origin: CredentialHealth.Origin = .init(), took: Duration = .milliseconds(50)
    ) -> CredentialHealth.Ruling {
        self.health.receive(verdict, of: 1, origin: origin, sent: self.now - took, now: self.now)
    }

    private var isStopped: Bool { if case .stopped = self.health.state { true } else { false } }

    @Test mutating func aRefusalThatNothingContradictsStopsAtOnceAndAlarmsOnce() {
        #expect(self.receive(Self.refused) == .init(blame: .nobody, change: .stopped(reason: "403 BadCertificate")))
        #expect(self.health.state.gauge == 2)
        for _ in 0..<100 { #expect(self.receive(Self.refused) == .init(blame: .nobody, change: nil)) }
    }

    @Test mutating func aStoppedCredentialIsProbedOnceAMinute() {
        _ = self.receive(Self.refused)
        for _ in 0..<5 {
            let next = self.now + .seconds(60)
            #expect(self.health.permission(now: self.now) == .nothing(until: next))
            #expect(self.health.permission(now: next - .milliseconds(1)) == .nothing(until: next))
            #expect(self.health.permission(now: next) == .probes(1))
            self.now = next
            self.health.probed(now: self.now)
            #expect(self.receive(Self.refused).change == nil)
        }
    }

    @Test mutating func anAcceptedRequestEndsTheStop() {
        for accepted: PushVerdict in [.delivered, .retire(registeredBeforeMilliseconds: 5)] {
            // Earlier acceptances are forgotten by then.
            self.now += .seconds(3600)
            _ = self.receive(Self.refused)
            self.now += .seconds(61)
            #expect(self.receive(accepted).change == .healthy(after: .seconds(61)))
            #expect(self.health.permission(now: self.now) == .all)
        }
    }

    @Test mutating func anInconclusiveAnswerDoesNotEndTheStop() {
        _ = self.receive(Self.refused)
        let service = PushRetry(reason: "503", scope: .service, cause: .answer(status: 503))
        for verdict in [Self.dropped, .unknownToken, .retry(service), Self.expired] {
            self.now += .seconds(60)
            #expect(self.receive(verdict).change == nil)
            #expect(self.isStopped)
        }
    }

    @Test mutating func aRefusalThatADeliveryContradictsStopsNobody() {
        for _ in 0..<100 {
            self.now += .milliseconds(10)
            _ = self.receive(.delivered)
            self.now += .milliseconds(10)
            // Sent before the delivery was answered.
            #expect(self.receive(Self.refused) == .init(blame: .time, change: nil))
        }
        #expect(self.health.permission(now: self.now) == .all)
    }

    @Test mutating func refusalsInARowOutweighDeliveriesFromBefore() {
        _ = self.receive(.delivered)
        self.now += .seconds(1)
        for _ in 0..<CredentialHealth.refusalsToStop {
            #expect(self.receive(Self.refused) == .init(blame: .time, change: nil))
        }
        // One host that answers immediately causes this many before another has answered.
        for _ in 0..<100 { #expect(self.receive(Self.refused).change == nil) }
        self.now += CredentialHealth.refusalPatience
        #expect(self.receive(Self.refused).change == .stopped(reason: "403 BadCertificate"))
    }

    @Test mutating func aDeliveryBetweenRefusalsBeginsTheRowAnew() {
        for _ in 0..<20 {
            _ = self.receive(.delivered)
            self.now += .seconds(1)
            for _ in 0..<CredentialHealth.refusalsToStop { _ = self.receive(Self.refused) }
            self.now += .seconds(1)
            #expect(!self.isStopped)
        }
    }

    @Test mutating func anOldDeliveryProvesNothing() {
        _ = self.receive(.delivered)
        self.now += CredentialHealth.proof
        #expect(self.receive(Self.refused).change == .stopped(reason: "403 BadCertificate"))
    }

    @Test mutating func anIllCredentialThatIsRefusedIsStopped() {
        _ = self.receive(.delivered)
        self.now += .seconds(1)
        for number in 0..<UInt64(CredentialHealth.failuresToIll) {
            let lost = PushRetry(reason: "lost", scope: .connection, cause: .error(.connectionLost))
            _ = self.health.receive(.retry(lost), of: number, sent: self.now, now: self.now)
        }
        #expect(self.health.state.gauge == 1)
        #expect(self.receive(Self.refused).change == nil, "what was accepted lately speaks for it")
        self.now += CredentialHealth.proof
        #expect(self.receive(Self.refused).change == .stopped(reason: "403 BadCertificate"))
    }

    @Test mutating func unknownTokensStopNobodyHoweverMany() {
        for device in 0..<1000 {
            #expect(
                self.receive(.unknownToken, origin: .init(device: device, order: device))
                    == .init(blame: .notification, change: nil))
        }
        #expect(self.health.permission(now: self.now) == .all)
    }

    @Test mutating func oneDeviceOrOrderWithTokensOfAnotherAppStopsNobody() {
        for number in 0..<1000 {
            #expect(self.receive(Self.dropped, origin: .init(device: 1, order: number)).change == nil)
        }
        self.health = CredentialHealth()
        for number in 0..<1000 {
            #expect(self.receive(Self.dropped, origin: .init(device: number, order: 1)).change == nil)
        }
    }

    @Test mutating func refusalsOneByOneStopOnlyAsAShareOfManyOrders() {
        for number in 0..<1000 {
            _ = self.receive(.delivered)
            _ = self.receive(Self.dropped, origin: .init(device: number, order: number))
            self.now += .milliseconds(10)
        }
        #expect(!self.isStopped, "half of them is no credential of another app")
        self.now += CredentialHealth.period
        for number in 1..<Int(CredentialHealth.refusedToStop) {
            #expect(self.receive(Self.dropped, origin: .init(device: number, order: number)).change == nil)
        }
        #expect(self.receive(Self.dropped).change == .stopped(reason: "400 DeviceTokenNotForTopic"))
    }

    @Test mutating func aStoppedCredentialWhoseProbeFailsOnTheWayIsAskedAgainSoon() {
        _ = self.receive(Self.refused)
        self.now += CredentialHealth.stoppedProbe
        self.health.probed(now: self.now)
        let lost = PushRetry(reason: "lost", scope: .connection, cause: .error(.connectionLost))
        #expect(self.receive(.retry(lost)).change == nil)
        #expect(self.isStopped)
        #expect(self.health.permission(now: self.now + CredentialHealth.lastProbe) == .probes(1))
    }

    @Test mutating func a403ThatANewTokenDoesNotMendStopsAfterAMinute() {
        for second in 0..<60 {
            #expect(self.receive(Self.expired).change == nil, "\(second)")
            self.now += .seconds(1)
        }
        #expect(
            self.receive(Self.expired) == .init(blame: .nobody, change: .stopped(reason: "403 ExpiredProviderToken")))
    }

    @Test mutating func a403ThatANewTokenMendsStopsNobody() {
        for _ in 0..<100 {
            self.now += .seconds(30)
            _ = self.receive(Self.expired)
            _ = self.receive(.delivered)
        }
        #expect(self.health.permission(now: self.now) == .all)
    }

    /// For any events: a change is reported exactly when the state changes, and only a healthy credential sends
    /// everything.
    @Test mutating func everyChangeIsToldOnceWhateverComes() {
        var generator = SystemRandomNumberGenerator()
        let codes = APNSError.Code.allCases.map { verdict(of: .unanswered(APNSError($0, "why"))) }
        let answers = PushReason.allCases.map {
            verdict(of: .answered(PushAnswer(status: $0.status, reason: $0.rawValue)))
        }
        for _ in 0..<200 {
            self.health = CredentialHealth()
            let pool = (0..<3).compactMap { _ in (codes + answers + [.delivered]).randomElement(using: &generator) }
            for _ in 0..<200 {
                self.now += .milliseconds(Int64.random(in: 0...2000, using: &generator))
                let before = self.health.state.gauge
                guard let verdict = pool.randomElement(using: &generator) else { continue }
                let ruling = self.health.receive(
                    verdict, of: .random(in: 0...2, using: &generator),
                    sent: self.now - .milliseconds(Int64.random(in: 0...10_000, using: &generator)), now: self.now)
                let after = self.health.state.gauge
                switch ruling.change {
                case nil: #expect(before == after)
                case .healthy:
                    #expect(before != 0)
                    #expect(after == 0)
                case .ill:
                    #expect(before == 0)
                    #expect(after == 1)
                case .stopped:
                    #expect(before != 2)
                    #expect(after == 2)
                }
                let permission = self.health.permission(now: self.now)
                #expect((permission == .all) == (after == 0))
                if case .probes = permission { self.health.probed(now: self.now) }
            }
        }
    }
}
