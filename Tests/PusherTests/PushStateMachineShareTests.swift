import Kafka
import Model
import Testing

@testable import Pusher

/// The share of the scheduler that each brand may fill.
@Suite struct PushStateMachineShareTests {
    private static let refused = SchedulerFixture.answer(403, "BadCertificate")

    private func type() throws -> OrderTypeIdentifier { try OrderTypeIdentifier(SchedulerFixture.order) }

    @Test func aLoneBrandUsesAtMostThreeQuartersOfTheCapacity() throws {
        var fixture = try SchedulerFixture { $0.targets = 100 }
        for device in 0..<74 { try fixture.change(for: [device]) }
        #expect(fixture.scheduler.parkedTypes.isEmpty)
        try fixture.change(for: [74])
        #expect(fixture.scheduler.parkedTypes == [try self.type()])
        #expect(fixture.scheduler.room == 25)
    }

    @Test func thereIsAlwaysRoomForOneMoreBrand() throws {
        var fixture = try SchedulerFixture { $0.targets = 1000 }
        for device in 0..<750 { try fixture.change(for: [device]) }
        var held: [Int] = []
        for number in 0..<3 {
            let type = try OrderTypeIdentifier("order.com.example.t\(number)")
            let queue = fixture.scheduler.open(type, generation: 1)
            while !fixture.scheduler.parkedTypes.contains(type) {
                let (_, record) = fixture.take()
                fixture.scheduler.notify(
                    try SchedulerFixture.token(fixture.scheduler.linkCount),
                    of: PushStateMachine.Link(
                        record: record, device: try DeviceIdentifier("d"), order: try OrderIdentifier("o"),
                        registeredEpochMilliseconds: 0), in: queue, now: fixture.now)
                fixture.scheduler.endLookup([record])
            }
            held.append(fixture.scheduler.queues[queue].links)
            #expect(fixture.scheduler.opening(of: type) == 0)
        }
        #expect(held == [188, 47, 12])
        #expect(fixture.scheduler.room > 0)
        #expect(fixture.scheduler.parkedTypes.contains(try self.type()), "the first one has more than its share by now")
    }

    @Test func aLargeChangeIsParkedWhileAnotherBrandIsOpen() throws {
        var fixture = try SchedulerFixture {
            $0.targets = 1000
            $0.queueLinks = 50
        }
        for device in 0..<60 { try fixture.change(for: [device]) }
        #expect(fixture.scheduler.parkedTypes.isEmpty, "it is alone")
        let other = try OrderTypeIdentifier("order.com.example.other")
        _ = fixture.scheduler.open(other, generation: 1)
        #expect(fixture.scheduler.parkedTypes == [try self.type()])
        #expect(fixture.scheduler.opening(of: try self.type()) == 0)
        #expect(fixture.scheduler.opening(of: other) == 25)
    }

    @Test func deliveredNotificationsFreeTheShareOfTheirBrand() throws {
        var fixture = try SchedulerFixture {
            $0.targets = 10
            $0.window = .zero
        }
        for device in 0..<8 { try fixture.change(for: [device]) }
        #expect(!fixture.scheduler.parkedTypes.isEmpty)
        for due in fixture.send() { fixture.reply(due.number, SchedulerFixture.delivered) }
        #expect(fixture.scheduler.parkedTypes.isEmpty)
        #expect(fixture.scheduler.queues[fixture.queue].links == 0)
    }

    @Test func aStoppedCredentialAdmitsOnlyProbes() throws {
        var fixture = try SchedulerFixture {
            $0.window = .zero
            $0.probes = 3
        }
        try fixture.change(for: [0])
        fixture.reply(fixture.send()[0].number, Self.refused)
        #expect(fixture.scheduler.parkedTypes == [try self.type()])
        #expect(fixture.scheduler.opening(of: try self.type()) == 2)
        for device in 1..<3 { try fixture.change(for: [device]) }
        #expect(fixture.scheduler.opening(of: try self.type()) == 0)
    }

    @Test func aWithdrawnRecordIsNotFinished() throws {
        var fixture = try SchedulerFixture()
        let (first, second) = (fixture.take(partition: 0), fixture.take(partition: 1))
        #expect(fixture.scheduler.withdraw(first.number) == true)
        #expect(fixture.scheduler.drop([KafkaPartition(topic: "orders", partition: 1)]) == [second.receipt])
        #expect(fixture.scheduler.withdraw(second.number) == false, "it was let go of before")
        fixture.scheduler.endLookup([-1, -1])
        #expect(fixture.scheduler.takeFinished().isEmpty)
        #expect(fixture.scheduler.gauges == PushGauges())
    }
}
