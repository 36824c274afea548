import Foundation
public import Kafka

extension KafkaBroker {
    /// Reads the first records of a topic, at least so many, as soon as they are there.
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
