import APNS
import Kafka
import Model
import Testing

@testable import Pusher

/// The times of notifications, and of the completion of records, without a socket.
@Suite struct PushStateMachineTests {
    @Test func manyChangesWithinAWindowMakeOneNotificationAtItsEnd() throws {
        var scene = try SchedulerFixture()
        var receipts: [KafkaReceipt] = []
        for order in ["a", "b", "a"] {
            receipts.append(try scene.change(order, for: [1]))
            scene.time += 300
            #expect(scene.send().isEmpty)
        }
        #expect(scene.scheduler.due.first == scene.start + .seconds(1))
        scene.time = 1000
        let due = scene.send()
        #expect(due.map(\.token) == [try SchedulerFixture.token(1)])
        #expect(scene.scheduler.takeFinished().isEmpty, "nothing is done before the verdict")
        scene.reply(due[0].number, SchedulerFixture.delivered)
        #expect(scene.scheduler.takeFinished() == receipts)
        #expect(scene.scheduler.queues[0].counts.coalesced == 2)
        #expect(scene.scheduler.gauges == PushGauges())
    }

    @Test func withoutAWindowEachIsToldAtOnce() throws {
        var scene = try SchedulerFixture { $0.window = .zero }
        try scene.change(for: [1, 2])
        #expect(scene.send().count == 2)
    }

    @Test func whatComesWhileOneIsInFlightMakesAnotherWithAWindowOfItsOwn() throws {
        var scene = try SchedulerFixture()
        let first = try scene.change(for: [1])
        scene.time = 1000
        let due = scene.send()
        scene.time = 1500
        let second = try scene.change(for: [1])
        scene.time = 1600
        #expect(scene.send().isEmpty, "one at a time")
        scene.reply(due[0].number, SchedulerFixture.delivered)
        #expect(scene.scheduler.takeFinished() == [first])
        scene.time = 2499
        #expect(scene.send().isEmpty)
        scene.time = 2500
        scene.reply(scene.send()[0].number, SchedulerFixture.delivered)
        #expect(scene.scheduler.takeFinished() == [second])
    }

    @Test func aRecordIsDoneWhenTheLastDeviceHasItsVerdict() throws {
        var scene = try SchedulerFixture { $0.window = .zero }
        let receipt = try scene.change(for: [1, 2, 3])
        let due = scene.send()
        scene.reply(due[2].number, SchedulerFixture.delivered)
        scene.reply(due[0].number, SchedulerFixture.delivered)
        #expect(scene.scheduler.takeFinished().isEmpty)
        scene.reply(due[1].number, SchedulerFixture.delivered)
        #expect(scene.scheduler.takeFinished() == [receipt])
    }

    @Test func aRecordThatConcernsNobodyIsDoneWithItsLookup() throws {
        var scene = try SchedulerFixture()
        let (receipt, number) = scene.take()
        #expect(scene.scheduler.takeFinished().isEmpty)
        scene.scheduler.endLookup([number])
        #expect(scene.scheduler.takeFinished() == [receipt])
    }

    @Test func whatIsTriedAgainTellsOfWhatCameMeanwhileAsWell() throws {
        var scene = try SchedulerFixture { $0.window = .zero }
        let first = try scene.change(for: [1])
        let due = scene.send()
        let second = try scene.change(for: [1])
        scene.reply(due[0].number, SchedulerFixture.busyDevice)
        #expect(scene.send().isEmpty)
        scene.time = 1000
        let again = scene.send()
        #expect(again.count == 1)
        scene.reply(again[0].number, SchedulerFixture.delivered)
        #expect(scene.scheduler.takeFinished() == [first, second])
        #expect(scene.scheduler.queues[0].counts.retried == 1)
    }

    @Test func aReplyThatComesTwiceOrFromNowhereMovesNothing() throws {
        var scene = try SchedulerFixture { $0.window = .zero }
        try scene.change(for: [1])
        let number = scene.send()[0].number
        scene.reply(number &+ 1, SchedulerFixture.delivered)
        scene.reply(.max, SchedulerFixture.delivered)
        #expect(scene.scheduler.takeFinished().isEmpty)
        scene.reply(number, SchedulerFixture.delivered)
        #expect(scene.scheduler.takeFinished().count == 1)
        try scene.change(for: [1])
        #expect(scene.send().count == 1)
        scene.reply(number, SchedulerFixture.delivered)
        #expect(scene.scheduler.takeFinished().isEmpty)
        #expect(scene.scheduler.queues[scene.queue].inFlight == 1)
    }

