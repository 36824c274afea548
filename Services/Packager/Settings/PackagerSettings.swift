import Brands
import Fetch
import Operations
import Tokens

/// The settings of the packager besides `CommonSettings`.
struct PackagerSettings {
    let brands: BrandLibrary
    let tokens: TokenAuthority
    let pictures: FetcherConfiguration
    /// The time that an update waits for an order that does not exist yet.
    let unknownOrderPatience: Duration
    /// The versions that are packaged at once.
    let policy: PackagePolicy

    /// - Throws: `SettingsError` naming key and value.
    init(_ settings: Settings, common: CommonSettings) throws(SettingsError) {
        self.brands = try settings.brands(in: common.brands, webServiceURL: try settings.webServiceURL())
        self.tokens = try settings.tokens(self.brands)
        self.pictures = try Self.pictures(settings)
        self.unknownOrderPatience = try settings.unknownOrderPatience()
        let policy = settings.text(.package) ?? PackagePolicy.followed.rawValue
        guard let known = PackagePolicy(rawValue: policy) else {
            throw SettingsError(.package, value: policy, "must be always or followed")
        }
        self.policy = known
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

extension Settings {
    /// The time that an update waits for an order that does not exist yet.
    func unknownOrderPatience() throws(SettingsError) -> Duration {
        .seconds(try self.integer(.unknownOrderSeconds, default: 60, in: 0...600))
    }
}
