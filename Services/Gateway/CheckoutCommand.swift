import ArgumentParser
import Operations

/// `waybill-gateway checkout`: serves shops and their pages around the payment, in a separate process.
struct CheckoutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "checkout",
        abstract: "Serves shops and their pages around the payment: order details, merchant sessions, changes by HTTP.")

    @OptionGroup var options: StartOptions

    func run() async throws {
        try await ServiceMain.run(
            name: "waybill-gateway-checkout", version: GatewayServer.version, metrics: MetricRow.checkout,
            checkOnly: self.options.checkConfig,
            conditions: GatewayServer.conditions,
            dependence: .part, needs: Checkout.needs, drain: { $0.edge.drain },
            read: { settings, common in try CheckoutSettings(settings, common: common) },
            build: { settings, environment in try Checkout.build(settings, environment) })
    }
}
