/// The outcomes of one credential's attempts in the last minute, in buckets: shares are more reliable than single
/// outcomes.
///
/// A value of constant size without a clock; recording costs an addition.
struct HealthWindow: Sendable {
    /// The number of attempts for each outcome.
    struct Counts: Hashable, Sendable {
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

    static let buckets = 12
    static let bucket = Duration.seconds(5)
    static let length = Self.bucket * Self.buckets

    private var ring = [Counts](repeating: Counts(), count: Self.buckets)
    private var current = 0
    /// The end of `current`; nil until something is recorded.
    private var end: ContinuousClock.Instant?

    /// The sums over the last minute, as of the last call of `record` or `advance`.
    var counts: Counts { self.ring.reduce(into: Counts()) { $0 += $1 } }

    mutating func record(now: ContinuousClock.Instant, _ change: (inout Counts) -> Void) {
        self.advance(now)
        change(&self.ring[self.current])
    }

    /// Forgets outcomes that are older than a minute.
    mutating func advance(_ now: ContinuousClock.Instant) {
        guard var end = self.end else {
            self.end = now + Self.bucket
            return
        }
        guard end <= now else { return }
        if now - end >= Self.length {
            self.ring = [Counts](repeating: Counts(), count: Self.buckets)
            end = now + Self.bucket
        }
        while end <= now {
            self.current = (self.current + 1) % Self.buckets
            self.ring[self.current] = Counts()
            end += Self.bucket
        }
        self.end = end
    }
}

/// The last notifications with one kind of outcome, to count their devices and orders.
///
/// Bounded: `capacity` entries. A value without a clock.
struct RecentOutcomes: Sendable {
    static let capacity = 32

    private var entries: [(origin: CredentialHealth.Origin, at: ContinuousClock.Instant)] = []

    mutating func record(_ origin: CredentialHealth.Origin, now: ContinuousClock.Instant) {
        if self.entries.count == Self.capacity { self.entries.removeFirst() }
        self.entries.append((origin, now))
    }

    /// - Returns: the number of different devices and orders among those of the last minute.
    func distinct(now: ContinuousClock.Instant) -> (devices: Int, orders: Int) {
        let recent = self.entries.filter { now - $0.at < HealthWindow.length }
        return (Set(recent.map(\.origin.device)).count, Set(recent.map(\.origin.order)).count)
    }

    mutating func removeAll() { self.entries.removeAll() }
}
