import ArgumentParser
import Cryptography
import Fetch
import Kafka
import Model
import Operations
import Redis

/// Serves the endpoints that Wallet calls, from Redis.
@main
struct Gateway: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "waybill-gateway",
        abstract: "Serves order packages to Wallet and accepts its registrations.",
        version: Self.version.description,
        subcommands: [CheckoutCommand.self])

    static let version = ProgramVersion(
        "waybill-gateway",
        libraries: [
            ("librdkafka", librdkafkaVersion()), ("hiredis", hiredisVersion()), ("OpenSSL", openSSLVersion()),
            ("libcurl", curlVersion()),
        ])

    @Flag(help: "Print the effective configuration, secrets redacted, and exit.")
    var checkConfig = false

    func run() async throws {
        try await ServiceRun.run(
            name: "waybill-gateway", version: Self.version, checkOnly: self.checkConfig,
            conditions: GatewayServer.conditions,
            dependence: .part, needs: GatewayServer.needs,
            read: { settings, common in try GatewaySettings(settings, common: common) },
            build: { settings, environment in try await GatewayServer.build(settings, environment) })
    }
}
