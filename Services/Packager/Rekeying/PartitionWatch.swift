import CoreMetrics
import Kafka
import Logging
import Operations
import ServiceLifecycle
import Store

/// Watches for partitions added to the compacted topics as long as the packager runs, and logs what to do about them.
struct PartitionWatch: Service {
    static let interval = Duration.seconds(30)

    let topics: [String]
    let counts: PartitionCounts
    let environment: ServiceEnvironment
    var interval = Self.interval

    func run() async throws {
        let admin = try KafkaAdmin(self.environment.kafka)
        try? await cancelWhenGracefulShutdown { try await self.watch(admin) }
        await admin.close()
    }

    private func watch(_ admin: KafkaAdmin) async throws {
        var gauges: [String: Gauge] = [:]
        for topic in self.topics {
            gauges[topic] = Gauge(
                label: "waybill_topic_partitions_added", dimensions: [("topic", topic)],
                factory: self.environment.metrics)
        }
        var logged: [String: Int] = [:]
        while true {
            do {
                for (topic, added) in try await self.look(admin) {
                    gauges[topic]?.record(added)
                    if added != 0, logged[topic] != added { self.tell(topic, added) }
                    logged[topic] = added
                }
            } catch {
                try Task.checkCancellation()
                // Both clients report their own outages.
                self.environment.logger.debug("cannot count partitions", metadata: ["error": "\(error)"])
            }
            try await Task.sleep(for: self.interval)
        }
    }

    /// Returns how many partitions each topic has gained since all of its keys were in the right ones.
    private func look(_ admin: KafkaAdmin) async throws -> [(topic: String, added: Int)] {
        let known = try await self.counts.all()
        var added: [(topic: String, added: Int)] = []
        for topic in self.topics {
            let count = try await admin.partitions(topic)
            if let before = known[topic] {
                added.append((topic, count - before))
            } else {
                try await self.counts.record(count, of: topic)
                added.append((topic, 0))
            }
        }
        return added
    }

    private func tell(_ topic: String, _ added: Int) {
        let text =
            added > 0
            ? "\(added) partitions were added, and keys moved: run waybill-packager rekey within delete.retention.ms "
                + "of the topic, else orders that are removed from now on may come back when Redis is restored"
            : "it has fewer partitions than before, so it was recreated: run waybill-packager rekey"
        self.environment.logger.error(
            "Kafka topic needs attention", metadata: ["topic": "\(topic)", "text": "\(text)"])
    }
}
