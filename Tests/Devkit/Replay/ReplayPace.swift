/// When each change of a replay is due, so that a rate is kept evenly and not in bursts.
struct ReplayPace: Hashable, Sendable {
    /// Most changes that are produced in one go: what was late is made up for in such steps.
    static let limit = 500

    /// Changes a second, 0 for as fast as they are taken.
    let rate: Int

    /// When the change of an index (from 0) is due, after the begin.
    func moment(of index: Int) -> Duration {
        guard self.rate > 0 else { return .zero }
        return .seconds(index / self.rate) + .microseconds(index % self.rate * 1_000_000 / self.rate)
    }

    /// How many changes are due now.
    ///
    /// - Parameters:
    ///   - sent: how many went out already.
    ///   - count: how many there are.
    func due(sent: Int, of count: Int, after elapsed: Duration) -> Int {
        let left = max(0, count - sent)
        guard self.rate > 0 else { return min(left, Self.limit) }
        let microseconds = max(0, Int(clamping: elapsed.microseconds))
        let (seconds, rest) = microseconds.quotientAndRemainder(dividingBy: 1_000_000)
        // The first is due at once, each other when its moment has come.
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: self.rate)
        let reached = overflow || whole >= count ? count : min(count, whole + rest * min(self.rate, 1 << 30) / 1_000_000 + 1)
        return min(max(0, reached - sent), left, Self.limit)
    }
}
