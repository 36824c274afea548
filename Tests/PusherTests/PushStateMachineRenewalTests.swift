import APNS
import Kafka
import Model
import Testing

@testable import Pusher

/// Push tokens that APNs reports as gone, and devices that come back.
@Suite struct PushStateMachineRenewalTests {
    private static let gone = SchedulerFixture.answer(410, "Unregistered", at: 6)

    /// Reports the token as gone for the next notification, or for one already sent.
    private func gone(_ scene: inout SchedulerFixture, _ sent: [PushStateMachine.Due]? = nil) throws -> PushEffect {
        let due = sent ?? scene.send()
        let effect = scene.reply(due[0].number, Self.gone)
        return try #require(effect)
    }

    private func dead(_ effect: PushEffect?) throws -> InvalidToken {
        guard case .retire(let dead) = try #require(effect).work else { throw OtherEffect() }
        return dead
    }

    private func standing(_ order: String, _ device: Int, token: Int, at moment: Int64) throws
        -> [RegistrationKey: RegistrationRecord]
    {
        let key = RegistrationKey(
            device: try DeviceIdentifier("d\(device)"), order: try OrderKey("\(SchedulerFixture.order)/\(order)"))
        return [
            key: RegistrationRecord(
                pushToken: try SchedulerFixture.token(token), registeredEpochMilliseconds: moment)
        ]
    }

    @Test func onlyWhatWasRegisteredBeforeIsMeant() throws {
        var scene = try SchedulerFixture { $0.window = .zero }
        let old = try scene.change("old", for: [1], registered: 5)
        let new = try scene.change("new", for: [1], registered: 7)
        let effect = try self.gone(&scene)
        let dead = try self.dead(effect)
        #expect(dead.registrations.count == 2)
        let meant = dead.registrations.filter { dead.means($0.value) }
        #expect(meant.keys.map(\.order.order.rawValue) == ["old"])
        #expect(meant.values.map(\.pushToken) == [try SchedulerFixture.token(1)])
        scene.done(effect, standing: try self.standing("new", 1, token: 1, at: 7))
        #expect(scene.scheduler.takeFinished() == [old], "the other one is tried again")
        scene.time += 10_000
        scene.reply(scene.send()[0].number, SchedulerFixture.delivered)
        #expect(scene.scheduler.takeFinished() == [new])
        #expect(scene.scheduler.gauges == PushGauges())
    }

    @Test func whoCameBackWithAnotherTokenIsToldByThat() throws {
        var scene = try SchedulerFixture { $0.window = .zero }
        let first = try scene.change("o", for: [1], registered: 5)
        let due = scene.send()
        let second = try scene.change("o", for: [1], registered: 5)
        let effect = try self.gone(&scene, due)
        scene.done(effect, standing: try self.standing("o", 1, token: 2, at: 7))
        #expect(scene.scheduler.takeFinished().isEmpty)
        let again = scene.send()
        #expect(again.map(\.token) == [try SchedulerFixture.token(2)], "once for both, and nothing to the dead token")
        scene.reply(again[0].number, SchedulerFixture.delivered)
        #expect(scene.scheduler.takeFinished() == [first, second])
        #expect(scene.scheduler.gauges == PushGauges())
    }

    @Test func whoCameBackWithTheSameTokenIsTriedSoManyTimesThenGivenUp() throws {
        var scene = try SchedulerFixture {
            $0.window = .zero
            $0.attempts = 3
        }
        let receipt = try scene.change("o", for: [1], registered: 7)
        var letter: PushEffect?
        for attempt in 1...3 {
            #expect(letter == nil)
            scene.time += 100_000
            let effect = try self.gone(&scene)
            let dead = try self.dead(effect)
            #expect(!dead.registrations.values.contains { dead.means($0) })
            letter = scene.done(effect, standing: try self.standing("o", 1, token: 1, at: 7))
            #expect(scene.scheduler.queues[0].counts.retried == min(attempt, 2))
        }
        let last = try #require(letter)
        guard case .report(let report) = last.work else { throw OtherEffect() }
        #expect(report.code == .undeliverable)
        #expect(report.history.count == 3)
        #expect(scene.scheduler.takeFinished().isEmpty)
        scene.done(last)
        #expect(scene.scheduler.takeFinished() == [receipt])
        #expect(scene.scheduler.gauges == PushGauges())
    }

    @Test func whatCameWhileItWasTakenOffAndIsNotAskedForIsToldInItsTurn() throws {
        var scene = try SchedulerFixture { $0.window = .zero }
        let first = try scene.change("o", for: [1], registered: 5)
        let effect = try self.gone(&scene)
        let second = try scene.change("p", for: [1], registered: 4)
        let third = try scene.change("o", for: [1], registered: 8)
        let late = try scene.change("o", for: [1], registered: 5)
        scene.done(effect)
        #expect(scene.scheduler.takeFinished() == [first, late], "the registration is gone")
        scene.reply(scene.send()[0].number, SchedulerFixture.delivered)
        #expect(scene.scheduler.takeFinished() == [second, third])
    }

    @Test func ofALeavingPartitionNobodyIsToldByAnotherToken() throws {
        var scene = try SchedulerFixture { $0.window = .zero }
        let receipt = try scene.change("o", for: [1], partition: 1, registered: 5)
        let effect = try self.gone(&scene)
        #expect(scene.scheduler.drop([KafkaPartition(topic: "orders", partition: 1)]).isEmpty)
        scene.done(effect, standing: try self.standing("o", 1, token: 2, at: 7))
        #expect(scene.send().isEmpty)
        #expect(scene.scheduler.drop([]) == [receipt])
        #expect(scene.scheduler.takeFinished().isEmpty)
        #expect(scene.scheduler.gauges == PushGauges())
    }

    private struct OtherEffect: Error {}
}
