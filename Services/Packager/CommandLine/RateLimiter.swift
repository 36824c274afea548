/// Keeps work below a rate: returns how long to wait so that the work does not exceed it.
///
/// Lost time is not made up for, so there are no bursts after a stall.
struct RateLimiter {
    private let perSecond: Int
    private var next: Duration?

    /// - Parameter perSecond: above 0.
    init(perSecond: Int) { self.perSecond = max(perSecond, 1) }

    /// - Parameters:
    ///   - count: units that were done just now.
    ///   - now: the time on a monotonic clock.
    mutating func wait(after count: Int, now: Duration) -> Duration {
        let due = max(self.next ?? now, now - .seconds(1)) + .seconds(count) / self.perSecond
        self.next = due
        return max(.zero, due - now)
    }
}
