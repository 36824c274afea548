import APNS
import ArgumentParser
import Cryptography
import Kafka
import Model
import Operations
import Redis

/// Notifies devices through APNs that one of their orders has changed.
@main
struct Pusher: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "waybill-pusher",
        abstract: "Notifies devices through APNs that an order changed.",
        version: Self.version.description,
        subcommands: [LoadTestCommand.self, TellCommand.self, HealthCommand.self])

    static let version = ProgramVersion(
        "waybill-pusher",
        libraries: [
            ("librdkafka", librdkafkaVersion()), ("hiredis", hiredisVersion()), ("OpenSSL", openSSLVersion()),
            ("nghttp2", APNSClient.nghttp2Version),
        ])

    @Flag(help: "Print the effective configuration, secrets redacted, and exit.")
    var checkConfig = false

    func run() async throws {
        try await ServiceMain.run(
            name: "waybill-pusher", version: Self.version, checkOnly: self.checkConfig,
            conditions: [WorkerCondition.joined],
            needs: Self.needs,
            read: { settings, common in try PusherSettings(settings, common: common) },
            build: { settings, environment in try Self.build(settings, environment) })
    }
}
