import ArgumentParser
import Brands
import HTTPServer
import Operations
import Store
import Tokens

/// The settings that the gateway reads besides `CommonSettings`.
struct GatewaySettings {
    let listen: ListenAddress
    let brands: BrandLibrary
    let tokens: TokenAuthority
    /// The path of the web service URL without a slash at its end; empty if it has none.
    let basePath: String
    /// Most devices of one order.
    let deviceLimit: Int
    /// The longest time that a link in a mail may be valid for; 0: there are none.
    let mailLinkSeconds: Int64
    let edge: TransportSettings
    /// True if messages of devices are logged.
    let logsDevices: Bool
    /// True if the routes of the compatible dialect are served.
    let isCompatible: Bool

    /// - Throws: `SettingsError` naming key and value.
    init(_ settings: Settings, common: CommonSettings) throws(SettingsError) {
        self.listen = try settings.address(.listen, default: "127.0.0.1:8080")
        let url = try settings.webServiceURL()
        self.brands = try settings.brands(in: common.brands, webServiceURL: url)
        self.tokens = try settings.tokens(self.brands)
        self.basePath = Self.path(of: url)
        self.deviceLimit = try settings.integer(
            .devicesPerOrder, default: Registrations.deviceLimit, in: Registrations.deviceLimits)
        self.mailLinkSeconds = try settings.mailLinkSeconds()
        self.edge = try TransportSettings(settings)
        self.logsDevices = try settings.isOn(.deviceLogs)
        self.isCompatible = try settings.isOn(.compatibility)
        self.edge.warnIfClear(self.listen, .listen, secrets: "tokens", settings)
    }

    /// Returns the path of a URL that starts with `https://`.
    static func path(of url: String) -> String {
        let rest = url.dropFirst("https://".count)
        guard let slash = rest.firstIndex(of: "/") else { return "" }
        var path = rest[slash...].prefix { $0 != "?" && $0 != "#" }
        while path.hasSuffix("/") { path.removeLast() }
        return String(path)
    }
}

/// The options of both roles.
///
/// The command line parser gives an option to the first command that knows it, and its value to every later command
/// with the same group of options. A flag that both commands declare would not reach the second one.
struct StartOptions: ParsableArguments {
    @Flag(help: "Print the effective configuration, secrets redacted, and exit.")
    var checkConfig = false
}
