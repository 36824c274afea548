/// The outcomes of one credential's attempts in the last minute, in buckets: shares are more reliable than single
/// outcomes.
///
/// A value of constant size without a clock; noting costs an addition.
struct HealthWindow: Sendable {
    /// The number of attempts for each outcome.
    struct Counts: Hashable, Sendable {
        /// APNs judged the notification on its own: `accepted` and `refused`, `unknown` tokens, `busy` devices.
        var judged: Int32 = 0
        /// Refused for a reason of its own, such as a token of another app.
        var refused: Int32 = 0
        /// APNs does not know the push token.
        var unknown: Int32 = 0
        /// Too many requests for the device.
        var busy: Int32 = 0
        /// Failed for the service, the connection or the provider token.
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

        /// True if more than this percentage of all outcomes is of one kind.
        func isShare(of count: Int32, above percent: Int64) -> Bool {
            Int64(count) * 100 > percent * (Int64(self.judged) + Int64(self.failed))
        }
    }

    static let buckets = 12
    static let bucket = Duration.seconds(5)
    static let length = Self.bucket * Self.buckets

    private var ring = [Counts](repeating: Counts(), count: Self.buckets)
    private var current = 0
    /// The end of `current`; nil until something is noted.
    private var end: ContinuousClock.Instant?

    /// All of the last minute, as of the last record.
    var counts: Counts { self.ring.reduce(into: Counts()) { $0 += $1 } }

    mutating func record(now: ContinuousClock.Instant, _ change: (inout Counts) -> Void) {
        self.advance(now)
        change(&self.ring[self.current])
    }

    /// Forgets what is older than a minute.
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
