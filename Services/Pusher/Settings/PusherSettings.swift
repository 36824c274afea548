import APNS
import Operations
import Packaging

/// The settings that the pusher reads besides `CommonSettings`.
///
/// ## Configuration keys
/// - `WAYBILL_APNS_URL` (https URL, default `https://api.push.apple.com:443`): the destination of notifications.
/// - `WAYBILL_APNS_ROOTS` (path, default the system's roots): PEM file, for a simulator.
/// - `WAYBILL_APNS_PROXY` (`http://[user:password@]host:port`, default none, secret): the HTTP proxy to APNs.
/// - `WAYBILL_APNS_CONNECTIONS` (`fewest-most`, 1 to 100, default `2-8`): for each credential.
/// - `WAYBILL_PUSH_WINDOW_MILLISECONDS` (0 to 60,000, default 1,000): time for which further changes are collected.
/// - `WAYBILL_PUSH_HOURLY_LIMIT` (0 to 3,600, default 60): for each device and order type; 0: none.
/// - `WAYBILL_PUSH_HOLD_SECONDS` (10 to 86,400, default 300): longest time that one notification holds back a
///   partition.
/// - `WAYBILL_PUSH_ATTEMPTS` (1 to 100, default 8): of one notification, as far as they count.
/// - `WAYBILL_PUSH_IN_FLIGHT` (100 to 100,000, default 10,000): outstanding notifications of one credential.
struct PusherSettings {
    let endpoint: APNSEndpoint
    /// PEM; nil for the system's roots.
    let roots: [UInt8]?
    /// The proxy to the endpoint; nil: a direct connection.
    let proxy: APNSProxy?
    /// Fewest and most connections of one credential.
    let connections: ClosedRange<Int>
    /// Time for which further changes for a target are collected; zero: none.
    let window: Duration
    /// Most notifications for a target in an hour; nil: any number.
    let hourlyLimit: Int?
    /// The longest time that one notification may hold back a partition.
    let hold: Duration
    /// The most attempts for one notification, as far as they count.
    let attempts: Int
    /// Most outstanding notifications of one credential.
    let inFlight: Int
    let brands: BrandLibrary
    /// The pusher writes no URL into an order; it needs none to be configured.
    private static let unusedURL = "https://unused.invalid"
    /// Notifications of all brands together that a process may have to hold, at about 1 kB each.
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
        let window = try settings.integer(.pushWindowMilliseconds, default: 1000, in: 0...60_000)
        let limit = try settings.integer(.pushHourlyLimit, default: 60, in: 0...3600)
        let hold = try settings.integer(.pushHoldSeconds, default: 300, in: 10...86_400)
        try Self.check(window: window, limit: limit, hold: hold)
        self.window = .milliseconds(window)
        self.hourlyLimit = limit == 0 ? nil : limit
        self.hold = .seconds(hold)
        self.attempts = try settings.integer(.pushAttempts, default: 8, in: 1...100)
        self.inFlight = try settings.integer(.pushInFlight, default: 10_000, in: 100...100_000)
        self.brands = try settings.brands(in: common.brands, webServiceURL: Self.unusedURL)
        try Self.check(inFlight: self.inFlight, brands: self.brands.brands.orderTypes.count)
    }

    /// Checks that a notification that waits for the end of the window, or for its turn under the hourly limit, is not
    /// given up meanwhile.
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
