import ArgumentParser
import Checkout
import HTTPServer
import Model
import Operations

/// Serves the endpoints that Wallet calls, from Redis.
@main
struct Gateway: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "waybill-gateway",
        abstract: "Serves order packages to Wallet and accepts its registrations.",
        discussion: ServiceMain.help,
        version: GatewayServer.version.description,
        subcommands: [CheckoutCommand.self, CheckCommand.self, HealthCommand.self])

    @OptionGroup var options: StartOptions

    func run() async throws {
        try await ServiceMain.run(
            name: "waybill-gateway", version: GatewayServer.version, metrics: MetricRow.gateway,
            checkOnly: self.options.checkConfig,
            conditions: HTTPListener.conditions,
            dependence: .part, needs: GatewayServer.needs, drain: { $0.edge.drain },
            read: { settings, common in try GatewaySettings(settings, common: common) },
            build: { settings, environment in try await GatewayServer.build(settings, environment) })
    }
}

/// `waybill-gateway checkout`: serves shops and their pages around the payment, in a separate process.
struct CheckoutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "checkout",
        abstract: "Serves shops and their pages around the payment: order details, merchant sessions, changes by HTTP.",
        discussion: ServiceMain.help)

    @OptionGroup var options: StartOptions

    func run() async throws {
        try await Checkout.run(version: GatewayServer.version, checkOnly: self.options.checkConfig)
    }
}
