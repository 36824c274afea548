import APNS
import Brands
import Operations

/// The settings that the pusher reads besides `CommonSettings`.
struct PusherSettings {
    let endpoint: APNSEndpoint
    /// PEM; nil for the system's roots.
    let roots: [UInt8]?
    /// The proxy to the endpoint; nil: a direct connection.
    let proxy: APNSProxy?
    /// Fewest and most connections of one credential.
    let connections: ClosedRange<Int>
    /// The limits that operators set, and the others with their defaults.
    let limits: PushLimits
    let brands: BrandLibrary
    /// A placeholder: the pusher writes no URL into an order, so none must be configured.
    private static let unusedURL = "https://unused.invalid"
    /// Most notifications of all brands together that a process may have to hold, at about 1 kB each.
    static let outstandingLimit = 2_000_000

    /// - Throws: `SettingsError` naming key and value.
    init(_ settings: Settings, common: CommonSettings) throws(SettingsError) {
        self.endpoint = try settings.apnsEndpoint()
        if let path = settings.text(.apnsRoots) {
            self.roots = try settings.content(.apnsRoots, of: path)
        } else {
            self.roots = nil
        }
        self.proxy = try settings.apnsProxy()
        if self.proxy != nil, self.endpoint.isAddress {
            throw SettingsError(
                .apnsURL, value: "\(self.endpoint)",
                "cannot be verified through WAYBILL_APNS_PROXY: give it by its host name")
        }
        self.connections = try settings.apnsConnections()
        var limits = PushLimits()
        let window = try settings.integer(
            .pushWindowMilliseconds, default: Int(limits.window / .milliseconds(1)), in: 0...60_000)
        let hold = try settings.integer(.pushHoldSeconds, default: Int(limits.hold / .seconds(1)), in: 10...86_400)
        limits.hourlyLimit = try settings.integer(.pushHourlyLimit, default: limits.hourlyLimit, in: 0...3600)
        try Self.check(window: window, limit: limits.hourlyLimit, hold: hold)
        limits.window = .milliseconds(window)
        limits.hold = .seconds(hold)
        limits.attempts = try settings.integer(.pushAttempts, default: limits.attempts, in: 1...100)
        limits.inFlight = try settings.integer(.pushInFlight, default: limits.inFlight, in: 100...100_000)
        self.limits = limits
        self.brands = try settings.brands(in: common.brands, webServiceURL: Self.unusedURL)
        try Self.check(inFlight: limits.inFlight, brands: self.brands.brands.orderTypes.count)
    }

    /// Checks that a notification that waits for the end of the window, or for its turn under the hourly limit, is not
    /// dropped meanwhile.
    ///
    /// With a limit of N a notification waits at most 7200 ÷ N s: `HourlyLimit`.
    static func check(window: Int, limit: Int, hold: Int) throws(SettingsError) {
        let key = SettingKey.pushHoldSeconds.rawValue
        guard window <= hold * 1000 else {
            throw SettingsError(.pushWindowMilliseconds, value: "\(window)", "is longer than \(key)=\(hold)")
        }
        guard limit > 0, limit * hold < 7200 else { return }
        throw SettingsError(
            .pushHourlyLimit, value: "\(limit)",
            "a notification could wait \((7200 + limit - 1) / limit) s for its turn, longer than \(key)=\(hold): "
                + "allow at least \((7200 + hold - 1) / hold) an hour, or hold longer")
    }

    /// - Parameter brands: the number of brands at the start; each has a credential.
    static func check(inFlight: Int, brands: Int) throws(SettingsError) {
        let (most, isOver) = inFlight.multipliedReportingOverflow(by: brands)
        guard isOver || most > Self.outstandingLimit else { return }
        throw SettingsError(
            .pushInFlight, value: "\(inFlight)",
            "with \(brands) brands the process could have to hold more than \(Self.outstandingLimit) notifications "
                + "(1 kB each): allow at most \(Self.outstandingLimit / max(1, brands))")
    }
}
