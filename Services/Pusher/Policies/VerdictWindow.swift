/// The verdicts on one credential's attempts in a rolling period, in buckets: shares are more reliable than single
/// outcomes.
///
/// A value of constant size without a clock; recording costs an addition.
struct VerdictWindow: Sendable {
    /// The number of attempts with each verdict.
    struct Counts: Hashable, Sendable {
        /// APNs accepted the notification.
        var delivered: Int32 = 0
        /// APNs judged the notification individually: accepted, `refused`, `unknown`, or `busy` unless the whole
        /// provider is throttled.
        var judged: Int32 = 0
        /// Refused for a reason that concerns it alone, such as a token of another app.
        var refused: Int32 = 0
        /// APNs does not know the push token.
        var unknown: Int32 = 0
        /// Too many requests for the device.
        var busy: Int32 = 0
        /// Failed because of the service, the connection or the provider token, or because the whole provider is
        /// throttled.
        var failed: Int32 = 0
        /// Those of `failed` for which a new provider token or connection is the cure.
        var tokenRefused: Int32 = 0

        static func += (left: inout Self, right: Self) {
            left.delivered += right.delivered
            left.judged += right.judged
            left.refused += right.refused
            left.unknown += right.unknown
            left.busy += right.busy
            left.failed += right.failed
            left.tokenRefused += right.tokenRefused
        }

        /// Returns true if a count is more than a percentage of all outcomes.
        func isShare(of count: Int32, above percent: Int64) -> Bool {
            Int64(count) * 100 > percent * (Int64(self.judged) + Int64(self.failed))
        }
    }

    private let bucket: Duration
    private var ring: [Counts]
    private var current = 0
    /// The end of `current`; nil until something is recorded.
    private var end: ContinuousClock.Instant?

    /// - Parameter bucket: the length of each bucket.
    init(buckets: Int, of bucket: Duration) {
        self.bucket = bucket
        self.ring = [Counts](repeating: Counts(), count: buckets)
    }

    /// The sums over the whole period, as of the last call of `record`.
    var counts: Counts { self.ring.reduce(into: Counts()) { $0 += $1 } }

    mutating func record(now: ContinuousClock.Instant, _ change: (inout Counts) -> Void) {
        self.advance(now)
        change(&self.ring[self.current])
    }

    /// Clears the buckets whose time is over.
    private mutating func advance(_ now: ContinuousClock.Instant) {
        guard var end = self.end else {
            self.end = now + self.bucket
            return
        }
        guard end <= now else { return }
        if now - end >= self.bucket * self.ring.count {
            self.ring = [Counts](repeating: Counts(), count: self.ring.count)
            end = now + self.bucket
        }
        while end <= now {
            self.current = (self.current + 1) % self.ring.count
            self.ring[self.current] = Counts()
            end += self.bucket
        }
        self.end = end
    }
}
