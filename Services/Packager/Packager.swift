import ArgumentParser
import Operations

/// Folds order changes from Kafka into orders, packages and signs them, and puts them into Redis.
@main
struct Packager: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "waybill-packager",
        abstract: "Turns order changes on Kafka into signed packages in Redis.")

    @Flag(help: "Print the effective configuration, secrets redacted, and exit.")
    var checkConfig = false

    func run() async throws {
        try await ServiceRun.run(
            name: "waybill-packager", checkOnly: self.checkConfig, conditions: [BatchWorker.joined],
            read: { settings, common in try PackagerSettings(settings, common: common) },
            build: { settings, environment in try Self.build(settings, environment) })
    }
}
