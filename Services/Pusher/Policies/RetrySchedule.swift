import APNS

/// Decides when a notification that failed is sent again, and when its retries end.
///
/// The backoff is exponential with jitter, and honours `Retry-After`. Failures because of the device are bounded in
/// number and in time, those because of the service or a connection only in time, by a long limit: in a brown-out the
/// same notification fails often. Each attempt that counts adds the time that it took and the pause after it. The wall
/// clock would also count an hour in which APNs was unavailable, and end the retries with the first failure after it.
/// The first attempt counts from its sending, not from its failure: ten seconds without an answer hold a partition back
/// like any others. A value without a clock, and small, since each failing notification has one.
struct RetrySchedule: Hashable, Sendable {
    /// The most attempts and time that one notification may take.
    struct Limits: Hashable, Sendable {
        /// Attempts that failed because of the device.
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

    /// Returns the first pause: a new connection is available immediately, while APNs, or a device with too many
    /// requests, needs time.
    static func first(_ scope: PushRetry.Scope) -> Duration {
        switch scope {
        case .connection: .milliseconds(100)
        case .service: .seconds(1)
        case .device: .seconds(2)
        }
    }

    /// The second pause after a lost connection; from then on it doubles like the others.
    static let secondOfConnection = Duration.seconds(1)
    /// Returns the longest pause that APNs did not request: a busy device needs more time, and once the service has
    /// recovered, all devices are notified within a minute.
    static func longest(_ scope: PushRetry.Scope) -> Duration {
        switch scope {
        case .device: .seconds(60)
        case .connection, .service: .seconds(30)
        }
    }
    /// The longest `Retry-After` that is honoured for failures that do not count as attempts, unless the hold limit is
    /// shorter: no notification waits longer after APNs has recovered. While APNs is unavailable, the credential's
    /// probes respect the time that it requested.
    static let mostRetryAfter = Duration.seconds(300)

    /// Failed attempts of any cause.
    private(set) var attempts: UInt32 = 0
    /// Attempts that failed because of the device.
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
        // The last attempt is made at the limit even if APNs requested a longer pause: it costs at most one early
        // request, and it may succeed.
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
        // Notifications that were given the same time are not all sent again at the same time.
        let asked = Duration.seconds(min(seconds, 86_400)) * random(1...1.1)
        return max(asked, jittered)
    }
}
