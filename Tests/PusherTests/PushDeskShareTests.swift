import Kafka
import Model
import Testing

@testable import Pusher

/// The share of the desk that each brand may fill.
@Suite struct PushDeskShareTests {
    private static let refused = DeskScene.answer(403, "BadCertificate")

    private func type() throws -> OrderTypeIdentifier { try OrderTypeIdentifier(DeskScene.order) }

    @Test func aBrandThatIsAloneFillsThreeQuartersAndLeavesRoomForTheNext() throws {
        var scene = try DeskScene { $0.targets = 100 }
        for device in 0..<74 { try scene.change(for: [device]) }
        #expect(scene.desk.parkedTypes.isEmpty)
        try scene.change(for: [74])
        #expect(scene.desk.parkedTypes == [try self.type()])
        #expect(scene.desk.room == 25)
    }

    @Test func thereIsAlwaysRoomForOneMoreBrand() throws {
        var scene = try DeskScene { $0.targets = 1000 }
        for device in 0..<750 { try scene.change(for: [device]) }
        var held: [Int] = []
        for number in 0..<3 {
            let type = try OrderTypeIdentifier("order.com.example.t\(number)")
            let lane = scene.desk.open(type, generation: 1, now: scene.now)
            while !scene.desk.parkedTypes.contains(type) {
                let (_, record) = scene.take()
                scene.desk.tell(
                    try DeskScene.token(scene.desk.linkCount),
                    of: PushDesk.Link(
                        record: record, device: try DeviceIdentifier("d"), order: try OrderIdentifier("o"),
                        registeredEpochMilliseconds: 0), in: lane, now: scene.now)
                scene.desk.endLookup([record])
            }
            held.append(scene.desk.lanes[lane].links)
            #expect(scene.desk.opening(of: type) == 0)
        }
        #expect(held == [188, 47, 12])
        #expect(scene.desk.room > 0)
        #expect(scene.desk.parkedTypes.contains(try self.type()), "the first one has more than its share by now")
    }

    @Test func aLargeChangeLeavesMostOfTheDeskFreeWhileThereAreOtherBrands() throws {
        var scene = try DeskScene {
            $0.targets = 1000
            $0.laneLinks = 50
        }
        for device in 0..<60 { try scene.change(for: [device]) }
        #expect(scene.desk.parkedTypes.isEmpty, "it is alone")
        let other = try OrderTypeIdentifier("order.com.example.other")
        _ = scene.desk.open(other, generation: 1, now: scene.now)
        #expect(scene.desk.parkedTypes == [try self.type()])
        #expect(scene.desk.opening(of: try self.type()) == 0)
        #expect(scene.desk.opening(of: other) == 25)
    }

    @Test func aShareIsFreeAgainWhenItsDevicesWereTold() throws {
        var scene = try DeskScene {
            $0.targets = 10
            $0.window = .zero
        }
        for device in 0..<8 { try scene.change(for: [device]) }
        #expect(!scene.desk.parkedTypes.isEmpty)
        for due in scene.send() { scene.reply(due.number, DeskScene.delivered) }
        #expect(scene.desk.parkedTypes.isEmpty)
        #expect(scene.desk.lanes[scene.lane].links == 0)
    }

    @Test func ofAStoppedCredentialOnlyProbesComeIn() throws {
        var scene = try DeskScene {
            $0.window = .zero
            $0.probes = 3
        }
        try scene.change(for: [0])
        scene.reply(scene.send()[0].number, Self.refused)
        #expect(scene.desk.parkedTypes == [try self.type()])
        #expect(scene.desk.opening(of: try self.type()) == 2)
        for device in 1..<3 { try scene.change(for: [device]) }
        #expect(scene.desk.opening(of: try self.type()) == 0)
    }

    @Test func aRecordThatIsParkedLeavesTheDeskUnfinished() throws {
        var scene = try DeskScene()
        let (first, second) = (scene.take(partition: 0), scene.take(partition: 1))
        #expect(scene.desk.withdraw(first.number) == true)
        #expect(scene.desk.drop([KafkaPartition(topic: "orders", partition: 1)]) == [second.receipt])
        #expect(scene.desk.withdraw(second.number) == false, "it was let go of before")
        scene.desk.endLookup([-1, -1])
        #expect(scene.desk.takeFinished().isEmpty)
        #expect(scene.desk.census == PushCensus())
    }
}
