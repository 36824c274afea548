import Kafka
import Model
import Redis
import Store
import TestKit
import TestTraits
import Testing

@testable import Pusher

/// The service in a group that has no offsets any more.
@Suite(.server) struct LostOffsetsTests {
    @Test(.timeLimit(.minutes(2)))
    func lostOffsetsDoNotNotifyDevicesAgain() async throws {
        try await PusherFixture.run { fixture in
            let directory = try TemporaryDirectory("pusher-offsets")
            for number in 0..<3 { try await fixture.register("d\(number)", for: "o\(number)", token: number) }
            try await fixture.publish(["o0"])
            try await fixture.publish(["o1"])
            let positions = NotifiedPositions(redis: fixture.redis)
            var records: [KafkaRecord] = []
            let reader = try KafkaReader(KafkaConfiguration(bootstrap: fixture.broker.bootstrap))
            for bounds in try await reader.bounds(of: fixture.topics.orders) {
                try await reader.read(
                    fixture.topics.orders, partition: bounds.partition, from: bounds.first, to: bounds.end,
                    records: 100, bytes: 1 << 20
                ) { records += $0 }
            }
            await reader.close()
            // The marks of a pusher that had notified the devices of both orders.
            var marks: [String: NotifiedPositions.Mark] = [:]
            for record in records {
                let name = "\(NotifiedPositions.name(cluster: record.cluster, topic: record.topic))\(record.partition)"
                marks[name] = NotifiedPositions.Mark(
                    offset: record.offset + 1, epochMilliseconds: record.timestampMilliseconds + 3_600_000)
            }
            try await positions.record(marks)
            try await fixture.publish(["o2"])
            try await fixture.serve(directory) {
                try await eventually("committed") { try await fixture.lag() == 0 }
                try await eventually("noted") {
                    try await positions.all().values.reduce(0) { $0 + $1.offset } == 3
                }
            }
            #expect(try await fixture.notified() == [PusherFixture.token(2)])
            #expect(fixture.metrics.counter("waybill_push_records_duplicate_total") == 2)
        }
    }
}
