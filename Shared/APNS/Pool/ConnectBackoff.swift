public import NIOCore

/// The wait before the next attempt to connect: short the first time, then doubling, with jitter.
///
/// Source: Wallet Orders §4.5: rapid opening and closing looks like denial of service
public struct ConnectBackoff: Hashable, Sendable {
    /// The longest wait after a connection that had worked.
    public var quick: TimeAmount = .milliseconds(100)
    /// The first wait after a failed attempt, before jitter.
    public var least: TimeAmount = .seconds(1)
    /// The longest wait.
    public var most: TimeAmount = .seconds(60)
    /// The longest wait while something is queued.
    var mostQueued: TimeAmount = .seconds(15)

    public init() {}

    /// Returns the wait before the next attempt.
    ///
    /// - Parameters:
    ///   - attempt: the number of attempts that have failed since a connection last worked.
    ///   - jitter: 0 to 1.
    /// - Returns: for attempt 0 up to `quick`; otherwise between half and all of the doubled wait.
    public func delay(attempt: Int, jitter: Double) -> TimeAmount {
        let jitter = min(max(jitter, 0), 1)
        guard attempt > 0 else { return scaled(self.quick, jitter) }
        // 2^20 is beyond any sensible ratio of the bounds; the product cannot overflow a Double.
        let doubled = Double(self.least.nanoseconds) * Double(1 << min(attempt - 1, 20))
        let wait = TimeAmount.nanoseconds(Int64(min(doubled, Double(self.most.nanoseconds))))
        return scaled(wait, 0.5 + jitter / 2)
    }

    private func scaled(_ amount: TimeAmount, _ factor: Double) -> TimeAmount {
        .nanoseconds(Int64(Double(amount.nanoseconds) * factor))
    }
}
