public import ArgumentParser
import FoundationEssentials
import Kafka
import Model
public import Operations
import Sandbox

/// `waybill-packager topics`: the topics of an installation.
struct TopicsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "topics",
        abstract:
            "Creates and checks the topics of this installation, and prints the rights that programs need on them.",
        subcommands: [CreateTopicsCommand.self, CheckTopicsCommand.self, AccessListsCommand.self],
        defaultSubcommand: CreateTopicsCommand.self)
}

/// `topics check`: judges the topics that exist, and creates none.
struct CheckTopicsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Checks that the topics exist, and their settings; changes nothing.",
        discussion: """
            Judged are the settings that the services need, and those that make the deadlines of \
            compose/operate/privacy.md. \
            Exit codes: 0: all is well, or there are only warnings; 2: there are faults, printed with their \
            corrections; 1, 64 or 78: not checked.
            """)

    func run() async throws {
        let (_, environment) = try ServiceEnvironment.ofCommand("waybill-packager")
        let admin = try KafkaAdmin(environment.kafka)
        let setup = TopicSetup(environment.common.topics, partitions: 1, replication: -1)
        let report = try await withCleanup(admin.close) { try await setup.run(admin, creates: false) }
        StandardStream.output.write(report.text)
        if !report.isWell || !report.hasDeadlines { throw ExitCode(2) }
    }
}

/// `topics acls`: prints the rights that each program needs.
struct AccessListsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "acls",
        abstract:
            "Prints the rights that each program needs, with the topics and groups of this configuration.",
        discussion:
            """
            Each program is a user of its name. With WAYBILL_SOURCES the role ingest is one of them; with \
            WAYBILL_MERCHANTS the checkout role may write to the topics of webhooks. A pattern of topics becomes a \
            right on the prefix that it begins with. Nothing is asked of Kafka, and nothing is changed there.
            """
    )

    @Option(
        help:
            "commands of kafka-acls.sh, KafkaUser resources of strimzi, or resources of terraform (Mongey/kafka)."
    )
    var format = AccessListFormat.commands

    @Option(help: "For strimzi: the name of the resource Kafka that the users belong to.")
    var cluster = "kafka"

    @Option(help: "For strimzi: how the users prove themselves, scram-sha-512 or tls.")
    var authentication = StrimziAuthentication.scram

    func validate() throws {
        // Source: Kubernetes, "Object Names and IDs", RFC 1123 label names
        guard self.cluster.wholeMatch(of: /[a-z0-9]([a-z0-9\-]{0,61}[a-z0-9])?/) != nil else {
            throw ValidationError(
                "--cluster \(self.cluster): must be a name of Kubernetes: at most 63 lower-case letters, digits and '-'"
            )
        }
    }

    func run() throws {
        let (settings, environment) = try ServiceEnvironment.ofCommand("waybill-packager")
        let topics = environment.common.topics
        let sources = try settings.text(.sources).map {
            try SourceLibrary(
                directory: $0, topics: topics, isStrict: true, in: Sandbox.mapperOfCommand()
            ).table.topics
        }
        let webhooks = try settings.text(.merchants).map { try Self.webhookTopics($0) }
        let roles = KafkaRole.all(topics, sources: sources ?? [], webhooks: webhooks ?? [])
        let user = AccessListFormat.StrimziUser(cluster: self.cluster, authentication: self.authentication)
        StandardStream.output.write(self.format.text(roles, strimzi: user))
    }

    /// Returns the topics that the webhooks of all merchants write to.
    ///
    /// - Parameter directory: that of merchants. Source: merchant.schema.json, `webhooks`
    static func webhookTopics(_ directory: String) throws(SettingsError) -> [String] {
        do {
            return try FileManager.default.contentsOfDirectory(atPath: directory).sorted().flatMap { name in
                let path = "\(directory)/\(name)"
                guard FileManager.default.fileExists(atPath: "\(path)/merchant.json") else { return [String]() }
                let file = try FileContent.read("merchant.json", inside: path, limit: 1 << 20)
                let webhooks = try JSON(parsing: file).object?["webhooks"]?.object?.members ?? []
                return webhooks.compactMap { $0.value.object?["topic"]?.string }
            }
        } catch { throw SettingsError(.merchants, value: directory, "\(error)") }
    }
}

extension AccessListFormat: ExpressibleByArgument {}
extension StrimziAuthentication: ExpressibleByArgument {}

/// `topics create`: creates the topics with the settings that Waybill needs.
struct CreateTopicsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create",
        abstract:
            "Creates the missing topics of this installation, and checks the settings of the others.",
        discussion: """
            The configuration is that of the services: brokers, their properties, the prefix of topics, the topics of \
            changes. A topic that exists is never altered. The command can be run again at any time. Exit codes: 0: \
            all topics are there; 2: all are there, but some have settings that Waybill cannot work with (they are \
            printed with the command that corrects them); 1, 64 or 78: it could not be done.
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
