import ArgumentParser
import Brands
import Checkout
import Operations

/// `waybill-gateway check`: see `CheckOptions`. With `--checkout` that of the checkout role.
struct CheckCommand: AsyncParsableCommand {
    static let configuration = CheckOptions.configuration

    @Flag(help: "Check the configuration of the checkout role.") var checkout = false

    @OptionGroup var options: CheckOptions

    func run() async throws {
        try await self.options.run { variables, isOffline in
            self.checkout
                ? await Checkout.preflight(variables, isOffline: isOffline, version: GatewayServer.version)
                : await GatewayServer.preflight(variables, isOffline: isOffline)
        }
    }
}

extension GatewayServer {
    /// Checks configuration and surroundings of the role for Wallet.
    ///
    /// - Parameter patience: the factor of all time limits.
    static func preflight(
        _ variables: [String: String], isOffline: Bool, patience: Int = 1
    ) async -> PreflightReport {
        await Preflight.run(
            variables, version: Self.version, role: KafkaRole.gateway, isOffline: isOffline, patience: patience,
            read: { settings, common in try GatewaySettings(settings, common: common) },
            checks: { settings, environment in [settings.brands.preflight(environment.common.brands)] })
    }
}
