import APNS
import Model

/// The health of one credential, judged by the outcomes of its last notifications.
///
/// `healthy` -> `ill` when APNs judges nothing any more -> `healthy` with the first judgement; from both -> `stopped`
/// when APNs refuses the credential -> `healthy` with the first notification that APNs accepts.
///
/// A changed certificate or key starts with a fresh value, which outcomes of the old one do not reach. A value of
/// bounded size without a clock.
struct CredentialHealth: Sendable {
    enum State: Hashable, Sendable {
        /// Everything may be sent.
        case healthy
        /// APNs is unavailable, answers only 5xx, or throttles the whole provider: it is probed with a few
        /// notifications at a time.
        case ill(since: MonotonicTime, reason: String)
        /// APNs refuses everything sent with this credential.
        case stopped(since: MonotonicTime, reason: String)

        /// The value for a gauge: 0 healthy, 1 ill, 2 stopped.
        var gauge: Int {
            switch self {
            case .healthy: 0
            case .ill: 1
            case .stopped: 2
            }
        }
    }

    /// A change worth a log line, and for the first two an alarm. Reported once per change, never per notification.
    enum Change: Hashable, Sendable {
        case ill(reason: String)
        case stopped(reason: String)
        /// Has the time since it was last healthy.
        case healthy(after: Duration)
    }

    /// The notifications that may be sent.
    enum Permission: Hashable, Sendable {
        case all
        /// A number of notifications as probes, different ones each time, to tokens that APNs accepted before if there
        /// are any: a notification that always fails must not block all others. The caller then calls `probed`.
        case probes(Int)
        case nothing(until: MonotonicTime)
    }

    /// The consequences of an outcome beyond its own notification.
    struct Ruling: Hashable, Sendable {
        /// Applies to attempts that are repeated: `.retry` and `.stopCredential`. With `.time`, a `.stopCredential` is
        /// contradicted by other outcomes (retry it: `PushRetry.contradicted`); with `.nobody`, it is the credential's
        /// fault (let the notification wait until the credential is healthy).
        let blame: FailureAttribution
        let change: Change?
    }

    /// The device and the order of a notification, as hashes: to distinguish one odd device or order from many.
    struct Origin: Hashable, Sendable {
        var device = 0
        var order = 0
    }

    /// The time whose outcomes are evaluated as shares.
    static let period = Duration.seconds(60)
    /// Failures in a row after which APNs counts as unavailable: in a brown-out in which four of five requests fail, so
    /// many in a row are not expected within years. With fewer in flight, `patience` decides.
    static let failuresToIll = 100
    /// The time with only failures after which APNs counts as unavailable: longer than the loss and replacement of one
    /// connection take.
    static let patience = Duration.seconds(5)
    /// The first and the longest pause between probes while ill; the first probe is immediate, and the pauses double. A
    /// few seconds delay the waiting notifications little and are no load for APNs.
    static let firstProbe = Duration.seconds(1)
    static let lastProbe = Duration.seconds(5)
    /// Probes at a time while ill: while APNs fails most requests, a single one would often fail although others
    /// succeed.
    static let illProbes = 4
    /// The longest `Retry-After` that is honoured for APNs as a whole: one probe in five minutes does no harm.
    static let mostRetryAfter = Duration.seconds(300)
    /// Interval of probes while stopped: each is one more error on a connection that APNs closes after too many errors.
    static let stoppedProbe = Duration.seconds(60)
    /// The time for which an accepted notification vouches for its credential against a single refusal.
    static let proof = Duration.seconds(60)
    /// Refusals in a row, all sent after the last accepted one, that outweigh it …
    static let refusalsToStop = 10
    /// … if they continue for this long: longer than one faulty host causes them before the client leaves it.
    static let refusalPatience = Duration.seconds(5)
    /// The number of failures within the last minute from which their share is evaluated.
    static let failuresToCompare: Int32 = 10
    /// Percent of failures above which the notifications themselves are not to blame.
    static let failedShare: Int64 = 20
    /// Notifications within the last minute that APNs refuses individually (our bugs, tokens of another app), the
    /// number of their devices and of their orders, and their percentage of all, from which it is the credential's
    /// fault.
    static let refusedToStop: Int32 = 20
    static let refusedOrigins = 10
    static let refusedShare: Int64 = 80
    /// Devices that get too many requests, and the percentage of these answers, from which the limit counts as one of
    /// the whole provider.
    static let busyDevices = 10
    static let busyShare: Int64 = 50
    /// Tokens within the last minute that APNs does not know, and their percentage of all, from which notifications to
    /// tokens that were never accepted are sent a few at a time: APNs closes connections sooner for these errors. An
    /// old base of devices, with a few percent unknown, keeps its full rate.
    ///
    /// Source: Wallet Orders §4.6
    static let unknownToSuspect: Int32 = 10
    static let unknownShare: Int64 = 20
    /// The time after which the credential stops if 403s continue that a new connection or provider token should have
    /// cured, and the least number of them, which must also be half of the failures.
    static let mendingLimit = Duration.seconds(60)
    static let mendingFailures: Int32 = 5

