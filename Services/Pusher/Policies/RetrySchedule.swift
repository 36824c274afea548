import APNS

/// Decides when one notification that failed is sent again, and when it is given up.
///
/// Exponential with jitter, `Retry-After` honoured. Failures for which a device is to blame are bounded in number and
/// in time; those for which the service or a connection is to blame in time alone, and that is long: a brown-out fails
/// the same notification often. Each attempt that counts adds the time that it took and the pause after it. The wall
/// clock would also count an hour in which APNs was away, and give up with the first failure after it. The first
/// attempt counts from its sending, not from its failure: ten seconds without an answer hold a partition like any other
/// ten. A value without a clock, small, as each failing notification has one.
struct RetrySchedule: Hashable, Sendable {
    /// The most that one notification may hold up.
    struct Limits: Hashable, Sendable {
        /// Attempts that failed for the device.
        var attempts = 8
        /// Time that they may take.
        var hold = Duration.seconds(300)
        /// Time that failures of the service and of connections may take: longer than any incident.
        var service = Duration.seconds(86_400)
    }

    /// The step after a failure.
    enum Step: Hashable, Sendable {
        case again(after: Duration)
        case giveUp
    }

    /// The first pause: a new connection is there at once, APNs and a device with too many requests need some rest.
    static func first(_ scope: PushRetry.Scope) -> Duration {
        switch scope {
        case .connection: .milliseconds(100)
        case .service: .seconds(1)
        case .device: .seconds(2)
        }
    }

    /// The second pause after a lost connection; from then on it doubles like the others.
    static let secondOfConnection = Duration.seconds(1)
    /// The longest pause that APNs did not ask for: a device gets its rest, and when the service has recovered all are
    /// notified within a minute.
    static func longest(_ scope: PushRetry.Scope) -> Duration {
        switch scope {
        case .device: .seconds(60)
        case .connection, .service: .seconds(30)
        }
    }
    /// The longest `Retry-After` that is honoured for failures that count no attempts, unless the hold limit is
    /// shorter: no notification waits longer for an APNs that is back. While APNs is away its credential's probes
    /// respect the time it asked for.
    static let mostRetryAfter = Duration.seconds(300)

    /// Failed attempts, whatever the cause.
    private(set) var attempts: UInt32 = 0
    /// Those that failed for the device.
    private(set) var counted: UInt32 = 0
    /// Time that they took, the pauses after them included.
    private(set) var held = Duration.zero
    /// The same for those that failed because of the service or a connection.
    private(set) var heldByService = Duration.zero

    init() {}

    /// Processes a failed attempt.
    ///
    /// - Parameters:
    ///   - took: the time from handing it to the client to its outcome.
    ///   - random: returns a number within a range.
    mutating func failed(
        _ retry: PushRetry, blame: FailureAttribution, took: Duration, limits: Limits,
        random: (ClosedRange<Double>) -> Double
    ) -> Step {
        // Beyond four thousand million attempts the backoff is at its longest anyway.
        if self.attempts < .max { self.attempts += 1 }
        let took = max(took, .zero)
        var room = min(Self.mostRetryAfter, limits.hold)
        // The last attempt is at the limit, also if APNs asked for more: it costs one request too early at most, and it
        // may succeed.
        switch blame {
        case .nobody: break
        case .time:
            self.heldByService += took
            guard self.heldByService < limits.service else { return .giveUp }
            room = min(room, limits.service - self.heldByService)
        case .notification:
            if self.counted < .max { self.counted += 1 }
            self.held += took
            guard self.held < limits.hold, Int64(self.counted) < Int64(limits.attempts) else { return .giveUp }
            room = limits.hold - self.held
        }
        let delay = min(self.delay(retry, random: random), room)
        switch blame {
        case .nobody: break
        case .time: self.heldByService += delay
        case .notification: self.held += delay
        }
        return .again(after: delay)
    }

    private func delay(_ retry: PushRetry, random: (ClosedRange<Double>) -> Double) -> Duration {
        var doublings = self.attempts - 1
        var base = Self.first(retry.scope)
        if retry.scope == .connection, doublings > 0 {
            base = Self.secondOfConnection
            doublings -= 1
        }
        // 2^10 times the smallest base is beyond the longest.
        let whole = min(base * (1 << min(doublings, 10)), Self.longest(retry.scope))
        let jittered = whole * random(0.5...1)
        guard let seconds = retry.afterSeconds, seconds > 0 else { return jittered }
        // Clients that were given the same time do not all come back at the same time.
        let asked = Duration.seconds(min(seconds, 86_400)) * random(1...1.1)
        return max(asked, jittered)
    }
}
