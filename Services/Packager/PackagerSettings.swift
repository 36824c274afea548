import Fetch
import Operations
import Packaging

/// What the packager reads besides `CommonSettings`.
///
/// ## Configuration keys
/// - `WAYBILL_TOKEN_SECRETS` (path, required): the secrets that authentication tokens are derived from.
/// - `WAYBILL_WEB_SERVICE_URL` (https URL, required): stands in each order.
/// - `WAYBILL_PICTURE_ROOTS` (path, default the system's roots): PEM file with the roots that the certificates of
///   picture hosts must lead to.
/// - `WAYBILL_DEVELOPMENT_PICTURE_ADDRESSES` (IP addresses separated by commas, default none): addresses that pictures
///   are fetched from although they are not public. Never in production: who writes orders could reach what listens
///   there.
/// - `WAYBILL_UNKNOWN_ORDER_SECONDS` (0 to 600, default 60): how long an update of an order that is not there yet
///   waits for it.
struct PackagerSettings {
    let brands: BrandLibrary
    let tokens: TokenAuthority
    let pictures: FetcherConfiguration
    /// How long an update of an order that is not there yet waits for it.
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
