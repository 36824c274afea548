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
    func whoWasToldIsNotToldAgain() async throws {
        try await PusherFixture.run { scene in
            let directory = try TemporaryDirectory("pusher-offsets")
            for number in 0..<3 { try await scene.register("d\(number)", for: "o\(number)", token: number) }
            try await scene.publish(["o0"])
            try await scene.publish(["o1"])
            let positions = NotifiedPositions(redis: scene.redis)
            var records: [KafkaRecord] = []
            let reader = try KafkaReader(KafkaConfiguration(bootstrap: scene.broker.bootstrap))
            for bounds in try await reader.bounds(of: scene.topics.orders) {
                try await reader.read(
                    scene.topics.orders, partition: bounds.partition, from: bounds.first, to: bounds.end,
                    records: 100, bytes: 1 << 20
                ) { records += $0 }
            }
            await reader.close()
            // As a pusher noted it that had told both.
            var marks: [String: NotifiedPositions.Mark] = [:]
            for record in records {
                let name = "\(NotifiedPositions.name(cluster: record.cluster, topic: record.topic))\(record.partition)"
                marks[name] = NotifiedPositions.Mark(
                    offset: record.offset + 1, epochMilliseconds: record.timestampMilliseconds + 3_600_000)
            }
            try await positions.record(marks)
            try await scene.publish(["o2"])
            try await scene.serve(directory) {
                try await eventually("committed") { try await scene.lag() == 0 }
                try await eventually("noted") {
                    try await positions.all().values.reduce(0) { $0 + $1.offset } == 3
                }
            }
            #expect(try await scene.told() == [PusherFixture.token(2)])
            #expect(scene.metrics.counter("waybill_push_records_again_total") == 2)
        }
    }
}