    private(set) var state = State.healthy
    private var window = VerdictWindow(buckets: 12, of: Self.period / 12)
    private var nextProbe: MonotonicTime?
    private var probePause = Self.firstProbe
    private var lastJudged: MonotonicTime?
    private var lastAccepted: MonotonicTime?
    /// Failures since APNs last judged a notification.
    private var failures = 0
    private var failingSince: MonotonicTime?
    /// The notification that caused all of `failures`; nil if there are several.
    private var lone: UInt64?
    private var refusals = 0
    private var refusalsSince: MonotonicTime?
    private var refusedOrigins = RecentOutcomes()
    private var busyOrigins = RecentOutcomes()
    /// True if the credential is ill because APNs throttles the whole provider: the same answer for one device is no
    /// sign of recovery.
    private var isThrottled = false
    private var mendingSince: MonotonicTime?
    /// True if notifications to tokens that were never accepted must be sent a few at a time.
    private(set) var isSuspicious = false

    func permission(now: MonotonicTime) -> Permission {
        guard self.state != .healthy, let nextProbe = self.nextProbe else { return .all }
        return nextProbe <= now ? .probes(self.isStopped ? 1 : Self.illProbes) : .nothing(until: nextProbe)
    }

    /// Notes that the probes that `permission` allowed were given to the client.
    mutating func probed(now: MonotonicTime) {
        switch self.state {
        case .healthy: break
        case .ill:
            self.nextProbe = now + self.probePause
            self.probePause = min(self.probePause * 2, Self.lastProbe)
        case .stopped:
            self.nextProbe = now + Self.stoppedProbe
        }
    }

    /// Notes that a connection to APNs was made: if APNs was unavailable, it is probed immediately.
    mutating func connected(now: MonotonicTime) {
        guard case .ill = self.state, let next = self.nextProbe, next > now else { return }
        self.nextProbe = now
    }

    /// Notes that notifications wait for a connection to APNs that cannot be made: no attempt has failed yet, but none
    /// can succeed.
    mutating func unreachable(_ reason: String, now: MonotonicTime) -> Change? {
        guard self.state == .healthy else { return nil }
        self.state = .ill(since: now, reason: reason)
        self.nextProbe = now
        return .ill(reason: reason)
    }

    /// Processes the verdict on one attempt.
    ///
    /// - Parameters:
    ///   - notification: the same for all attempts of a notification.
    ///   - origin: required for notifications that are not delivered.
    ///   - sent: the time when the attempt was given to the client.
    mutating func receive(
        _ verdict: PushVerdict, of notification: UInt64, origin: Origin = Origin(), sent: MonotonicTime,
        now: MonotonicTime
    ) -> Ruling {
        switch verdict {
        case .delivered, .retire:
            // 410 concerns the token: credential and topic were accepted.
            return Ruling(blame: .nobody, change: self.accepted(now: now))
        case .unknownToken:
            self.window.record(now: now) { $0.unknown += 1 }
            self.suspect()
            return Ruling(blame: .notification, change: self.judged(now: now))
        case .drop(let reason):
            let change = self.judged(now: now)
            return Ruling(blame: .notification, change: self.refusedOne(reason, origin, now: now) ?? change)
        case .retry(let retry) where retry.scope == .device:
            return self.busy(retry, of: notification, origin, now: now)
        case .retry(let retry):
            return self.failed(retry, of: notification, sent: sent, now: now)
        case .stopCredential(let reason):
            return self.refused(reason, sent: sent, now: now)
        }
    }

    // MARK: Internals

    private mutating func accepted(now: MonotonicTime) -> Change? {
        self.lastAccepted = now
        self.refusals = 0
        self.refusalsSince = nil
        let change = self.judged(now: now)
        if self.isSuspicious { self.suspect() }
        guard case .stopped(let since, _) = self.state else { return change }
        return self.heal(since, now: now)
    }

    /// Notes that APNs is available and distinguishes notifications.
    private mutating func judged(now: MonotonicTime) -> Change? {
        self.window.record(now: now) { $0.judged += 1 }
        self.lastJudged = now
        self.failures = 0
        self.failingSince = nil
        self.lone = nil
        self.mendingSince = nil
        guard case .ill(let since, _) = self.state else { return nil }
        return self.heal(since, now: now)
    }

