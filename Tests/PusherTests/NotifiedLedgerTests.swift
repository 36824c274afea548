import Kafka
import Store
import Testing

@testable import Pusher

/// The records that a group gets again after it lost its offsets.
@Suite struct NotifiedLedgerTests {
    private static let topic = "waybill.orders"

    private func record(
        _ offset: Int64, at moment: Int64 = 100, cluster: String = "east", topic: String = Self.topic,
        partition: Int32 = 3
    ) -> KafkaRecord {
        KafkaRecord(
            cluster: cluster, topic: topic, partition: partition, offset: offset, timestampMilliseconds: moment,
            key: [], value: [])
    }

    private func ledger() -> NotifiedLedger {
        let ledger = NotifiedLedger(topic: Self.topic)
        ledger.learn(["east/waybill.orders/3": NotifiedPositions.Mark(offset: 50, epochMilliseconds: 61_000)])
        return ledger
    }

    @Test func onlyRecordsCoveredByAMarkCountAsNotified() {
        let ledger = self.ledger()
        #expect(ledger.sift([self.record(0), self.record(49)]).again.count == 2)
        let open = [
            self.record(50), self.record(49, at: 1000), self.record(49, at: -1), self.record(0, cluster: "west"),
            self.record(0, topic: "waybill.registrations"), self.record(0, partition: 4),
        ]
        for record in open { #expect(self.ledger().sift([record]).open == [record]) }
        #expect(ledger.sift([self.record(49), self.record(50), self.record(0)]).open == [self.record(50)])
    }

    @Test func marksAreNeitherUsedNorWrittenWithoutAClusterIdentifier() {
        let ledger = NotifiedLedger(topic: Self.topic)
        ledger.learn(["/waybill.orders/3": NotifiedPositions.Mark(offset: 50, epochMilliseconds: 61_000)])
        #expect(ledger.sift([self.record(0, cluster: "")]).again.isEmpty)
        ledger.committed([KafkaPosition(topic: Self.topic, partition: 3, offset: 60)])
        #expect(ledger.takeCommitted(nowMilliseconds: 62_000).isEmpty)
    }

    @Test func marksFollowCommitsAndNeverGoBack() {
        let ledger = self.ledger()
        func commit(_ offset: Int64, _ partition: Int32 = 3, topic: String = Self.topic) {
            ledger.committed([KafkaPosition(topic: topic, partition: partition, offset: offset)])
        }
        commit(60)
        #expect(ledger.takeCommitted(nowMilliseconds: 62_000).isEmpty, "no cluster is known before a record came")
        _ = ledger.sift([self.record(0)])
        commit(1)
        #expect(ledger.takeCommitted(nowMilliseconds: 62_000).isEmpty, "the group began anew")
        commit(51)
        commit(70)
        commit(9, 4)
        commit(80, topic: "waybill.registrations")
        #expect(
            ledger.takeCommitted(nowMilliseconds: 62_000) == [
                "east/waybill.orders/3": NotifiedPositions.Mark(offset: 70, epochMilliseconds: 62_000),
                "east/waybill.orders/4": NotifiedPositions.Mark(offset: 9, epochMilliseconds: 62_000),
            ])
        #expect(ledger.takeCommitted(nowMilliseconds: 63_000).isEmpty, "each once")
        #expect(ledger.sift([self.record(69, at: 1500)]).again.count == 1)
    }
}
