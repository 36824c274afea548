import ArgumentParser
import Kafka
import Model

/// `waybill-dev topics`: creates the topics with the settings that Waybill needs.
struct TopicsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "topics", abstract: "Creates the topics on a Kafka cluster; existing ones are left unchanged."
    )

    @OptionGroup var kafka: KafkaOptions

    @Option(help: "Prefix of all topics.")
    var topicPrefix = "waybill."

    @Option(help: "Partitions of each topic.")
    var partitions = 64

    @Option(help: "Copies of each partition; -1 for the cluster's default.")
    var replication = -1

    /// Room for a change of 1 MiB and for the headers that a dead letter adds, in bytes.
    private static let messageBytes = "4194304"

    func run() async throws {
        let admin = try KafkaAdmin(self.kafka.configuration())
        let topics = Topics(prefix: self.topicPrefix)
        let compacted = ["cleanup.policy": "compact", "max.message.bytes": Self.messageBytes]
        let kept = ["cleanup.policy": "delete", "max.message.bytes": Self.messageBytes]
        do {
            try await admin.createTopics(
                [
                    (topics.orderChanges, kept), (topics.deadLetters, kept), (topics.orders, compacted),
                    (topics.registrations, compacted), (topics.pushPending, compacted),
                ].map {
                    KafkaTopic(
                        name: $0, partitions: self.partitions, replication: self.replication, configuration: $1)
                })
        } catch {
            guard error.code == .unsupported else { throw error }
            // librdkafka's own broker does not support this request; it creates topics on first use.
            for topic in [
                topics.orderChanges, topics.deadLetters, topics.orders, topics.registrations, topics.pushPending,
            ] {
                let found = try await admin.partitions(topic)
                Console.line("the broker cannot create topics; \(topic) has \(found) partitions")
            }
        }
        await admin.close()
    }
}