    private mutating func heal(_ since: MonotonicTime, now: MonotonicTime) -> Change {
        self.state = .healthy
        self.nextProbe = nil
        self.probePause = Self.firstProbe
        self.isThrottled = false
        self.refusedOrigins.removeAll()
        return .healthy(after: now - since)
    }

    private mutating func suspect() {
        let counts = self.window.counts
        self.isSuspicious =
            counts.unknown >= Self.unknownToSuspect && counts.isShare(of: counts.unknown, above: Self.unknownShare)
    }

    /// Processes the throttling of a device, or of the whole provider if it concerns many devices.
    private mutating func busy(
        _ retry: PushRetry, of notification: UInt64, _ origin: Origin, now: MonotonicTime
    ) -> Ruling {
        self.window.record(now: now) { $0.busy += 1 }
        self.busyOrigins.record(origin, now: now)
        let counts = self.window.counts
        let isEverybody =
            self.isThrottled
            || counts.isShare(of: counts.busy, above: Self.busyShare)
                && self.busyOrigins.distinct(now: now).devices >= Self.busyDevices
        guard isEverybody else { return Ruling(blame: .notification, change: self.judged(now: now)) }
        self.window.record(now: now) { $0.failed += 1 }
        let change = self.isAway(retry, of: notification, now: now)
        if case .ill = self.state { self.isThrottled = true }
        return Ruling(blame: .nobody, change: change)
    }

    private mutating func failed(
        _ retry: PushRetry, of notification: UInt64, sent: MonotonicTime, now: MonotonicTime
    ) -> Ruling {
        let isJudgedMeanwhile = self.lastJudged.map { $0 >= sent } ?? false
        switch retry.cause {
        // Caused by us, which says nothing about APNs or the device.
        case .error(.queueFull), .error(.closed): return Ruling(blame: .nobody, change: nil)
        // It was never sent, so it is not to blame; if no notification was judged meanwhile, APNs is.
        case .error(.notStarted), .error(.connecting), .error(.tls):
            let change = isJudgedMeanwhile ? nil : self.isAway(retry, of: notification, now: now)
            return Ruling(blame: .nobody, change: change)
        default: break
        }
        let isTokenRefused = retry.cause == .answer(status: 403)
        self.window.record(now: now) {
            $0.failed += 1
            if isTokenRefused { $0.tokenRefused += 1 }
        }
        if isTokenRefused, let change = self.isNotMended(retry, now: now) {
            return Ruling(blame: .nobody, change: change)
        }
        if isJudgedMeanwhile { return Ruling(blame: self.isBrownOut ? .nobody : .time, change: nil) }
        let change = self.isAway(retry, of: notification, now: now)
        return Ruling(blame: self.lone == notification && retry.isOfAPNs ? .time : .nobody, change: change)
    }

    /// True if so many fail that the notifications themselves are not to blame.
    private var isBrownOut: Bool {
        let counts = self.window.counts
        return counts.failed >= Self.failuresToCompare && counts.isShare(of: counts.failed, above: Self.failedShare)
    }

    /// Counts a failure without a judgement since its attempt began; enough of them make the credential ill.
    private mutating func isAway(
        _ retry: PushRetry, of notification: UInt64, now: MonotonicTime
    ) -> Change? {
        if self.failures == 0 { self.lone = notification }
        if self.lone != notification { self.lone = nil }
        self.failures += 1
        let since = self.failingSince ?? now
        self.failingSince = since
        if let seconds = retry.afterSeconds, case .ill = self.state {
            self.nextProbe = max(self.nextProbe ?? now, now + Self.bounded(seconds))
        }
        if case .stopped = self.state {
            // The answer does not concern the credential, which is probed again soon.
            self.nextProbe = min(self.nextProbe ?? now, now + Self.lastProbe)
            return nil
        }
        if self.lone == notification, retry.isOfAPNs {
            // Others must be tried before one notification, which may itself be the cause, counts for all; it has its
            // own backoff.
            guard case .ill(let since, _) = self.state else { return nil }
            return self.heal(since, now: now)
        }
        guard self.state == .healthy else { return nil }
        guard self.failures >= Self.failuresToIll || now - since >= Self.patience else { return nil }
        self.state = .ill(since: since, reason: retry.reason)
        self.nextProbe = now + Self.bounded(retry.afterSeconds ?? 0)
        return .ill(reason: retry.reason)
    }

