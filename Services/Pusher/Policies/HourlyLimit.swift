import Model

/// Limits the notifications to a device per hour: no hour, whenever it begins, has more, and the last change always
/// causes a notification.
///
/// GCRA: half of them may come in a burst, the others evenly over the hour, so that a device never waits longer than
/// `longestWait`. `acquire` must be called once for a notification, not for each attempt.
/// Bounded: somewhat more than 16 bytes for each recently notified device, at most `capacity` of them; beyond that, the
/// devices with the most allowance left are forgotten, and may get more. Devices are stored as seeded 64-bit hashes:
/// two that collide, one in a million million, share a limit. A value without a clock.
struct HourlyLimit: Sendable {
    /// Half a million devices notified within an hour; 16 MB.
    static let usualCapacity = 500_000
    /// The number of entries sampled to find the eighth of the devices with the most allowance left.
    private static let sample = 1_024
    private static let hour: Int64 = 3_600_000_000_000

    /// Nanoseconds between two notifications once the burst is used up; 0 is no limit.
    private let interval: Int64
    /// The time by which a device may be ahead of its even pace.
    private let tolerance: Int64
    private let capacity: Int
    private let start: MonotonicTime
    /// The time when each device is back at its even pace, in nanoseconds since `start`: a past time has no effect.
    private var times: [Int: Int64] = [:]
    /// The number of entries that makes a sweep worthwhile.
    private var sweepAt: Int

    /// - Parameters:
    ///   - perHour: 0: no limit.
    ///   - now: earlier than all later times.
    init(perHour: Int, capacity: Int = Self.usualCapacity, now: MonotonicTime) {
        let most = Int64(min(max(0, perHour), 1_000_000_000))
        let burst = (most + 1) / 2
        // An hour, both ends included, fits `burst` notifications and one for each whole interval in it: a nanosecond
        // more than the hour's fraction makes the intervals one fewer than `most - burst + 1`.
        self.interval = most == 0 ? 0 : Self.hour / (most - burst + 1) + 1
        self.tolerance = (burst - 1) * self.interval
        self.capacity = max(1, capacity)
        self.sweepAt = min(1024, self.capacity)
        self.start = now
    }

    /// The number of devices that are remembered.
    var count: Int { self.times.count }

    /// The longest wait of a notification.
    var longestWait: Duration { .nanoseconds(self.interval) }

    /// Requests one notification to a device, and counts it if it may be sent.
    ///
    /// - Parameter device: the subject of the limit, such as push token and order type.
    /// - Returns: nil if it may be sent immediately; else the wait before the next request, which then succeeds.
    mutating func acquire(_ device: some Hashable, now: MonotonicTime) -> Duration? {
        guard self.interval > 0 else { return nil }
        let time = self.nanoseconds(now)
        let key = Self.hash(device)
        let even = self.times[key] ?? .min
        // `even` is at most the tolerance and an interval ahead of a time that has passed, far from overflowing.
        let wait = even == .min ? 0 : even - self.tolerance - time
        guard wait <= 0 else { return .nanoseconds(wait) }
        if even == .min, self.times.count >= self.sweepAt { self.sweep(time) }
        self.times[key] = max(even, time) + self.interval
        return nil
    }

    // MARK: Internals

    private func nanoseconds(_ now: MonotonicTime) -> Int64 {
        let (seconds, attoseconds) = (now - self.start).components
        // Limited to a century, so that sums with the interval cannot overflow.
        return min(max(0, seconds), 3_155_760_000) * 1_000_000_000 + max(0, attoseconds) / 1_000_000_000
    }

    private static func hash(_ device: some Hashable) -> Int {
        var hasher = Hasher()
        hasher.combine(device)
        return hasher.finalize()
    }

    /// Forgets devices that have their whole burst again, and at capacity an eighth of the others, so that the next
    /// sweep is not needed soon.
    private mutating func sweep(_ time: Int64) {
        self.times = self.times.filter { $0.value > time }
        if self.times.count >= self.capacity {
            // Entries are in the order of seeded hashes, so the first ones are a fair sample; sorting all of them would
            // delay everything.
            let sample = self.times.values.prefix(Self.sample).sorted()
            // The index is below the count: an eighth of at least one.
            let last = sample[sample.count / 8]
            self.times = self.times.filter { $0.value > last }
        }
        // Twice the remaining number, so that sweeping costs each notification a constant time.
        self.sweepAt = min(max(1024, self.times.count * 2), self.capacity)
    }
}
