import ArgumentParser
import Cryptography
import Fetch
import Kafka
import Model
import Operations
import Redis

/// Folds order changes from Kafka into orders, packages and signs them, and puts them into Redis.
@main
struct Packager: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "waybill-packager",
        abstract: "Turns order changes on Kafka into signed packages in Redis.",
        version: Self.version.description,
        subcommands: [
            RunCommand.self, ResignCommand.self, RetokenCommand.self, RekeyCommand.self, RestoreCommand.self,
            DeadLettersCommand.self, TopicsCommand.self, HealthCommand.self,
        ],
        defaultSubcommand: RunCommand.self)

    static let version = ProgramVersion(
        "waybill-packager",
        libraries: [
            ("librdkafka", librdkafkaVersion()), ("hiredis", hiredisVersion()), ("OpenSSL", openSSLVersion()),
            ("libcurl", curlVersion()),
        ])
}

/// The service itself, which runs if no command is named.
struct RunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Runs the service (the default command).")

    @Flag(help: "Print the effective configuration, secrets redacted, and exit.")
    var checkConfig = false

    func run() async throws {
        try await ServiceMain.run(
            name: "waybill-packager", version: Packager.version, checkOnly: self.checkConfig,
            conditions: [WorkerCondition.joined, ViewRecovery.condition], refusesEviction: true, needs: Packager.needs,
            read: { settings, common in try PackagerSettings(settings, common: common) },
            build: { settings, environment in try Packager.build(settings, environment) })
    }
}
