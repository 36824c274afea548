import ArgumentParser
import Kafka
import Operations

/// `waybill-packager topics`: creates the topics of an installation with the settings that Waybill needs.
struct TopicsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "topics",
        abstract: "Creates the missing topics of this installation, and checks the settings of the others.",
        discussion: """
            The configuration is that of the services: brokers, their properties, the prefix of topics, the topics of \
            changes. A topic that exists is never altered. The command can be run again at any time. Exit codes: 0: \
            all topics are there; 2: all are there, but some have settings that Waybill cannot work with (they are \
            printed with the command that corrects them); 1 or 64: it could not be done.
            """)

    @Option(help: "Partitions of each topic that is created, 1 to 10000.")
    var partitions = 64

    @Option(
        help: """
            Copies of each partition of a topic that is created; -1 for the cluster's default. From 3 on, a write \
            waits for two of them (min.insync.replicas=2).
            """)
    var replication = -1

    func validate() throws {
        guard (1...10_000).contains(self.partitions) else {
            throw ValidationError("--partitions \(self.partitions): must be from 1 to 10000")
        }
        guard self.replication == -1 || (1...100).contains(self.replication) else {
            throw ValidationError("--replication \(self.replication): must be -1, or from 1 to 100")
        }
    }

    func run() async throws {
        let (_, environment) = try ServiceEnvironment.ofCommand("waybill-packager")
        let setup = TopicSetup(
            environment.common.topics, partitions: self.partitions, replication: self.replication)
        let admin = try KafkaAdmin(environment.kafka)
        let report = try await withCleanup(admin.close) { try await setup.run(admin) }
        StandardStream.output.write(report.text)
        if !report.isWell { throw ExitCode(2) }
    }
}
