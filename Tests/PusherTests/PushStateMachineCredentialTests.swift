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
        guard case .report(let letter)? = effect?.work else { return nil }
        return letter.code
    }

    /// A notification that waits for the brand of its order type.
    private func withoutBrand(
        _ change: (inout PushLimits) -> Void = { _ in }
    ) throws -> (scene: SchedulerFixture, queue: Int, receipt: KafkaReceipt) {
        var scene = try SchedulerFixture {
            $0.window = .zero
            change(&$0)
        }
        let queue = try #require(
            scene.scheduler.queue(of: try OrderTypeIdentifier("order.com.example.other"), now: scene.now))
        let (receipt, number) = scene.take()
        scene.scheduler.tell(
            try SchedulerFixture.token(1),
            of: PushStateMachine.Link(
                record: number, device: try DeviceIdentifier("d"), order: try OrderIdentifier("o"),
                registeredEpochMilliseconds: 0), in: queue, now: scene.now)
        scene.scheduler.endLookup([number])
        scene.scheduler.wake(now: scene.now)
        return (scene, queue, receipt)
    }

    /// Sends one, which is refused, while the others wait.
    private func stopped(_ count: Int, _ change: (inout PushLimits) -> Void = { _ in }) throws -> SchedulerFixture {
        var scene = try SchedulerFixture {
            $0.window = .zero
            change(&$0)
        }
        try scene.change(for: [0])
        #expect(scene.reply(scene.send()[0].number, Self.refused) == nil)
        for device in 1..<count { try scene.change(for: [device]) }
        scene.time += 2000
        #expect(scene.send().isEmpty)
        return scene
    }

    @Test func aStoppedCredentialIsProbedAndItsNotificationsWait() throws {
        var scene = try self.stopped(5)
        #expect(scene.scheduler.giveUpStuck(now: scene.now, most: 10).isEmpty)
        scene.time += 60_000
        let probe = scene.send()
        #expect(probe.count == 1)
        scene.reply(probe[0].number, SchedulerFixture.delivered)
        #expect(scene.send().count == 4, "one that is accepted heals it")
    }

    @Test func anIllCredentialIsProbedWithAFewAtATimeAndOneAcceptedHealsIt() throws {
        var scene = try SchedulerFixture { $0.window = .zero }
        try scene.change(for: Array(0..<20))
        for due in scene.send() {
            scene.time += 1000
            scene.reply(due.number, SchedulerFixture.answer(503, "ServiceUnavailable"))
        }
        scene.time += 60_000
        let probes = scene.send()
        #expect(Set(probes.map(\.token)).count == CredentialHealth.illProbes)
        #expect(scene.send().isEmpty, "no more before the pause is over")
        for due in probes.dropLast() { scene.reply(due.number, SchedulerFixture.answer(503, "ServiceUnavailable")) }
        #expect(scene.send().isEmpty)
        scene.reply(probes[probes.count - 1].number, SchedulerFixture.delivered)
        #expect(scene.send().count == 20 - probes.count)
    }

    @Test func probesGoToTokensThatWereAcceptedAndEachToAnotherOne() throws {
        var scene = try SchedulerFixture { $0.window = .zero }
        try scene.change(for: [50, 51, 52])
        for due in scene.send() { scene.reply(due.number, SchedulerFixture.delivered) }
        scene.time += 120_000
        // The first notification is a poor judge of the credential.
        try scene.change(for: Array(0..<20) + [51, 52] + Array(20..<40))
        let sent = scene.send()
        for due in sent { #expect(scene.reply(due.number, Self.refused) == nil) }
        var probed: [PushToken] = []
        for _ in 0..<6 {
            scene.time += 60_000
            let probe = scene.send()
            #expect(probe.count == 1)
            probed.append(probe[0].token)
            scene.reply(probe[0].number, Self.refused)
        }
        #expect(Set(probed.prefix(2)) == [try SchedulerFixture.token(51), try SchedulerFixture.token(52)])
        #expect(Set(probed).count == 6)
        #expect(probed[2] != (try SchedulerFixture.token(0)), "never the head of the line")
    }

    @Test func tokensThatMayBeUnknownGoOutAFewAtATimeWhenManyAre() throws {
        var scene = try SchedulerFixture { $0.window = .zero }
        try scene.change(for: Array(0..<20))
        for due in scene.send() { scene.reply(due.number, SchedulerFixture.delivered) }
        let unknown = SchedulerFixture.answer(400, "BadDeviceToken")
        try scene.change(for: Array(100..<120))
        for due in scene.send() {
            if let effect = scene.reply(due.number, unknown) { scene.done(effect) }
        }
        try scene.change(for: Array(200..<240) + Array(0..<20))
        let due = scene.send()
        #expect(
            Set(due.map(\.token)).isSuperset(of: try (0..<20).map(SchedulerFixture.token)), "who is known does not wait"
        )
        #expect(due.count == 20 + CredentialQueue.mostSuspects)
        #expect(scene.send().isEmpty)
        // Each answer makes room for one more, and in the end all have been sent.
        var open = due
        var rounds = 0
        while !open.isEmpty, rounds < 100 {
            for one in open { scene.reply(one.number, SchedulerFixture.delivered) }
            scene.time += 1
            open = scene.send()
            rounds += 1
        }
        #expect(rounds > 3)
        #expect(scene.scheduler.gauges == PushGauges())
    }

    @Test func whatAnOldCredentialCouldNotTellIsToldWithTheNewOne() throws {
        for answer in [
            SchedulerFixture.answer(400, "BadDeviceToken"), SchedulerFixture.answer(400, "DeviceTokenNotForTopic"),
        ] {
            var scene = try SchedulerFixture { $0.window = .zero }
            try scene.change(for: [1])
            let due = scene.send()
            _ = scene.scheduler.open(try OrderTypeIdentifier(SchedulerFixture.order), generation: 2, now: scene.now)
            #expect(scene.reply(due[0].number, answer, generation: 1) == nil)
            scene.time += 1000
            let again = try #require(scene.send().first)
            scene.reply(again.number, SchedulerFixture.delivered, generation: 2)
            #expect(scene.scheduler.takeFinished().count == 1)
        }
    }

    @Test func whatWaitsForAStoppedCredentialForTooLongIsGivenUp() throws {
        var scene = try self.stopped(5)
        scene.time += 301_000
        #expect(scene.scheduler.giveUpStuck(now: scene.now, most: 3).count == 3)
        let rest = scene.scheduler.giveUpStuck(now: scene.now, most: 10)
        #expect(rest.map { self.code($0) } == [.credentialStopped, .credentialStopped])
        for effect in rest { scene.done(effect) }
        #expect(scene.scheduler.takeFinished().count == 2)
    }

    @Test func whatWaitsForAStoppedCredentialMovesToThePendingTopic() throws {
        var scene = try self.stopped(5)
        scene.scheduler.pendingTopic = "pending"
        #expect(scene.scheduler.suspendStuck(now: scene.now, most: 10).isEmpty, "it may heal")
        scene.time += 5000
        var effects: [PushEffect] = []
        for _ in 0..<3 { effects += scene.scheduler.suspendStuck(now: scene.now, most: 4) }
        let keys = effects.flatMap { effect -> [String] in
            guard case .suspend(let pushes) = effect.work else { return [] }
            return pushes.map(\.key.text)
        }
        #expect(Set(keys) == Set((0..<5).map { "d\($0)/\(SchedulerFixture.order)/o" }))
        #expect(keys.count == 5)
        #expect(scene.scheduler.takeFinished().isEmpty, "not before they stand there")
        for effect in effects { scene.done(effect) }
        #expect(scene.scheduler.takeFinished().count == 5)
        #expect(scene.scheduler.targetCount == 0)
        #expect(scene.scheduler.recordCount == 0)
        #expect(scene.scheduler.linkCount == 0)
    }

    /// Its turn is minutes away: the offset must not wait for it, or a restart repeats what came after its record.
    @Test func whatWaitsForItsTurnInTheHourMovesToThePendingTopic() throws {
        var scene = try SchedulerFixture { $0.hourlyLimit = 2 }
        scene.scheduler.pendingTopic = "pending"
        try scene.change(for: [1])
        scene.time += 1000
        scene.reply(try #require(scene.send().first).number, SchedulerFixture.delivered)
        #expect(scene.scheduler.takeFinished().count == 1)
        let limited = try scene.change(for: [1])
        scene.time += 1000
        #expect(scene.send().isEmpty)
        scene.time += 4900
        #expect(scene.scheduler.suspendStuck(now: scene.now, most: 10).isEmpty, "its turn may be near")
        scene.time += 100
        let effects = scene.scheduler.suspendStuck(now: scene.now, most: 10)
        #expect(effects.count == 1)
        for effect in effects { scene.done(effect) }
        #expect(scene.scheduler.takeFinished() == [limited])
        #expect(scene.scheduler.targetCount == 0)
    }

    @Test func whatCameFromThePendingTopicWaitsInTheScheduler() throws {
        var scene = try self.stopped(2)
        scene.scheduler.pendingTopic = "orders"
        let late = try scene.change(for: [7])
        scene.time += 60_000
        let effects = (0..<3).flatMap { _ in scene.scheduler.suspendStuck(now: scene.now, most: 10) }
        #expect(effects.count == 2)
        for effect in effects { scene.done(effect) }
        #expect(!scene.scheduler.takeFinished().contains(late))
        #expect(scene.scheduler.targetCount == 1)
    }

    @Test func whatFailsForTheServicesFaultMovesToThePendingTopicAndWhatFailsForItsOwnGetsALetter() throws {
        var scene = try SchedulerFixture {
            $0.window = .zero
            $0.attempts = 1
            $0.hold = .seconds(10)
        }
        scene.scheduler.pendingTopic = "pending"
        try scene.change(for: [1])
        let busy = scene.reply(scene.send()[0].number, SchedulerFixture.busyDevice)
        #expect(self.code(busy) == .undeliverable)
        #expect(SchedulerFixture.answer(503, "ServiceUnavailable").isOfTheService)
        #expect(SchedulerFixture.away.isOfTheService)
        #expect(!SchedulerFixture.busyDevice.isOfTheService)
        #expect(!SchedulerFixture.delivered.isOfTheService)
    }

    @Test func whatAnOldCredentialWasToldDoesNotStopTheNewOne() throws {
        var scene = try SchedulerFixture { $0.window = .zero }
        try scene.change(for: [1])
        let due = scene.send()
        #expect(
            scene.scheduler.open(try OrderTypeIdentifier(SchedulerFixture.order), generation: 2, now: scene.now)
                == scene.queue)
        #expect(scene.reply(due[0].number, Self.refused, generation: 1) == nil)
        scene.time += 1000
        let again = scene.send()
        #expect(again.count == 1)
        scene.reply(again[0].number, SchedulerFixture.delivered, generation: 2)
        #expect(scene.scheduler.takeFinished().count == 1)
    }

    @Test func anOrderTypeWithoutABrandGetsLettersIfThereIsNoPendingTopic() throws {
        var (scene, queue, receipt) = try self.withoutBrand { $0.hold = .seconds(300) }
        #expect(scene.scheduler.send(queue, now: scene.now, epochMilliseconds: 0).isEmpty)
        #expect(scene.scheduler.giveUpBrandless(now: scene.now, most: 10).isEmpty, "there may be one")
        var patient = scene
        patient.time = 300_000
        #expect(patient.scheduler.giveUpBrandless(now: patient.now, most: 10).count == 1, "nobody answers for it")
        scene.scheduler.lacksPendingTopic = true
        let effects = scene.scheduler.giveUpBrandless(now: scene.now, most: 10)
        #expect(effects.map { self.code($0) } == [.brandMissing])
        scene.done(effects[0])
        #expect(scene.scheduler.takeFinished() == [receipt])
    }

    @Test func anOrderTypeWithoutABrandThatCameBeforeThePendingTopicMovesToIt() throws {
        var (scene, _, receipt) = try self.withoutBrand()
        #expect(scene.scheduler.giveUpBrandless(now: scene.now, most: 10).isEmpty)
        scene.scheduler.pendingTopic = "pending"
        scene.time = 60_000
        let effects = scene.scheduler.suspendStuck(now: scene.now, most: 10)
        guard case .suspend(let pushes)? = effects.first?.work else {
            Issue.record("it must move, not \(effects)")
            return
        }
        #expect(pushes.map(\.key.device?.rawValue) == ["d"])
        scene.done(effects[0])
        #expect(scene.scheduler.takeFinished() == [receipt])
    }

    @Test func whatMovesToThePendingTopicMovesInParts() throws {
        let time = Mutex(ContinuousClock.now)
        let scheduler = PushScheduler(
            limits: PushLimits(), clock: { time.withLock { $0 } }, wallClock: { SchedulerFixture.noon })
        scheduler.suspend(to: "pending")
        var scene = try SchedulerFixture()
        let record = (scene.take().receipt, SchedulerFixture.noon)
        let found = try (0..<600).map { number in
            PushLookup.Found(
                orderType: try OrderTypeIdentifier("order.example.none"), order: try OrderIdentifier("o"),
                device: try DeviceIdentifier("d\(number)"),
                registration: RegistrationRecord(
                    pushToken: try SchedulerFixture.token(number), registeredEpochMilliseconds: 0),
                records: [0])
        }
        _ = scheduler.add(found, scheduler.receive([record]))
        let later = time.withLock { time in
            time += .seconds(60)
            return time
        }
        let full = scheduler.look(openEffects: PushScheduler.suspensionLimit)
        #expect(full.work.effects.isEmpty)
        #expect(full.next != later, "it waits until some of these are performed")
        var counts: [Int] = []
        while counts.count < 10 {
            let (next, work) = scheduler.look(openEffects: 0)
            counts.append(work.effects.count)
            if next != later { break }
        }
        #expect(counts.reduce(0, +) == 600)
        #expect(counts.allSatisfy { $0 <= 256 }, "\(counts)")
    }

    @Test func orderTypesWithoutABrandAreBounded() throws {
        var scene = try SchedulerFixture()
        for number in 0..<PushStateMachine.queueLimit + 10 {
            let queue = scene.scheduler.queue(of: try OrderTypeIdentifier("order.example.t\(number)"), now: scene.now)
            if number > PushStateMachine.queueLimit { #expect(queue == nil) }
        }
        #expect(scene.scheduler.queues.count == PushStateMachine.queueLimit)
    }

    // MARK: partitions that leave

    @Test func whatWaitsOfALeavingPartitionIsLetGoOfAndToldNobody() throws {
        var scene = try SchedulerFixture()
        let leaving = try scene.change(for: [1, 2], partition: 1)
        let staying = try scene.change(for: [2], partition: 0)
        #expect(scene.scheduler.drop([KafkaPartition(topic: "orders", partition: 1)]) == [leaving])
        #expect(scene.scheduler.drop([KafkaPartition(topic: "orders", partition: 1)]).isEmpty)
        scene.time = 1000
        let due = scene.send()
        #expect(due.map(\.token) == [try SchedulerFixture.token(2)])
        scene.reply(due[0].number, SchedulerFixture.delivered)
        #expect(scene.scheduler.takeFinished() == [staying])
        #expect(scene.scheduler.gauges == PushGauges())
    }

    @Test func whatIsInFlightOfALeavingPartitionIsWaitedFor() throws {
        var scene = try SchedulerFixture { $0.window = .zero }
        let receipt = try scene.change(for: [1], partition: 1)
        let due = scene.send()
        #expect(scene.scheduler.drop([KafkaPartition(topic: "orders", partition: 1)]).isEmpty)
        scene.reply(due[0].number, SchedulerFixture.delivered)
        #expect(scene.scheduler.takeFinished() == [receipt])
    }

    @Test func whatIsInFlightAndHasToBeTriedAgainIsLetGoOf() throws {
        var scene = try SchedulerFixture { $0.window = .zero }
        let receipt = try scene.change(for: [1], partition: 1)
        let due = scene.send()
        let partitions: Set = [KafkaPartition(topic: "orders", partition: 1)]
        #expect(scene.scheduler.drop(partitions).isEmpty)
        scene.reply(due[0].number, SchedulerFixture.away)
        #expect(scene.scheduler.drop(partitions) == [receipt])
        #expect(scene.scheduler.gauges == PushGauges())
        scene.time = 100_000
        #expect(scene.send().isEmpty)
        #expect(scene.scheduler.takeFinished().isEmpty)
    }

    @Test func aLookupThatIsUnderWayFindsNobodyForALeavingPartition() throws {
        var scene = try SchedulerFixture { $0.window = .zero }
        let (receipt, number) = scene.take(partition: 1)
        #expect(scene.scheduler.drop([KafkaPartition(topic: "orders", partition: 1)]) == [receipt])
        try scene.find(1, "o", number)
        scene.scheduler.endLookup([number])
        #expect(scene.send().isEmpty)
        #expect(scene.scheduler.takeFinished().isEmpty)
        #expect(scene.scheduler.gauges == PushGauges())
    }
}
