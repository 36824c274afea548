import Operations
import Packaging

/// What the packager reads besides `CommonSettings`.
///
/// ## Configuration keys
/// - `WAYBILL_TOKEN_SECRETS` (path, required): the secrets that authentication tokens are derived from.
/// - `WAYBILL_WEB_SERVICE_URL` (https URL, required): stands in each order.
struct PackagerSettings {
    let secrets: TokenSecrets
    let brands: BrandLibrary

    /// - Throws: `SettingsError` naming key and value.
    init(_ settings: Settings, common: CommonSettings) throws(SettingsError) {
        self.secrets = try settings.tokenSecrets()
        self.brands = try settings.brands(in: common.brands, webServiceURL: try settings.webServiceURL())
    }
}
