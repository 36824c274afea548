import APNS
import Kafka
import Model
import Testing

@testable import Pusher

/// The times of notifications, and of the completion of records, without a socket.
@Suite struct PushStateMachineTests {
    @Test func aQuietDeviceIsNotifiedAtOnceAndThenOnceAtTheEndOfItsWindow() throws {
        var fixture = try SchedulerFixture()
        var receipts = [try fixture.change("a", for: [1])]
        let first = fixture.send()
        #expect(first.map(\.token) == [try SchedulerFixture.token(1)])
        #expect(fixture.scheduler.takeFinished().isEmpty, "nothing is done before the verdict")
        fixture.reply(first[0].number, SchedulerFixture.delivered)
        #expect(fixture.scheduler.takeFinished() == receipts)
        receipts = []
        for order in ["a", "b", "a"] {
            fixture.time += 300
            receipts.append(try fixture.change(order, for: [1]))
            #expect(fixture.send().isEmpty)
        }
        #expect(fixture.scheduler.due.first == fixture.start + .seconds(1))
        try fixture.change(for: [2])
        fixture.reply(try #require(fixture.send().first).number, SchedulerFixture.delivered)
        #expect(fixture.scheduler.takeFinished().count == 1, "another device does not wait")
        fixture.time = 1000
        let second = fixture.send()
        #expect(second.map(\.token) == [try SchedulerFixture.token(1)])
        fixture.reply(second[0].number, SchedulerFixture.delivered)
        #expect(fixture.scheduler.takeFinished() == receipts)
        #expect(fixture.scheduler.queues[0].counts.coalesced == 2)
        #expect(fixture.scheduler.gauges == PushGauges())
        fixture.time = 2000
        try fixture.change(for: [1])
        #expect(fixture.send().count == 1, "it has been quiet for a window")
    }

    @Test func beyondTheirCapacityTheOldestWindowsEndEarly() {
        let start = MonotonicTime.now
        var windows = PushWindows(.seconds(1), capacity: 2)
        for device in [1, 2, 1, 3] { windows.open(device, now: start) }
        #expect(windows.end(of: 2) == nil)
        #expect(windows.end(of: 3) == start + .seconds(1))
        windows.open(4, now: start + .seconds(1))
        #expect(windows.end(of: 3) == nil)
    }

    @Test func withoutAWindowNotificationsAreSentImmediately() throws {
        var fixture = try SchedulerFixture { $0.window = .zero }
        try fixture.change(for: [1, 2])
        #expect(fixture.send().count == 2)
    }

    @Test func aChangeWhileInFlightWaitsForTheEndOfTheWindow() throws {
        var fixture = try SchedulerFixture()
        let first = try fixture.change(for: [1])
        let due = fixture.send()
        fixture.time = 500
        let second = try fixture.change(for: [1])
        fixture.time = 600
        #expect(fixture.send().isEmpty, "one at a time")
        fixture.reply(due[0].number, SchedulerFixture.delivered)
        #expect(fixture.scheduler.takeFinished() == [first])
        fixture.time = 999
        #expect(fixture.send().isEmpty)
        fixture.time = 1000
        fixture.reply(fixture.send()[0].number, SchedulerFixture.delivered)
        #expect(fixture.scheduler.takeFinished() == [second])
    }

    @Test func aRecordIsDoneWhenTheLastDeviceHasItsVerdict() throws {
        var fixture = try SchedulerFixture { $0.window = .zero }
        let receipt = try fixture.change(for: [1, 2, 3])
        let due = fixture.send()
        fixture.reply(due[2].number, SchedulerFixture.delivered)
        fixture.reply(due[0].number, SchedulerFixture.delivered)
        #expect(fixture.scheduler.takeFinished().isEmpty)
        fixture.reply(due[1].number, SchedulerFixture.delivered)
        #expect(fixture.scheduler.takeFinished() == [receipt])
    }

    @Test func aRecordWithoutDevicesIsDoneAfterItsLookup() throws {
        var fixture = try SchedulerFixture()
        let (receipt, number) = fixture.take()
        #expect(fixture.scheduler.takeFinished().isEmpty)
        fixture.scheduler.endLookup([number])
        #expect(fixture.scheduler.takeFinished() == [receipt])
    }

    @Test func aRetryAlsoCoversNewerChanges() throws {
        var fixture = try SchedulerFixture { $0.window = .zero }
        let first = try fixture.change(for: [1])
        let due = fixture.send()
        let second = try fixture.change(for: [1])
        fixture.reply(due[0].number, SchedulerFixture.busyDevice)
        #expect(fixture.send().isEmpty)
        fixture.time = 1000
        let again = fixture.send()
        #expect(again.count == 1)
        fixture.reply(again[0].number, SchedulerFixture.delivered)
        #expect(fixture.scheduler.takeFinished() == [first, second])
        #expect(fixture.scheduler.queues[0].counts.retried == 1)
    }

    @Test func duplicateAndUnknownRepliesAreIgnored() throws {
        var fixture = try SchedulerFixture { $0.window = .zero }
        try fixture.change(for: [1])
        let number = fixture.send()[0].number
        fixture.reply(number &+ 1, SchedulerFixture.delivered)
        fixture.reply(.max, SchedulerFixture.delivered)
        #expect(fixture.scheduler.takeFinished().isEmpty)
        fixture.reply(number, SchedulerFixture.delivered)
        #expect(fixture.scheduler.takeFinished().count == 1)
        try fixture.change(for: [1])
        #expect(fixture.send().count == 1)
        fixture.reply(number, SchedulerFixture.delivered)
        #expect(fixture.scheduler.takeFinished().isEmpty)
        #expect(fixture.scheduler.queues[fixture.queue].inFlight == 1)
    }

    @Test func anUndeliverableRecordIsDoneAfterItsDeadLetterIsWritten() throws {
        var fixture = try SchedulerFixture {
            $0.window = .zero
            $0.attempts = 3
        }
        let receipt = try fixture.change("a", for: [1])
        var effect: PushEffect?
        for _ in 0..<3 {
            #expect(effect == nil)
            fixture.time += 100_000
            effect = fixture.reply(try #require(fixture.send().first).number, SchedulerFixture.busyDevice)
        }
        guard case .report(let deadLetters) = try #require(effect).work else { throw DeskError() }
        #expect(deadLetters.count == 1)
        let deadLetter = try #require(deadLetters.first)
        #expect(deadLetter.code == .undeliverable)
        #expect(deadLetter.history.count == 3)
        #expect(deadLetter.registration.order.order.rawValue == "a")
        #expect(deadLetter.origin == receipt.position)
        #expect(fixture.scheduler.takeFinished().isEmpty)
        let last = try #require(effect)
        fixture.done(last)
        #expect(fixture.scheduler.takeFinished() == [receipt])
        #expect(fixture.scheduler.gauges == PushGauges())
    }

    /// A device may leave one of its orders before it is notified again.
    @Test func aDroppedNotificationHasADeadLetterOfEachOrder() throws {
        var fixture = try SchedulerFixture { $0.attempts = 1 }
        let first = try fixture.change("a", for: [1])
        fixture.reply(try #require(fixture.send().first).number, SchedulerFixture.delivered)
        #expect(fixture.scheduler.takeFinished() == [first])
        let receipts = try ["b", "a", "b"].map { try fixture.change($0, for: [1]) }
        fixture.time += 100_000
        let effect = fixture.reply(try #require(fixture.send().first).number, SchedulerFixture.busyDevice)
        guard case .report(let deadLetters) = try #require(effect).work else { throw DeskError() }
        #expect(deadLetters.map(\.registration.order.order.rawValue) == ["a", "b"])
        #expect(deadLetters.map(\.origin) == [receipts[1].position, receipts[0].position])
        #expect(deadLetters.map(\.records) == [1, 2])
        #expect(deadLetters.allSatisfy { $0.history.count == 1 && $0.registration.device.rawValue == "d1" })
        #expect(fixture.scheduler.takeFinished().isEmpty)
        fixture.done(try #require(effect))
        #expect(fixture.scheduler.takeFinished() == receipts)
    }

    @Test func theDeadLettersOfOneNotificationAreBoundedAndSaySo() throws {
        var fixture = try SchedulerFixture { $0.attempts = 1 }
        let most = PushDeadLetter.mostOfNotification
        try fixture.change("first", for: [1])
        fixture.reply(try #require(fixture.send().first).number, SchedulerFixture.delivered)
        for order in 0..<most + 7 { try fixture.change("\(order)", for: [1]) }
        fixture.time += 100_000
        let effect = fixture.reply(try #require(fixture.send().first).number, SchedulerFixture.busyDevice)
        guard case .report(let deadLetters) = try #require(effect).work else { throw DeskError() }
        #expect(deadLetters.map(\.registration.order.order.rawValue) == (7..<most + 7).map { "\($0)" })
        #expect(deadLetters.allSatisfy { $0.reason.contains("; 7 further orders") })
    }

    @Test func noDeviceIsDroppedWhileAPNsIsUnavailable() throws {
        var fixture = try SchedulerFixture { $0.window = .zero }
        for device in 0..<30 { try fixture.change(for: [device]) }
        for _ in 0..<2000 {
            for due in fixture.send() { #expect(fixture.reply(due.number, SchedulerFixture.away) == nil) }
            fixture.time += 5000
        }
        #expect(fixture.scheduler.gauges.targets == 30)
        #expect(fixture.scheduler.takeFinished().isEmpty)
        for _ in 0..<200 {
            for due in fixture.send() { fixture.reply(due.number, SchedulerFixture.delivered) }
            fixture.time += 5000
        }
        #expect(fixture.scheduler.takeFinished().count == 30)
    }

    @Test func theHourlyLimitDelaysNotificationsWithoutLosingTheLastChange() throws {
        var fixture = try SchedulerFixture {
            $0.window = .zero
            $0.hourlyLimit = 4
        }
        var sent: [Int] = []
        var done = 0
        for minute in 0..<180 {
            fixture.time = minute * 60_000
            if minute < 100 { try fixture.change(for: [1]) }
            for due in fixture.send() {
                sent.append(minute)
                fixture.reply(due.number, SchedulerFixture.delivered)
            }
            done += fixture.scheduler.takeFinished().count
        }
        #expect(done == 100)
        #expect(sent.count >= 4)
        for (index, minute) in sent.enumerated() where index >= 4 { #expect(minute - sent[index - 4] >= 60) }
        #expect(try #require(sent.last) >= 99)
    }

    @Test func notificationsInFlightAreLimited() throws {
        var fixture = try SchedulerFixture {
            $0.window = .zero
            $0.inFlight = 3
        }
        try fixture.change(for: Array(0..<5))
        let due = fixture.send()
        #expect(due.count == 3)
        #expect(fixture.send().isEmpty)
        fixture.reply(due[1].number, SchedulerFixture.delivered)
        #expect(fixture.send().count == 1)
    }

    @Test func aFullSchedulerHasNoRoomForRecords() throws {
        var fixture = try SchedulerFixture {
            $0.records = 4
            $0.targets = 10
            $0.links = 6
        }
        #expect(fixture.scheduler.room == 4)
        try fixture.change(for: [1])
        #expect(fixture.scheduler.room == 3)
        try fixture.change(for: [1, 2, 3, 4])
        #expect(fixture.scheduler.room == 1, "links are what is scarce")
        try fixture.change(for: Array(5..<50))
        #expect(fixture.scheduler.room == 0)
        fixture.time = 1000
        for due in fixture.send() { fixture.reply(due.number, SchedulerFixture.delivered) }
        #expect(fixture.scheduler.room == 4)
    }

    private struct DeskError: Error {}
}
