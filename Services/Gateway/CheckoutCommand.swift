import ArgumentParser
import Checkout

/// `waybill-gateway checkout`: serves shops and their pages around the payment, in a separate process.
struct CheckoutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "checkout",
        abstract: "Serves shops and their pages around the payment: order details, merchant sessions, changes by HTTP.")

    @OptionGroup var options: StartOptions

    func run() async throws {
        try await Checkout.run(version: GatewayServer.version, checkOnly: self.options.checkConfig)
    }
}
