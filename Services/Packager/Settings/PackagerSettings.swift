import Brands
import Fetch
import Model
import Operations
import Sandbox
import Store
import Tokens

/// The settings of the packager besides `CommonSettings`.
struct PackagerSettings {
    let brands: BrandLibrary
    let tokens: TokenAuthority
    let pictures: FetcherConfiguration
    /// That around the processes that decode pictures.
    let wall: SandboxWall
    /// The time that an update waits for an order that does not exist yet.
    let unknownOrderPatience: Duration
    /// The versions that are packaged at once.
    let policy: PackagePolicy
    /// The orders of which Redis keeps the place of their record alone.
    let cooling: Cooling

    /// - Throws: `SettingsError` naming key and value.
    init(_ settings: Settings, common: CommonSettings) throws(SettingsError) {
        self.brands = try settings.brands(in: common.brands, webServiceURL: try settings.webServiceURL())
        self.tokens = try settings.tokens(self.brands)
        self.pictures = try Self.pictures(settings)
        self.wall = try settings.sandboxWall()
        self.unknownOrderPatience = try settings.unknownOrderPatience()
        self.policy = try settings.policy()
        self.cooling = try settings.cooling()
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
    /// The orders that are cold; none if all packages are kept.
    func cooling() throws(SettingsError) -> Cooling {
        let days = try self.integer(.coldAfterDays, default: 7, in: 1...3650)
        return Cooling(after: try self.policy() == .always ? nil : .seconds(days * 86_400))
    }

    /// The versions that are packaged at once.
    fileprivate func policy() throws(SettingsError) -> PackagePolicy { try self.choice(.package, default: .followed) }

    /// The time that an update waits for an order that does not exist yet.
    func unknownOrderPatience() throws(SettingsError) -> Duration {
        .seconds(try self.integer(.unknownOrderSeconds, default: 60, in: 0...600))
    }
}

/// The versions that are packaged with their changes; the others are packaged when somebody asks for them.
///
/// Most customers never add their orders to Wallet, and an order has about ten versions. The first one is packaged at
/// once, since Wallet fetches it right after the payment. A wrong guess costs a fetch some milliseconds and nothing
/// else: what is served is always the newest version.
enum PackagePolicy: String, CaseIterable, Sendable {
    /// Each version.
    case always
    /// The first version, and those of orders that a device is registered for, or that were asked for lately.
    case followed

    /// The time for which an order counts as followed after a package was asked for, in seconds.
    private static let requestSeconds: Int64 = 24 * 3600

    /// Returns true if the next version of an order is not packaged yet.
    ///
    /// - Parameters:
    ///   - stored: the order before it; nil for its first version.
    ///   - isSilent: true if no device is notified of the version.
    func leavesPackage(after stored: OrderStore.StoredOrder?, isSilent: Bool, nowEpochSeconds: Int64) -> Bool {
        guard self == .followed else { return false }
        guard let stored, !stored.state.isRemoved else { return isSilent }
        return !stored.hasDevices && nowEpochSeconds - stored.requestedEpochSeconds >= Self.requestSeconds
    }
}
