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

/// Limits on waiting times and on everything in hand. Operators set some of them; only tests change the others.
package struct PushLimits: Hashable, Sendable {
    /// The time for which changes for one device are collected before it is notified once; zero: each change is sent
    /// immediately.
    package var window = Duration.seconds(1)
    /// Most notifications that a device gets in an hour; 0: no limit.
    package var hourlyLimit = 60
    /// Most notifications of an order in an hour that registrations cause; half of them may come at once.
    var registrationLimit = 100
    /// The longest time for which a device or a credential without progress may hold changes back.
    var hold = Duration.seconds(300)
    /// Most attempts for one notification that fail because of its device.
    var attempts = 8
    /// Most notifications of one credential that are with its client.
    package var inFlight = 10_000
    /// Most records in hand; lookups may exceed it.
    var records = 100_000
    /// Most devices that wait.
    var targets = 100_000
    /// Most pairs of a record and a device that must be notified of it.
    var links = 200_000
    /// The same for one order type while there are others: more than a client sends within the window, and few enough
    /// that the records after a large change wait for few lookups.
    var queueLinks = 25_000
    /// Most links of a queue for which only probes can be sent.
    var probes = 64
    /// Most keys that are parked because of records of shared topics.
    var parkedKeys = 100_000
    /// Most records of shared topics that are parked.
    var parkedRecords = 500_000
    /// Most keys that wait in the pending topic and are known here.
    var pendingKeys = 200_000
    /// The time that records of shared topics wait because of the service, or for the device's turn under the hourly
    /// limit, before they move to the pending topic.
    var parkedHold = Duration.seconds(5)
    /// The same for a device in the scheduler that may be notified: it is ready, or waits for a retry.
    var schedulerHold = Duration.seconds(30)

    package init() {}
}

/// Settings of the pusher whose check needs more than a range.
extension Settings {
    /// Returns the endpoint of APNs. Apple has two ports; a mistyped one would only show as connections that are never
    /// made.
    ///
    /// Source: Wallet Orders §4.2
    func apnsEndpoint() throws(SettingsError) -> APNSEndpoint {
        let url = self.text(.apnsURL, default: "https://api.push.apple.com:443")
        let endpoint: APNSEndpoint
        do {
            endpoint = try APNSEndpoint(url: url)
        } catch {
            throw SettingsError(.apnsURL, value: url, error.message)
        }
        guard !endpoint.host.lowercased().hasSuffix(".push.apple.com") || [443, 2197].contains(endpoint.port) else {
            throw SettingsError(.apnsURL, value: url, "APNs listens on the ports 443 and 2197 only")
        }
        return endpoint
    }

    /// Returns the HTTP proxy to APNs; nil if there is none.
    func apnsProxy() throws(SettingsError) -> APNSProxy? {
        guard let url = self.text(.apnsProxy) else { return nil }
        do {
            return try APNSProxy(url: url)
        } catch {
            throw SettingsError(.apnsProxy, value: url, error.message)
        }
    }

    /// Returns the fewest and the most connections of one credential.
    func apnsConnections() throws(SettingsError) -> ClosedRange<Int> {
        let text = self.text(.apnsConnections, default: "2-8")
        let parts = text.split(separator: "-", omittingEmptySubsequences: false).map { part in
            part.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } ? Int(part) : nil
        }
        guard parts.count == 2, let fewest = parts[0], let most = parts[1], fewest >= 1, fewest <= most, most <= 100
        else {
            throw SettingsError(
                .apnsConnections, value: text,
                "must look like 2-8, the fewest and the most connections of a credential, from 1 to 100")
        }
        return fewest...most
    }
}
