import APNS
import Kafka
import Model
import Synchronization
import Testing

@testable import Pusher

/// Notifications that wait for a credential that is stopped, replaced or missing, and records that leave with their
/// partition.
@Suite struct PushStateMachineCredentialTests {
    private static let refused = SchedulerFixture.answer(403, "BadCertificate")

    private func code(_ effect: PushEffect?) -> PushDeadLetterCode? {
        guard case .report(let deadLetters)? = effect?.work else { return nil }
        return deadLetters.first?.code
    }

    /// Sends one, which is refused, while the others wait.
    private func stopped(_ count: Int, _ change: (inout PushLimits) -> Void = { _ in }) throws -> SchedulerFixture {
        var fixture = try SchedulerFixture {
            $0.window = .zero
            change(&$0)
        }
        try fixture.change(for: [0])
        #expect(fixture.reply(fixture.send()[0].number, Self.refused) == nil)
        for device in 1..<count { try fixture.change(for: [device]) }
        fixture.time += 2000
        #expect(fixture.send().isEmpty)
        return fixture
    }

    @Test func aStoppedCredentialIsProbedAndItsNotificationsWait() throws {
        var fixture = try self.stopped(5)
        fixture.time += 60_000
        let probe = fixture.send()
        #expect(probe.count == 1)
        fixture.reply(probe[0].number, SchedulerFixture.delivered)
        #expect(fixture.send().count == 4, "one that is accepted heals it")
    }

    @Test func anIllCredentialSendsAFewProbesUntilOneIsAccepted() throws {
        var fixture = try SchedulerFixture { $0.window = .zero }
        try fixture.change(for: Array(0..<20))
        for due in fixture.send() {
            fixture.time += 1000
            fixture.reply(due.number, SchedulerFixture.answer(503, "ServiceUnavailable"))
        }
        fixture.time += 60_000
        let probes = fixture.send()
        #expect(Set(probes.map(\.token)).count == CredentialHealth.illProbes)
        #expect(fixture.send().isEmpty, "no more before the pause is over")
        for due in probes.dropLast() { fixture.reply(due.number, SchedulerFixture.answer(503, "ServiceUnavailable")) }
        #expect(fixture.send().isEmpty)
        fixture.reply(probes[probes.count - 1].number, SchedulerFixture.delivered)
        #expect(fixture.send().count == 20 - probes.count)
    }

