import Fetch
import Operations
import Packaging

/// The settings of the packager besides `CommonSettings`.
///
/// ## Configuration keys
/// - `WAYBILL_TOKEN_SECRETS` (path, required): the secrets that authentication tokens are derived from.
/// - `WAYBILL_WEB_SERVICE_URL` (https URL, required): written into each order.
/// - `WAYBILL_PICTURE_ROOTS` (path, default the system's roots): PEM file with the roots that the certificates of
///   picture hosts must lead to.
/// - `WAYBILL_DEVELOPMENT_PICTURE_ADDRESSES` (IP addresses separated by commas, default none): addresses that pictures
///   are fetched from although they are not public. Never in production: anybody who writes orders could reach the
///   services there.
/// - `WAYBILL_UNKNOWN_ORDER_SECONDS` (0 to 600, default 60): the time that an update waits for an order that does not
///   exist yet.
struct PackagerSettings {
    let brands: BrandLibrary
    let tokens: TokenAuthority
    let pictures: FetcherConfiguration
    /// The time that an update waits for an order that does not exist yet.
    let unknownOrderPatience: Duration

    /// - Throws: `SettingsError` naming key and value.
    init(_ settings: Settings, common: CommonSettings) throws(SettingsError) {
        self.brands = try settings.brands(in: common.brands, webServiceURL: try settings.webServiceURL())
        self.tokens = try settings.tokens(self.brands)
        self.pictures = try Self.pictures(settings)
        self.unknownOrderPatience = .seconds(try settings.integer(.unknownOrderSeconds, default: 60, in: 0...600))
    }

    private static func pictures(_ settings: Settings) throws(SettingsError) -> FetcherConfiguration {
        var configuration = FetcherConfiguration()
        if let path = settings.text(.pictureRoots) {
            configuration.rootsPEM = try settings.content(.pictureRoots, of: path)
        }
        if let text = settings.text(.developmentPictureAddresses) {
            var exceptions: Set<IPAddress> = []
            for part in text.split(separator: ",") {
                guard let address = IPAddress(String(part)) else {
                    throw SettingsError(
                        .developmentPictureAddresses, value: text, "must be IP addresses separated by commas")
                }
                exceptions.insert(address)
            }
            configuration.addresses = AddressPolicy(exceptions: exceptions)
        }
        return configuration
    }
}
