import Logging
import Operations
import Packaging

/// What the checkout role reads besides `CommonSettings`.
///
/// ## Configuration keys
/// - `WAYBILL_CHECKOUT_LISTEN` (host:port, default `127.0.0.1:8085`): where shops and their pages call.
/// - `WAYBILL_MERCHANTS` (path, default none): directory with one merchant a sub-directory.
/// - `WAYBILL_TOKEN_SECRETS` (path, required): the secrets that tokens, links and grants are made with.
/// - `WAYBILL_WEB_SERVICE_URL` (https URL, required): stands in order details and in links.
/// - `WAYBILL_DEVELOPMENT_PLAYGROUND` (`on` or `off`, default `off`): pages of this machine may use http.
/// - The keys of `EdgeSettings`.
struct CheckoutSettings {
    let listen: ListenAddress
    let secrets: TokenSecrets
    /// Without a slash at its end.
    let webServiceURL: String
    let brands: BrandLibrary
    let merchants: String?
    let edge: EdgeSettings
    /// True while fakes may stand in for Apple and shops, and pages of this machine may use http.
    let isDevelopment: Bool
    /// True if the configuration is only checked, so that nothing is overlooked.
    let isCheck: Bool

    private enum Choice: String, CaseIterable { case on, off }

    /// - Throws: `SettingsError` naming key and value.
    init(_ settings: Settings, common: CommonSettings) throws(SettingsError) {
        self.listen = try settings.address(.checkoutListen, default: "127.0.0.1:8085")
        self.secrets = try settings.tokenSecrets()
        let url = try settings.webServiceURL()
        self.webServiceURL = url.hasSuffix("/") ? String(url.dropLast()) : url
        self.brands = try settings.brands(in: common.brands, webServiceURL: url)
        self.edge = try EdgeSettings(settings)
        self.isDevelopment = try settings.choice(.developmentPlayground, default: Choice.off) == .on
        self.isCheck = settings.isCheck
        self.merchants = settings.text(.merchants)
        if let directory = self.merchants {
            // Read once to tell what is wrong before anything listens.
            do {
                _ = try MerchantLibrary(
                    directory: directory, loading: self.loading, isStrict: settings.isCheck,
                    logger: Logger(label: "merchants") { _ in SwiftLogNoOpLogHandler() })
            } catch {
                throw SettingsError(.merchants, value: directory, "\(error)")
            }
        } else {
            settings.warn(
                "\(SettingKey.merchants.rawValue) is not set: no key is known, and no page may call")
        }
        if self.edge.tls == nil, self.edge.proxies == .none, !self.listen.isLoopback {
            settings.warn(
                "\(SettingKey.checkoutListen.rawValue)=\(self.listen): keys and tokens travel in clear; set "
                    + "\(SettingKey.tlsCertificate.rawValue), or name the proxy that speaks TLS in "
                    + SettingKey.trustedProxies.rawValue)
        }
    }

    /// The rules for loading merchants.
    var loading: Merchant.Loading {
        Merchant.Loading(serves: { [brands] in brands.serves($0) }, isDevelopment: self.isDevelopment)
    }
}
