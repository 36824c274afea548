import Kafka
import Model
import Testing

@testable import Pusher

/// The share of the scheduler that each brand may fill.
@Suite struct PushStateMachineShareTests {
    private static let refused = SchedulerFixture.answer(403, "BadCertificate")

    private func type() throws -> OrderTypeIdentifier { try OrderTypeIdentifier(SchedulerFixture.order) }

    @Test func aBrandThatIsAloneFillsThreeQuartersAndLeavesRoomForTheNext() throws {
        var scene = try SchedulerFixture { $0.targets = 100 }
        for device in 0..<74 { try scene.change(for: [device]) }
        #expect(scene.scheduler.parkedTypes.isEmpty)
        try scene.change(for: [74])
        #expect(scene.scheduler.parkedTypes == [try self.type()])
        #expect(scene.scheduler.room == 25)
    }

    @Test func thereIsAlwaysRoomForOneMoreBrand() throws {
        var scene = try SchedulerFixture { $0.targets = 1000 }
        for device in 0..<750 { try scene.change(for: [device]) }
        var held: [Int] = []
        for number in 0..<3 {
            let type = try OrderTypeIdentifier("order.com.example.t\(number)")
            let queue = scene.scheduler.open(type, generation: 1, now: scene.now)
            while !scene.scheduler.parkedTypes.contains(type) {
                let (_, record) = scene.take()
                scene.scheduler.tell(
                    try SchedulerFixture.token(scene.scheduler.linkCount),
                    of: PushStateMachine.Link(
                        record: record, device: try DeviceIdentifier("d"), order: try OrderIdentifier("o"),
                        registeredEpochMilliseconds: 0), in: queue, now: scene.now)
                scene.scheduler.endLookup([record])
            }
            held.append(scene.scheduler.queues[queue].links)
            #expect(scene.scheduler.opening(of: type) == 0)
        }
        #expect(held == [188, 47, 12])
        #expect(scene.scheduler.room > 0)
        #expect(scene.scheduler.parkedTypes.contains(try self.type()), "the first one has more than its share by now")
    }

    @Test func aLargeChangeLeavesMostOfTheDeskFreeWhileThereAreOtherBrands() throws {
        var scene = try SchedulerFixture {
            $0.targets = 1000
            $0.queueLinks = 50
        }
        for device in 0..<60 { try scene.change(for: [device]) }
        #expect(scene.scheduler.parkedTypes.isEmpty, "it is alone")
        let other = try OrderTypeIdentifier("order.com.example.other")
        _ = scene.scheduler.open(other, generation: 1, now: scene.now)
        #expect(scene.scheduler.parkedTypes == [try self.type()])
        #expect(scene.scheduler.opening(of: try self.type()) == 0)
        #expect(scene.scheduler.opening(of: other) == 25)
    }

    @Test func aShareIsFreeAgainWhenItsDevicesWereTold() throws {
        var scene = try SchedulerFixture {
            $0.targets = 10
            $0.window = .zero
        }
        for device in 0..<8 { try scene.change(for: [device]) }
        #expect(!scene.scheduler.parkedTypes.isEmpty)
        for due in scene.send() { scene.reply(due.number, SchedulerFixture.delivered) }
        #expect(scene.scheduler.parkedTypes.isEmpty)
        #expect(scene.scheduler.queues[scene.queue].links == 0)
    }

    @Test func ofAStoppedCredentialOnlyProbesComeIn() throws {
        var scene = try SchedulerFixture {
            $0.window = .zero
            $0.probes = 3
        }
        try scene.change(for: [0])
        scene.reply(scene.send()[0].number, Self.refused)
        #expect(scene.scheduler.parkedTypes == [try self.type()])
        #expect(scene.scheduler.opening(of: try self.type()) == 2)
        for device in 1..<3 { try scene.change(for: [device]) }
        #expect(scene.scheduler.opening(of: try self.type()) == 0)
    }

    @Test func aRecordThatIsParkedLeavesTheDeskUnfinished() throws {
        var scene = try SchedulerFixture()
        let (first, second) = (scene.take(partition: 0), scene.take(partition: 1))
        #expect(scene.scheduler.withdraw(first.number) == true)
        #expect(scene.scheduler.drop([KafkaPartition(topic: "orders", partition: 1)]) == [second.receipt])
        #expect(scene.scheduler.withdraw(second.number) == false, "it was let go of before")
        scene.scheduler.endLookup([-1, -1])
        #expect(scene.scheduler.takeFinished().isEmpty)
        #expect(scene.scheduler.gauges == PushGauges())
    }
}