    @Test func probesPreferAcceptedTokensAndUseADifferentTokenEachTime() throws {
        var fixture = try SchedulerFixture { $0.window = .zero }
        try fixture.change(for: [51, 52])
        for due in fixture.send() { fixture.reply(due.number, SchedulerFixture.delivered) }
        fixture.time += 120_000
        // The first notification is a poor judge of the credential.
        try fixture.change(for: Array(0..<20) + [51, 52] + Array(20..<40))
        let sent = fixture.send()
        for due in sent { #expect(fixture.reply(due.number, Self.refused) == nil) }
        var probed: [PushToken] = []
        for _ in 0..<6 {
            fixture.time += 60_000
            let probe = fixture.send()
            #expect(probe.count == 1)
            probed.append(probe[0].token)
            fixture.reply(probe[0].number, Self.refused)
        }
        #expect(Set(probed.prefix(2)) == [try SchedulerFixture.token(51), try SchedulerFixture.token(52)])
        #expect(Set(probed).count == 6)
        #expect(probed[2] != (try SchedulerFixture.token(0)), "never the head of the line")
    }

    @Test func unprovenTokensAreLimitedAfterManyUnknownTokens() throws {
        var fixture = try SchedulerFixture { $0.window = .zero }
        try fixture.change(for: Array(0..<20))
        for due in fixture.send() { fixture.reply(due.number, SchedulerFixture.delivered) }
        let unknown = SchedulerFixture.answer(400, "BadDeviceToken")
        try fixture.change(for: Array(100..<120))
        for due in fixture.send() {
            if let effect = fixture.reply(due.number, unknown) { fixture.done(effect) }
        }
        try fixture.change(for: Array(200..<240) + Array(0..<20))
        let due = fixture.send()
        // Two known tokens share a place in `KnownTokens` in one of forty runs, and one of them is forgotten.
        let known = Set(try (0..<20).map(SchedulerFixture.token))
        let sent = due.count { known.contains($0.token) }
        #expect((17...20).contains(sent), "known tokens do not wait")
        #expect(due.count - sent == CredentialQueue.mostSuspects)
        #expect(fixture.send().isEmpty)
        // Each answer makes room for one more, and in the end all have been sent.
        var open = due
        var rounds = 0
        while !open.isEmpty, rounds < 100 {
            for one in open { fixture.reply(one.number, SchedulerFixture.delivered) }
            fixture.time += 1
            open = fixture.send()
            rounds += 1
        }
        #expect(rounds > 3)
        #expect(fixture.scheduler.gauges == PushGauges())
    }

    @Test func aTokenRejectedUnderAnOldCredentialIsRetried() throws {
        for answer in [
            SchedulerFixture.answer(400, "BadDeviceToken"), SchedulerFixture.answer(400, "DeviceTokenNotForTopic"),
        ] {
            var fixture = try SchedulerFixture { $0.window = .zero }
            try fixture.change(for: [1])
            let due = fixture.send()
            _ = fixture.scheduler.open(try OrderTypeIdentifier(SchedulerFixture.order), generation: 2)
            #expect(fixture.reply(due[0].number, answer, generation: 1) == nil)
            fixture.time += 1000
            let again = try #require(fixture.send().first)
            fixture.reply(again.number, SchedulerFixture.delivered, generation: 2)
            #expect(fixture.scheduler.takeFinished().count == 1)
        }
    }

    @Test func notificationsOfAStoppedCredentialMoveToThePendingTopic() throws {
        var fixture = try self.stopped(5)
        #expect(fixture.scheduler.suspendStuck(now: fixture.now, most: 10).isEmpty, "it may heal")
        fixture.time += 5000
        var effects: [PushEffect] = []
        for _ in 0..<3 { effects += fixture.scheduler.suspendStuck(now: fixture.now, most: 4) }
        let keys = effects.flatMap { effect -> [String] in
            guard case .suspend(let pushes) = effect.work else { return [] }
            return pushes.map(\.key.text)
        }
        #expect(Set(keys) == Set((0..<5).map { "d\($0)/\(SchedulerFixture.order)/o" }))
        #expect(keys.count == 5)
        #expect(fixture.scheduler.takeFinished().isEmpty, "not before they stand there")
        for effect in effects { fixture.done(effect) }
        #expect(fixture.scheduler.takeFinished().count == 5)
        #expect(fixture.scheduler.targetCount == 0)
        #expect(fixture.scheduler.recordCount == 0)
        #expect(fixture.scheduler.linkCount == 0)
    }

    /// Its turn is minutes away: the offset must not wait for it, or a restart would repeat all later records.
    @Test func rateLimitedNotificationsMoveToThePendingTopic() throws {
        var fixture = try SchedulerFixture { $0.hourlyLimit = 2 }
        try fixture.change(for: [1])
        fixture.time += 1000
        fixture.reply(try #require(fixture.send().first).number, SchedulerFixture.delivered)
        #expect(fixture.scheduler.takeFinished().count == 1)
        let limited = try fixture.change(for: [1])
        fixture.time += 1000
        #expect(fixture.send().isEmpty)
        fixture.time += 4900
        #expect(fixture.scheduler.suspendStuck(now: fixture.now, most: 10).isEmpty, "its turn may be near")
        fixture.time += 100
        let effects = fixture.scheduler.suspendStuck(now: fixture.now, most: 10)
        #expect(effects.count == 1)
        for effect in effects { fixture.done(effect) }
        #expect(fixture.scheduler.takeFinished() == [limited])
        #expect(fixture.scheduler.targetCount == 0)
    }

    @Test func notificationsFromThePendingTopicStayInTheScheduler() throws {
        var fixture = try self.stopped(2)
        let late = try fixture.change(for: [7], topic: SchedulerFixture.pending)
        fixture.time += 60_000
        let effects = (0..<3).flatMap { _ in fixture.scheduler.suspendStuck(now: fixture.now, most: 10) }
        #expect(effects.count == 2)
        for effect in effects { fixture.done(effect) }
        #expect(!fixture.scheduler.takeFinished().contains(late))
        #expect(fixture.scheduler.targetCount == 1)
    }

    @Test func onlyDeviceFailuresBecomeDeadLetters() throws {
        var fixture = try SchedulerFixture {
            $0.window = .zero
            $0.attempts = 1
            $0.hold = .seconds(10)
        }
        try fixture.change(for: [1])
        let busy = fixture.reply(fixture.send()[0].number, SchedulerFixture.busyDevice)
        #expect(self.code(busy) == .undeliverable)
        #expect(SchedulerFixture.answer(503, "ServiceUnavailable").isOfTheService)
        #expect(SchedulerFixture.away.isOfTheService)
        #expect(!SchedulerFixture.busyDevice.isOfTheService)
        #expect(!SchedulerFixture.delivered.isOfTheService)
    }

    @Test func aRefusalOfTheOldCredentialDoesNotStopTheNewOne() throws {
        var fixture = try SchedulerFixture { $0.window = .zero }
        try fixture.change(for: [1])
        let due = fixture.send()
        #expect(
            fixture.scheduler.open(try OrderTypeIdentifier(SchedulerFixture.order), generation: 2)
                == fixture.queue)
        #expect(fixture.reply(due[0].number, Self.refused, generation: 1) == nil)
        fixture.time += 1000
        let again = fixture.send()
        #expect(again.count == 1)
        fixture.reply(again[0].number, SchedulerFixture.delivered, generation: 2)
        #expect(fixture.scheduler.takeFinished().count == 1)
    }

    @Test func aBrandlessNotificationMovesToThePendingTopic() throws {
        var fixture = try SchedulerFixture { $0.window = .zero }
        let queue = try #require(
            fixture.scheduler.queue(of: try OrderTypeIdentifier("order.com.example.other")))
        let (receipt, number) = fixture.take()
        fixture.scheduler.notify(
            try SchedulerFixture.token(1),
            of: PushStateMachine.Link(
                record: number, device: try DeviceIdentifier("d"), order: try OrderIdentifier("o"),
                registeredEpochMilliseconds: 0), in: queue, now: fixture.now)
        fixture.scheduler.endLookup([number])
        fixture.scheduler.wake(now: fixture.now)
        #expect(fixture.scheduler.send(queue, now: fixture.now, epochMilliseconds: 0).isEmpty)
        fixture.time = 60_000
        let effects = fixture.scheduler.suspendStuck(now: fixture.now, most: 10)
        guard case .suspend(let pushes)? = effects.first?.work else {
            Issue.record("it must move, not \(effects)")
            return
        }
        #expect(pushes.map(\.key.device?.rawValue) == ["d"])
        fixture.done(effects[0])
        #expect(fixture.scheduler.takeFinished() == [receipt])
    }

