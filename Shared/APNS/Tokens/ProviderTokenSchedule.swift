/// Decides when a provider token is replaced. A value: the clock is an argument.
///
/// Source: Wallet Orders §4.4: at most once every 20 minutes, at least once every 60
struct ProviderTokenSchedule: Sendable {
    /// The minimum age at replacement; APNs answers TooManyProviderTokenUpdates to tokens replaced more often.
    static let leastSeconds: Int64 = 20 * 60
    /// The maximum age; APNs answers ExpiredProviderToken to an older token.
    static let mostSeconds: Int64 = 60 * 60

    /// The maximum time by which a token may be issued in the future; beyond it the token is replaced regardless of the
    /// rule of 20 minutes.
    static let mostSkewSeconds: Int64 = 60

    private(set) var mintedEpochSeconds: Int64?
    private var refreshAfterSeconds: Int64 = 0
    private var isExpired = false

    /// - Returns: true if a new token is needed before the next request.
    func isDue(epochSeconds: Int64) -> Bool {
        guard let minted = self.mintedEpochSeconds else { return true }
        let age = epochSeconds.subtractingReportingOverflow(minted).partialValue
        // A token is from the future if the clock was set back; APNs refuses it like an old one.
        if age >= self.refreshAfterSeconds || age < -Self.mostSkewSeconds { return true }
        return self.isExpired && age >= Self.leastSeconds
    }

    /// Notes that a token was made.
    ///
    /// - Parameter jitter: 0 to 1; spreads the replacements in a fleet over 40 to 50 minutes.
    mutating func minted(epochSeconds: Int64, jitter: Double) {
        self.mintedEpochSeconds = epochSeconds
        self.refreshAfterSeconds = 40 * 60 + Int64(min(max(jitter, 0), 1) * 600)
        self.isExpired = false
    }

    /// Notes that APNs answered ExpiredProviderToken: a new token is due as soon as the rule of 20 minutes allows.
    mutating func expired() { self.isExpired = true }

    /// - Returns: true if the present token may still be used when a new one cannot be made.
    func isUsable(epochSeconds: Int64) -> Bool {
        guard let minted = self.mintedEpochSeconds else { return false }
        let age = epochSeconds.subtractingReportingOverflow(minted).partialValue
        return (-Self.leastSeconds...Self.mostSeconds).contains(age)
    }
}
