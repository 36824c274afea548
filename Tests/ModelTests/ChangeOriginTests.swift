import Testing

@testable import Model

/// Positions in several topics and clusters.
@Suite struct ChangeOriginTests {
    private let east = ChangeOrigin(cluster: "east", topic: "waybill.order-changes")
    private let west = ChangeOrigin(cluster: "west", topic: "waybill.order-changes")
    private let mirrored = ChangeOrigin(cluster: "west", topic: "east.waybill.order-changes")

    private func at(_ offset: Int64, _ origin: ChangeOrigin = .unknown, timestamp: Int64 = 1000) -> ChangePosition {
        ChangePosition(partition: 3, offset: offset, timestampMilliseconds: timestamp, origin: origin)
    }

    @Test func anOffsetOfOneClusterOrTopicSaysNothingAboutAnother() {
        var positions = AppliedPositions()
        positions.advance(to: self.at(5000, self.east))
        for other in [self.west, self.mirrored] {
            #expect(!positions.isRedelivery(self.at(0, other, timestamp: 1)))
            positions.advance(to: self.at(0, other, timestamp: 1))
            #expect(positions.isRedelivery(self.at(0, other, timestamp: 1)))
            #expect(!positions.isRedelivery(self.at(1, other, timestamp: 1)))
        }
        #expect(positions.isRedelivery(self.at(5000, self.east)), "and comes back to the first")
        #expect(!positions.isRedelivery(self.at(5001, self.east, timestamp: 1)))
    }

    @Test func aPositionWithoutATopicIsAssignedToTheFirstTopic() throws {
        let earlier = #"{"partitions":[[3,5000,1000]],"sequences":[]}"#
        var positions = try AppliedPositions(decoding: Array(earlier.utf8))
        #expect(positions.isRedelivery(self.at(4999, self.east)))
        #expect(!positions.isRedelivery(self.at(5001, self.east)))
        positions.advance(to: self.at(5001, self.east))
        #expect(positions.isRedelivery(self.at(4999, self.east)))
        #expect(!positions.isRedelivery(self.at(1, self.west)))
        #expect(positions.json.object?["partitions"]?.array?.count == 1)
    }

    @Test func encodedPositionsAreReadBackAlsoByEarlierBuilds() throws {
        var positions = AppliedPositions()
        for (offset, origin) in [(7, self.east), (9, self.west), (2, .unknown)] {
            positions.advance(to: self.at(Int64(offset), origin))
        }
        #expect(try AppliedPositions(decoding: positions.encoded) == positions)
        for entry in positions.json.object?["partitions"]?.array ?? [] {
            // An earlier build reads the first three elements and ignores the rest.
            #expect(entry.array.map { (3...4).contains($0.count) && $0[0].integer == 3 } == true)
        }
    }
}
