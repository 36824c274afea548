import ArgumentParser
import Brands
import Glibc
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
    let edge: TransportSettings
    /// True if messages of devices are logged.
    let logsDevices: Bool
    /// True if the routes of the compatible dialect are served.
    let isCompatible: Bool

    private enum Choice: String, CaseIterable { case on, off }

    /// - Throws: `SettingsError` naming key and value.
    init(_ settings: Settings, common: CommonSettings) throws(SettingsError) {
        self.listen = try settings.address(.listen, default: "127.0.0.1:8080")
        let url = try settings.webServiceURL()
        self.brands = try settings.brands(in: common.brands, webServiceURL: url)
        self.tokens = try settings.tokens(self.brands)
        self.basePath = Self.path(of: url)
        self.deviceLimit = try settings.integer(
            .devicesPerOrder, default: Registrations.deviceLimit, in: Registrations.deviceLimits)
        self.edge = try TransportSettings(settings)
        self.logsDevices = try settings.choice(.deviceLogs, default: Choice.off) == .on
        self.isCompatible = try settings.choice(.compatibility, default: Choice.off) == .on
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

/// The settings of `TransportPolicy`.
struct TransportSettings: Sendable {
    /// The files, and the certificate read from them.
    let tls: (files: TLSFiles, certificate: ServerCertificate)?
    let limits: ConnectionLimits
    let proxies: TrustedProxies
    /// The longest time for which a server that stops takes connections.
    let drain: Duration

    /// - Throws: `SettingsError` naming key and value.
    init(_ settings: Settings) throws(SettingsError) {
        self.tls = try Self.tls(settings)
        self.limits = ConnectionLimits(
            total: try settings.integer(
                .connectionLimit, default: ConnectionLimits.defaultTotal, in: 1...1_000_000),
            perAddress: try settings.integer(
                .connectionLimitPerAddress, default: ConnectionLimits.defaultPerAddress, in: 1...1_000_000))
        let proxies = settings.text(.trustedProxies)
        guard let trusted = proxies.map({ TrustedProxies($0) }) ?? TrustedProxies.none else {
            throw SettingsError(
                .trustedProxies, value: proxies, "must be addresses or networks, for example 10.0.0.0/8,fd00::/8")
        }
        self.proxies = trusted
        self.drain = .seconds(try settings.integer(.drainSeconds, default: 10, in: 0...300))
    }

    /// Warns if secrets travel in the clear to an address: neither the gateway nor a named proxy speaks TLS.
    ///
    /// - Parameters:
    ///   - key: names the address.
    ///   - secrets: the secrets, as the subject of a sentence.
    func warnIfClear(_ listen: ListenAddress, _ key: SettingKey, secrets: String, _ settings: Settings) {
        guard self.tls == nil, self.proxies == .none, !listen.isLoopback else { return }
        settings.warn(
            "\(key.rawValue)=\(listen): \(secrets) are sent unencrypted; set \(SettingKey.tlsCertificate.rawValue), or "
                + "name the proxy that speaks TLS in \(SettingKey.trustedProxies.rawValue)")
    }

    private static func tls(
        _ settings: Settings
    ) throws(SettingsError) -> (files: TLSFiles, certificate: ServerCertificate)? {
        let (certificate, key) = (settings.text(.tlsCertificate), settings.text(.tlsKey))
        guard let certificate, let key else {
            if let certificate {
                let key = SettingKey.tlsKey.rawValue
                throw SettingsError(.tlsCertificate, value: certificate, "must be set together with \(key)")
            }
            if let key {
                let certificate = SettingKey.tlsCertificate.rawValue
                throw SettingsError(.tlsKey, value: key, "must be set together with \(certificate)")
            }
            return nil
        }
        let files = TLSFiles(certificate: certificate, key: key)
        settings.checkSecrecy(of: key)
        do {
            return (files, try files.load(nowEpochSeconds: Int64(time(nil))))
        } catch {
            let isKey = error.part == .key
            throw SettingsError(isKey ? .tlsKey : .tlsCertificate, value: error.path, error.problem)
        }
    }
}
