/// Keeps work below a rate: says how long to wait so that what is done does not run ahead of time.
///
/// Time that was lost is not made up for, so there are no bursts behind a stall.
struct RateLimiter {
    private let perSecond: Int
    private var next: Duration?

    /// - Parameter perSecond: above 0.
    init(perSecond: Int) { self.perSecond = max(perSecond, 1) }

    /// - Parameters:
    ///   - count: units that were done just now.
    ///   - now: on a clock that only goes forward.
    mutating func wait(after count: Int, now: Duration) -> Duration {
        let due = max(self.next ?? now, now - .seconds(1)) + .seconds(count) / self.perSecond
        self.next = due
        return max(.zero, due - now)
    }
}
