/// The times at which the changes of a replay are due, so that they are sent at an even rate rather than in bursts.
struct ReplayPace: Hashable, Sendable {
    /// The maximum number of changes produced together; a delay is made up for in batches of this size.
    static let limit = 500

    /// Changes per second, 0 for as fast as they are accepted.
    let rate: Int

    /// Returns the time at which the change with an index (from 0) is due, relative to the start.
    func moment(of index: Int) -> Duration {
        guard self.rate > 0 else { return .zero }
        return .seconds(index / self.rate) + .microseconds(index % self.rate * 1_000_000 / self.rate)
    }

    /// Returns the number of changes that are due.
    ///
    /// - Parameters:
    ///   - sent: the number already sent.
    ///   - count: the total number.
    func due(sent: Int, of count: Int, after elapsed: Duration) -> Int {
        let left = max(0, count - sent)
        guard self.rate > 0 else { return min(left, Self.limit) }
        let microseconds = max(0, Int(clamping: elapsed.microseconds))
        let (seconds, rest) = microseconds.quotientAndRemainder(dividingBy: 1_000_000)
        // The first is due immediately, every other one at its time.
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: self.rate)
        let reached =
            overflow || whole >= count ? count : min(count, whole + rest * min(self.rate, 1 << 30) / 1_000_000 + 1)
        return min(max(0, reached - sent), left, Self.limit)
    }
}
