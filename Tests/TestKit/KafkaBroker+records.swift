import Foundation
public import Kafka

extension KafkaBroker {
    /// Reads a topic from its beginning until there are at least `count` records, and returns all that were read.
    public func records(_ count: Int, of topic: String) async throws -> [KafkaRecord] {
        let consumer = try KafkaConsumer(
            KafkaConfiguration(bootstrap: self.bootstrap, properties: Self.quick), group: UUID().uuidString,
            topics: [topic])
        var records: [KafkaRecord] = []
        try await eventually("\(count) records of \(topic)") {
            records += try await consumer.nextBatch(records: 1000, bytes: 1 << 24, wait: .milliseconds(200))
            return records.count >= count
        }
        await consumer.close()
        return records
    }
}