    @Test func aStuckDeviceIsGivenUpWithItsHistoryAndItsRecordIsDoneBehindTheLetter() throws {
        var scene = try SchedulerFixture {
            $0.window = .zero
            $0.attempts = 3
        }
        let receipt = try scene.change("a", for: [1])
        var effect: PushEffect?
        for _ in 0..<3 {
            #expect(effect == nil)
            scene.time += 100_000
            effect = scene.reply(try #require(scene.send().first).number, SchedulerFixture.busyDevice)
        }
        guard case .report(let letter) = try #require(effect).work else { throw DeskError() }
        #expect(letter.code == .undeliverable)
        #expect(letter.history.count == 3)
        #expect(letter.registration.order.order.rawValue == "a")
        #expect(letter.origin == receipt.position)
        #expect(scene.scheduler.takeFinished().isEmpty)
        let last = try #require(effect)
        scene.done(last)
        #expect(scene.scheduler.takeFinished() == [receipt])
        #expect(scene.scheduler.gauges == PushGauges())
    }

    @Test func nobodyIsGivenUpWhileApnsIsAway() throws {
        var scene = try SchedulerFixture { $0.window = .zero }
        for device in 0..<30 { try scene.change(for: [device]) }
        for _ in 0..<2000 {
            for due in scene.send() { #expect(scene.reply(due.number, SchedulerFixture.away) == nil) }
            scene.time += 5000
        }
        #expect(scene.scheduler.gauges.targets == 30)
        #expect(scene.scheduler.takeFinished().isEmpty)
        for _ in 0..<200 {
            for due in scene.send() { scene.reply(due.number, SchedulerFixture.delivered) }
            scene.time += 5000
        }
        #expect(scene.scheduler.takeFinished().count == 30)
    }

    @Test func theHourlyLimitDelaysAndTheLastChangeIsTold() throws {
        var scene = try SchedulerFixture {
            $0.window = .zero
            $0.hourlyLimit = 4
        }
        var sent: [Int] = []
        var done = 0
        for minute in 0..<180 {
            scene.time = minute * 60_000
            if minute < 100 { try scene.change(for: [1]) }
            for due in scene.send() {
                sent.append(minute)
                scene.reply(due.number, SchedulerFixture.delivered)
            }
            done += scene.scheduler.takeFinished().count
        }
        #expect(done == 100)
        #expect(sent.count >= 4)
        for (index, minute) in sent.enumerated() where index >= 4 { #expect(minute - sent[index - 4] >= 60) }
        #expect(try #require(sent.last) >= 99)
    }

    @Test func onlySoManyAreWithTheClient() throws {
        var scene = try SchedulerFixture {
            $0.window = .zero
            $0.inFlight = 3
        }
        try scene.change(for: Array(0..<5))
        let due = scene.send()
        #expect(due.count == 3)
        #expect(scene.send().isEmpty)
        scene.reply(due[1].number, SchedulerFixture.delivered)
        #expect(scene.send().count == 1)
    }

    @Test func aFullSchedulerAsksForNoRecords() throws {
        var scene = try SchedulerFixture {
            $0.records = 4
            $0.targets = 10
            $0.links = 6
        }
        #expect(scene.scheduler.room == 4)
        try scene.change(for: [1])
        #expect(scene.scheduler.room == 3)
        try scene.change(for: [1, 2, 3, 4])
        #expect(scene.scheduler.room == 1, "links are what is scarce")
        try scene.change(for: Array(5..<50))
        #expect(scene.scheduler.room == 0)
        scene.time = 1000
        for due in scene.send() { scene.reply(due.number, SchedulerFixture.delivered) }
        #expect(scene.scheduler.room == 4)
    }

    private struct DeskError: Error {}
}