    private static func bounded(_ seconds: Int) -> Duration { min(.seconds(max(0, seconds)), Self.mostRetryAfter) }

    /// Stops the credential if 403s continue although the connection or provider token was replaced.
    private mutating func isNotMended(_ retry: PushRetry, now: MonotonicTime) -> Change? {
        let since = self.mendingSince ?? now
        self.mendingSince = since
        let counts = self.window.counts
        guard now - since >= Self.mendingLimit, counts.tokenRefused >= Self.mendingFailures,
            counts.tokenRefused * 2 >= counts.failed
        else { return nil }
        return self.stop(retry.reason, now: now)
    }

    /// Processes the refusal of one notification, which can never succeed.
    private mutating func refusedOne(_ reason: String, _ origin: Origin, now: MonotonicTime) -> Change? {
        self.window.record(now: now) { $0.refused += 1 }
        self.refusedOrigins.record(origin, now: now)
        let counts = self.window.counts
        guard counts.refused >= Self.refusedToStop, counts.isShare(of: counts.refused, above: Self.refusedShare) else {
            return nil
        }
        let distinct = self.refusedOrigins.distinct(now: now)
        guard distinct.devices >= Self.refusedOrigins, distinct.orders >= Self.refusedOrigins else { return nil }
        return self.stop(reason, now: now)
    }

    private mutating func refused(
        _ reason: String, sent: MonotonicTime, now: MonotonicTime
    ) -> Ruling {
        if !self.isStopped, let accepted = self.lastAccepted, now - accepted < Self.proof {
            // Another one was accepted after this one was sent, so the credential is not the cause.
            if accepted >= sent { return Ruling(blame: .time, change: nil) }
            self.refusals += 1
            let since = self.refusalsSince ?? now
            self.refusalsSince = since
            if self.refusals < Self.refusalsToStop || now - since < Self.refusalPatience {
                return Ruling(blame: .time, change: nil)
            }
        }
        return Ruling(blame: .nobody, change: self.stop(reason, now: now))
    }

    private var isStopped: Bool { if case .stopped = self.state { true } else { false } }

    private mutating func stop(_ reason: String, now: MonotonicTime) -> Change? {
        guard !self.isStopped else { return nil }
        self.state = .stopped(since: now, reason: reason)
        self.nextProbe = now + Self.stoppedProbe
        return .stopped(reason: reason)
    }
}

extension PushRetry {
    /// True if APNs itself had the request, with any result; else the network path may be interrupted, or lead to
    /// another server.
    fileprivate var isOfAPNs: Bool {
        switch self.cause {
        case .answer, .error(.timeout), .error(.protocolViolation): true
        case .foreign, .error: false
        }
    }
}

/// The cause of a failed attempt, which decides if the attempt counts against its notification.
enum FailureAttribution: Hashable, Sendable, CaseIterable {
    /// APNs, the network path or the credential: the notification waits until that works again.
    case nobody
    /// The service or a connection, while most other notifications succeed or there are none to compare with: only the
    /// time counts, against a long limit, not the number of attempts.
    case time
    /// The notification itself: APNs' answer concerns its device.
    case notification
}

/// The last notifications with one kind of outcome, to count their devices and orders.
///
/// Bounded: `capacity` entries. A value without a clock.
struct RecentOutcomes: Sendable {
    static let capacity = 32

    private var entries: [(origin: CredentialHealth.Origin, at: MonotonicTime)] = []

    mutating func record(_ origin: CredentialHealth.Origin, now: MonotonicTime) {
        if self.entries.count == Self.capacity { self.entries.removeFirst() }
        self.entries.append((origin, now))
    }

    /// - Returns: the number of different devices and orders among those of the last minute.
    func distinct(now: MonotonicTime) -> (devices: Int, orders: Int) {
        let recent = self.entries.filter { now - $0.at < CredentialHealth.period }
        return (Set(recent.map(\.origin.device)).count, Set(recent.map(\.origin.order)).count)
    }

    mutating func removeAll() { self.entries.removeAll() }
}

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
    private var end: MonotonicTime?

    /// - Parameter bucket: the length of each bucket.
    init(buckets: Int, of bucket: Duration) {
        self.bucket = bucket
        self.ring = [Counts](repeating: Counts(), count: buckets)
    }

    /// The sums over the whole period, as of the last call of `record`.
    var counts: Counts { self.ring.reduce(into: Counts()) { $0 += $1 } }

    mutating func record(now: MonotonicTime, _ change: (inout Counts) -> Void) {
        self.advance(now)
        change(&self.ring[self.current])
    }

    /// Clears the buckets whose time is over.
    private mutating func advance(_ now: MonotonicTime) {
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
