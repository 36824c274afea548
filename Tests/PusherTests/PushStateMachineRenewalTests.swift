import APNS
import Kafka
import Model
import Testing

@testable import Pusher

/// Push tokens that APNs reports as gone, and devices that come back.
@Suite struct PushStateMachineRenewalTests {
    private static let gone = SchedulerFixture.answer(410, "Unregistered", at: 6)

    /// Reports the token as gone for the next notification, or for one already sent.
    private func gone(_ fixture: inout SchedulerFixture, _ sent: [PushStateMachine.Due]? = nil) throws -> PushEffect {
        let due = sent ?? fixture.send()
        let effect = fixture.reply(due[0].number, Self.gone)
        return try #require(effect)
    }

    private func dead(_ effect: PushEffect?) throws -> InvalidToken {
        guard case .retire(let dead) = try #require(effect).work else { throw OtherEffect() }
        return dead
    }

    private func current(_ order: String, _ device: Int, token: Int, at moment: Int64) throws
        -> [RegistrationKey: RegistrationRecord]
    {
        let key = RegistrationKey(
            device: try DeviceIdentifier("d\(device)"), order: try OrderKey("\(SchedulerFixture.order)/\(order)"))
        return [
            key: RegistrationRecord(
                pushToken: try SchedulerFixture.token(token), registeredEpochMilliseconds: moment)
        ]
    }

    @Test func anUnregisteredAnswerAppliesOnlyToEarlierRegistrations() throws {
        var fixture = try SchedulerFixture { $0.window = .zero }
        let old = try fixture.change("old", for: [1], registered: 5)
        let new = try fixture.change("new", for: [1], registered: 7)
        let effect = try self.gone(&fixture)
        let dead = try self.dead(effect)
        #expect(dead.registrations.count == 2)
        let meant = dead.registrations.filter { dead.means($0.value) }
        #expect(meant.keys.map(\.order.order.rawValue) == ["old"])
        #expect(meant.values.map(\.pushToken) == [try SchedulerFixture.token(1)])
        fixture.done(effect, current: try self.current("new", 1, token: 1, at: 7))
        #expect(fixture.scheduler.takeFinished() == [old], "the other one is tried again")
        fixture.time += 10_000
        fixture.reply(fixture.send()[0].number, SchedulerFixture.delivered)
        #expect(fixture.scheduler.takeFinished() == [new])
        #expect(fixture.scheduler.gauges == PushGauges())
    }

    @Test func aDeviceThatReturnsWithANewTokenIsNotifiedWithIt() throws {
        var fixture = try SchedulerFixture { $0.window = .zero }
        let first = try fixture.change("o", for: [1], registered: 5)
        let due = fixture.send()
        let second = try fixture.change("o", for: [1], registered: 5)
        let effect = try self.gone(&fixture, due)
        fixture.done(effect, current: try self.current("o", 1, token: 2, at: 7))
        #expect(fixture.scheduler.takeFinished().isEmpty)
        let again = fixture.send()
        #expect(again.map(\.token) == [try SchedulerFixture.token(2)], "once for both, and nothing to the dead token")
        fixture.reply(again[0].number, SchedulerFixture.delivered)
        #expect(fixture.scheduler.takeFinished() == [first, second])
        #expect(fixture.scheduler.gauges == PushGauges())
    }

    @Test func aDeviceThatReturnsWithTheSameTokenHasBoundedRetries() throws {
        var fixture = try SchedulerFixture {
            $0.window = .zero
            $0.attempts = 3
        }
        let receipt = try fixture.change("o", for: [1], registered: 7)
        var deadLetter: PushEffect?
        for attempt in 1...3 {
            #expect(deadLetter == nil)
            fixture.time += 100_000
            let effect = try self.gone(&fixture)
            let dead = try self.dead(effect)
            #expect(!dead.registrations.values.contains { dead.means($0) })
            deadLetter = fixture.done(effect, current: try self.current("o", 1, token: 1, at: 7))
            #expect(fixture.scheduler.queues[0].counts.retried == min(attempt, 2))
        }
        let last = try #require(deadLetter)
        guard case .report(let reports) = last.work else { throw OtherEffect() }
        #expect(reports.map(\.code) == [.undeliverable])
        #expect(reports.map(\.history.count) == [3])
        #expect(fixture.scheduler.takeFinished().isEmpty)
        fixture.done(last)
        #expect(fixture.scheduler.takeFinished() == [receipt])
        #expect(fixture.scheduler.gauges == PushGauges())
    }

    @Test func changesThatARetirementDoesNotCoverAreStillNotified() throws {
        var fixture = try SchedulerFixture { $0.window = .zero }
        let first = try fixture.change("o", for: [1], registered: 5)
        let effect = try self.gone(&fixture)
        let second = try fixture.change("p", for: [1], registered: 4)
        let third = try fixture.change("o", for: [1], registered: 8)
        let late = try fixture.change("o", for: [1], registered: 5)
        fixture.done(effect)
        #expect(fixture.scheduler.takeFinished() == [first, late], "the registration is gone")
        fixture.reply(fixture.send()[0].number, SchedulerFixture.delivered)
        #expect(fixture.scheduler.takeFinished() == [second, third])
    }

    @Test func aDroppedPartitionIsNotRetriedWithARenewedToken() throws {
        var fixture = try SchedulerFixture { $0.window = .zero }
        let receipt = try fixture.change("o", for: [1], partition: 1, registered: 5)
        let effect = try self.gone(&fixture)
        #expect(fixture.scheduler.drop([KafkaPartition(topic: "orders", partition: 1)]).isEmpty)
        fixture.done(effect, current: try self.current("o", 1, token: 2, at: 7))
        #expect(fixture.send().isEmpty)
        #expect(fixture.scheduler.drop([]) == [receipt])
        #expect(fixture.scheduler.takeFinished().isEmpty)
        #expect(fixture.scheduler.gauges == PushGauges())
    }

    private struct OtherEffect: Error {}
}
