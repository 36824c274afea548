import APNS
import Operations
import Packaging

/// What the pusher reads besides `CommonSettings`.
///
/// ## Configuration keys
/// - `WAYBILL_APNS_URL` (https URL, default `https://api.push.apple.com:443`): where notifications are sent.
/// - `WAYBILL_APNS_ROOTS` (path, default the system's roots): PEM file, for a simulator.
struct PusherSettings {
    let endpoint: APNSEndpoint
    /// PEM; nil for the system's roots.
    let roots: [UInt8]?
    let brands: BrandLibrary
    /// The pusher puts no URL into an order; it needs none to be configured.
    private static let unusedURL = "https://unused.invalid"

    /// - Throws: `SettingsError` naming key and value.
    init(_ settings: Settings, common: CommonSettings) throws(SettingsError) {
        let url = settings.text(.apnsURL, default: "https://api.push.apple.com:443")
        do {
            self.endpoint = try APNSEndpoint(url: url)
        } catch {
            throw SettingsError(.apnsURL, value: url, error.message)
        }
        if let path = settings.text(.apnsRoots) {
            self.roots = try settings.content(.apnsRoots, of: path)
        } else {
            self.roots = nil
        }
        self.brands = try settings.brands(in: common.brands, webServiceURL: Self.unusedURL)
    }
}
