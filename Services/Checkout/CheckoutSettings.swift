import Brands
import Fetch
import HTTPServer
import Logging
import Model
import Operations
import Tokens

/// The settings of the checkout role besides `CommonSettings`.
struct CheckoutSettings {
    let listen: ListenAddress
    let tokens: TokenAuthority
    /// Without a slash at its end.
    let webServiceURL: String
    let brands: BrandLibrary
    let topics: Topics
    let merchants: String?
    let edge: TransportSettings
    /// The configuration of calls to Apple.
    let applePay: FetcherConfiguration
    /// Merchant sessions a minute for one client.
    let sessionsPerClient: Int
    /// The longest time that a link in a mail may be valid for; 0: there are none.
    let mailLinkSeconds: Int64
    let hasPolyfill: Bool
    /// True while fakes may stand in for Apple and shops, and pages of this machine may use http.
    let isDevelopment: Bool
    /// True if the configuration is only checked, so that nothing is overlooked.
    let isCheck: Bool

    /// - Throws: `SettingsError` naming key and value.
    init(_ settings: Settings, common: CommonSettings) throws(SettingsError) {
        self.listen = try settings.address(.checkoutListen, default: "127.0.0.1:8085")
        let url = try settings.webServiceURL()
        self.webServiceURL = url.hasSuffix("/") ? String(url.dropLast()) : url
        self.topics = common.topics
        self.brands = try settings.brands(in: common.brands, webServiceURL: url)
        self.tokens = try settings.tokens(self.brands)
        self.edge = try TransportSettings(settings)
        self.sessionsPerClient = try settings.integer(.merchantSessionsPerClient, default: 10, in: 1...10_000)
        self.mailLinkSeconds = try settings.mailLinkSeconds()
        if self.listen.isLoopback, self.edge.proxies == .none {
            settings.warn(
                "\(SettingKey.trustedProxies.rawValue) is not set: behind a proxy all customers count as one client, "
                    + "with \(self.sessionsPerClient) merchant sessions a minute together")
        }
        let hasPlayground = try settings.isOn(.developmentPlayground)
        self.hasPolyfill = try settings.isOn(.developmentPolyfill)
        self.isDevelopment = hasPlayground || self.hasPolyfill
        self.applePay = try Self.applePay(settings)
        self.isCheck = settings.isCheck
        self.merchants = settings.text(.merchants)
        if let directory = self.merchants {
            // Read once, so that errors are reported before anything listens. The check before a start reads them
            // itself.
            if !settings.isPreflight { try self.checkMerchants(directory) }
        } else {
            settings.warn(
                "\(SettingKey.merchants.rawValue) is not set: no key, no page and no webhook is accepted")
        }
        self.edge.warnIfClear(self.listen, .checkoutListen, secrets: "keys and tokens", settings)
    }

    private func checkMerchants(_ directory: String) throws(SettingsError) {
        do {
            _ = try MerchantLibrary(
                directory: directory, loading: self.loading, isStrict: self.isCheck,
                logger: Logger(label: "merchants") { _ in SwiftLogNoOpLogHandler() })
        } catch {
            throw SettingsError(.merchants, value: directory, "\(error)")
        }
    }

    static func applePay(_ settings: Settings) throws(SettingsError) -> FetcherConfiguration {
        var configuration = FetcherConfiguration()
        configuration.concurrency = 256
        configuration.queueLimit = 1024
        if let roots = settings.text(.developmentApplePayRoots) {
            configuration.rootsPEM = try settings.content(.developmentApplePayRoots, of: roots)
        }
        guard let text = settings.text(.developmentApplePay) else { return configuration }
        var addresses: Set<Fetch.IPAddress> = []
        for detour in text.split(separator: ",") {
            let parts = detour.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
            guard parts.count == 4, let address = Fetch.IPAddress(parts[2]),
                UInt16(parts[1]) != nil, UInt16(parts[3]) != nil
            else {
                throw SettingsError(
                    .developmentApplePay, value: String(detour),
                    "must be host:port:address:port, several separated by commas: hosts of Apple and IPv4 addresses")
            }
            guard AppleHost.all[parts[0]] != nil else {
                throw SettingsError(
                    .developmentApplePay, value: String(detour),
                    "names no host of Apple for merchant sessions, such as apple-pay-gateway.apple.com")
            }
            addresses.insert(address)
            configuration.detours.append(String(detour))
        }
        configuration.addresses = AddressPolicy(exceptions: addresses)
        settings.warn("\(SettingKey.developmentApplePay.rawValue) is set: merchant sessions are those of a fake")
        return configuration
    }

    /// The rules for loading merchants.
    var loading: Merchant.Loading {
        Merchant.Loading(
            serves: { [brands] in brands.serves($0) }, topics: self.topics, isDevelopment: self.isDevelopment)
    }
}