    @Test func movesToThePendingTopicAreBatched() async throws {
        let time = Mutex(MonotonicTime.now)
        let scheduler = PushScheduler(
            limits: PushLimits(), pendingTopic: "pending", clock: { time.withLock { $0 } },
            wallClock: { SchedulerFixture.noon })
        var fixture = try SchedulerFixture()
        let record = (fixture.take().receipt, SchedulerFixture.noon)
        let found = try (0..<600).map { number in
            PushLookup.Found(
                orderType: try OrderTypeIdentifier("order.example.none"), order: try OrderIdentifier("o"),
                device: try DeviceIdentifier("d\(number)"),
                registration: RegistrationRecord(
                    pushToken: try SchedulerFixture.token(number), registeredEpochMilliseconds: 0),
                records: [0])
        }
        scheduler.add(found, scheduler.receive([record]))
        let later = time.withLock { time in
            time += .seconds(60)
            return time
        }
        let many = PushScheduler.suspensionLimit
        scheduler.followUps.add((0..<many).map { _ in PushEffect(number: 0, work: .suspend([])) })
        let whenFull = scheduler.advance()
        #expect(scheduler.followUps.count == many)
        #expect(whenFull != later, "it waits until some of these are performed")
        for _ in 0..<many { scheduler.followUps.ended(try #require(await scheduler.followUps.next())) }
        var counts: [Int] = []
        while counts.count < 10 {
            let before = scheduler.followUps.count
            let next = scheduler.advance()
            counts.append(scheduler.followUps.count - before)
            if next != later { break }
        }
        #expect(counts.reduce(0, +) == 600)
        #expect(counts.allSatisfy { $0 <= 256 }, "\(counts)")
    }

    @Test func queuesOfOrderTypesWithoutABrandAreBounded() throws {
        var fixture = try SchedulerFixture()
        for number in 0..<PushStateMachine.queueLimit + 10 {
            let queue = fixture.scheduler.queue(of: try OrderTypeIdentifier("order.example.t\(number)"))
            if number > PushStateMachine.queueLimit { #expect(queue == nil) }
        }
        #expect(fixture.scheduler.queues.count == PushStateMachine.queueLimit)
    }

    // MARK: partitions that leave

    @Test func aRevokedPartitionDropsItsWaitingNotifications() throws {
        var fixture = try SchedulerFixture()
        let leaving = try fixture.change(for: [1, 2], partition: 1)
        let staying = try fixture.change(for: [2], partition: 0)
        #expect(fixture.scheduler.drop([KafkaPartition(topic: "orders", partition: 1)]) == [leaving])
        #expect(fixture.scheduler.drop([KafkaPartition(topic: "orders", partition: 1)]).isEmpty)
        fixture.time = 1000
        let due = fixture.send()
        #expect(due.map(\.token) == [try SchedulerFixture.token(2)])
        fixture.reply(due[0].number, SchedulerFixture.delivered)
        #expect(fixture.scheduler.takeFinished() == [staying])
        #expect(fixture.scheduler.gauges == PushGauges())
    }

    @Test func aRevokedPartitionWaitsForItsNotificationsInFlight() throws {
        var fixture = try SchedulerFixture { $0.window = .zero }
        let receipt = try fixture.change(for: [1], partition: 1)
        let due = fixture.send()
        #expect(fixture.scheduler.drop([KafkaPartition(topic: "orders", partition: 1)]).isEmpty)
        fixture.reply(due[0].number, SchedulerFixture.delivered)
        #expect(fixture.scheduler.takeFinished() == [receipt])
    }

    @Test func aRevokedPartitionDropsItsRetries() throws {
        var fixture = try SchedulerFixture { $0.window = .zero }
        let receipt = try fixture.change(for: [1], partition: 1)
        let due = fixture.send()
        let partitions: Set = [KafkaPartition(topic: "orders", partition: 1)]
        #expect(fixture.scheduler.drop(partitions).isEmpty)
        fixture.reply(due[0].number, SchedulerFixture.away)
        #expect(fixture.scheduler.drop(partitions) == [receipt])
        #expect(fixture.scheduler.gauges == PushGauges())
        fixture.time = 100_000
        #expect(fixture.send().isEmpty)
        #expect(fixture.scheduler.takeFinished().isEmpty)
    }

    @Test func aLookupInProgressNotifiesNoDeviceOfADroppedPartition() throws {
        var fixture = try SchedulerFixture { $0.window = .zero }
        let (receipt, number) = fixture.take(partition: 1)
        #expect(fixture.scheduler.drop([KafkaPartition(topic: "orders", partition: 1)]) == [receipt])
        try fixture.find(1, "o", number)
        fixture.scheduler.endLookup([number])
        #expect(fixture.send().isEmpty)
        #expect(fixture.scheduler.takeFinished().isEmpty)
        #expect(fixture.scheduler.gauges == PushGauges())
    }
}
