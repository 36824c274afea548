import ArgumentParser
import Operations

/// Notifies devices through APNs that an order of theirs has changed.
@main
struct Pusher: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "waybill-pusher",
        abstract: "Notifies devices through APNs that an order changed.",
        subcommands: [RehearsalCommand.self, TellCommand.self])

    @Flag(help: "Print the effective configuration, secrets redacted, and exit.")
    var checkConfig = false

    func run() async throws {
        try await ServiceRun.run(
            name: "waybill-pusher", checkOnly: self.checkConfig, conditions: [WorkerCondition.joined],
            needs: Self.needs,
            read: { settings, common in try PusherSettings(settings, common: common) },
            build: { settings, environment in try Self.build(settings, environment) })
    }
}
