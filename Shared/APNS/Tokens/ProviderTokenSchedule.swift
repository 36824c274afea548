/// Decides when a provider token is replaced. A value: the clock is an argument.
///
/// Source: Wallet Orders §4.4: not more often than every 20 minutes, at least every 60
struct ProviderTokenSchedule: Sendable {
    /// A token replaced more often than this makes APNs answer TooManyProviderTokenUpdates.
    static let leastSeconds: Int64 = 20 * 60
    /// A token older than this makes APNs answer ExpiredProviderToken.
    static let mostSeconds: Int64 = 60 * 60

    /// A token issued in the future by more than this is replaced regardless of the rule of 20 minutes.
    static let mostSkewSeconds: Int64 = 60

    private(set) var mintedEpochSeconds: Int64?
    private var refreshAfterSeconds: Int64 = 0
    private var isExpired = false

    /// - Returns: true if a token must be made before the next request.
    func isDue(epochSeconds: Int64) -> Bool {
        guard let minted = self.mintedEpochSeconds else { return true }
        let age = epochSeconds.subtractingReportingOverflow(minted).partialValue
        // APNs refuses a token from the future, which results when the clock was set back, like an old one.
        if age >= self.refreshAfterSeconds || age < -Self.mostSkewSeconds { return true }
        return self.isExpired && age >= Self.leastSeconds
    }

    /// - Parameter jitter: 0 to 1; spreads the processes of a fleet over 40 to 50 minutes.
    mutating func minted(epochSeconds: Int64, jitter: Double) {
        self.mintedEpochSeconds = epochSeconds
        self.refreshAfterSeconds = 40 * 60 + Int64(min(max(jitter, 0), 1) * 600)
        self.isExpired = false
    }

    /// APNs answered ExpiredProviderToken: the next token is made as soon as the rule of 20 minutes allows.
    mutating func expired() { self.isExpired = true }

    /// - Returns: true if the present token may still be used when no new one can be made.
    func isUsable(epochSeconds: Int64) -> Bool {
        guard let minted = self.mintedEpochSeconds else { return false }
        let age = epochSeconds.subtractingReportingOverflow(minted).partialValue
        return (-Self.leastSeconds...Self.mostSeconds).contains(age)
    }
}
