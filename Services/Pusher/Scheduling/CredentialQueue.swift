import APNS
import DequeModule
import Model

/// The state of one brand's credential, with the targets that wait for it.
///
/// Bounded: the waiting targets by the scheduler, changes of state by the bursts of replies that cause them.
struct CredentialQueue {
    /// The action for a notification.
    enum Ruling: Hashable {
        case delivered
        case again(after: Duration)
        /// The push token is gone: registrations before this moment, in milliseconds since 1970, are removed.
        case retire(before: Int64)
        /// APNs does not know the push token, which may be our fault: the registration stays.
        case keep(reason: String)
        /// Its attempts or its time are used up.
        case giveUp(reason: String)
        /// According to APNs' answer it can never succeed.
        case drop(reason: String)

        /// The name in spans.
        var name: String {
            switch self {
            case .delivered: "delivered"
            case .again: "again"
            case .retire: "token_gone"
            case .keep: "token_unknown"
            case .giveUp: "given_up"
            case .drop: "refused"
            }
        }
    }

    /// A change worth a log line or an alarm.
    enum Change: Hashable, Sendable {
        case health(CredentialHealth.Change)
        case breaker(TokenBreaker.State)
    }

    /// The pause of a notification whose credential was refused, before it is queued again.
    private static let rest = Duration.seconds(1)

    let orderType: OrderTypeIdentifier
    private let most: Int
    private let schedule: RetrySchedule.Limits
    /// True if a brand is loaded.
    var isOpen = true
    /// The credential's generation: outcomes with an older one say nothing about this one.
    private(set) var generation: Int
    private(set) var health = CredentialHealth()
    private(set) var breaker = TokenBreaker()
    /// Tokens that APNs accepted, for probes.
    private var known = KnownTokens()
    /// Hashes of the targets that were probed last: each probe uses a different target.
    private var probed: Deque<Int> = []
    private static let probedLimit = 4 * CredentialHealth.illProbes
    /// The events since the counts were last taken.
    var counts = PushCounts()
    /// Slots of targets that may be sent, with their tickets.
    var ready: Deque<(slot: Int32, ticket: UInt32)> = []
    /// Slots whose tokens APNs may not know, with their tickets; at most `mostSuspects` of them are in flight.
    var suspects: Deque<(slot: Int32, ticket: UInt32)> = []
    /// Most suspects that are in flight.
    static let mostSuspects = 4
    private var suspectsInFlight = 0
    /// Notifications that are with the client.
    private(set) var inFlight = 0
    /// Pairs of a record and a device that the scheduler holds for this queue.
    var links = 0
    private var changes: [Change] = []

    init(_ orderType: OrderTypeIdentifier, generation: Int, limits: PushLimits) {
        self.orderType = orderType
        self.generation = generation
        self.most = limits.inFlight
        self.schedule = RetrySchedule.Limits(attempts: limits.attempts, hold: limits.hold)
    }

    /// True if a brand is loaded and only probes can be sent with its credential.
    var isTroubled: Bool {
        if case .healthy = self.health.state { return false }
        return self.isOpen
    }

    /// Opens the queue for another credential, or for a brand that is loaded again, and forgets the health of the old
    /// one.
    mutating func renew(_ generation: Int) {
        self.isOpen = true
        self.generation = generation
        self.health = CredentialHealth()
        self.breaker = TokenBreaker()
        self.known = KnownTokens()
        self.probed.removeAll()
    }

    /// True if any target is ready, regardless of the credential's health.
    var hasReady: Bool { !self.ready.isEmpty || !self.suspects.isEmpty }

    /// True if a notification sent at this time is a probe of the credential.
    func isProbing(now: MonotonicTime) -> Bool {
        if case .probes = self.health.permission(now: now) { true } else { false }
    }

    /// True if APNs may not know the token of a device: while the credential's tokens are suspicious, few such
    /// notifications are in flight.
    ///
    /// - Parameter device: hash of the push token.
    func isSuspect(_ device: Int) -> Bool { !self.known.contains(device) }

    /// True if one more suspect may be in flight.
    var hasSuspectRoom: Bool { self.suspectsInFlight < Self.mostSuspects }

    /// Returns the suitability of a target as a probe of the credential, from 0 to 2; higher is better.
    func probeRank(_ device: Int) -> Int {
        if self.probed.contains(device) { return 0 }
        return self.known.contains(device) ? 2 : 1
    }

    /// Notes that a probe is sent to a device.
    mutating func probes(_ device: Int) {
        if self.probed.count == Self.probedLimit { self.probed.removeFirst() }
        self.probed.append(device)
    }

    /// Moves all suspects to the common queue.
    mutating func trustSuspects() {
        self.ready += self.suspects
        self.suspects.removeAll()
    }

    /// Counts a suspect in flight.
    mutating func sentSuspect() { self.suspectsInFlight += 1 }

    /// Notes that a connection to APNs was made.
    mutating func connected(now: MonotonicTime) { self.health.connected(now: now) }

    /// Notes that no connection to APNs can be made.
    mutating func unreachable(_ reason: String, generation: Int, now: MonotonicTime) {
        guard generation == self.generation, let change = self.health.unreachable(reason, now: now) else { return }
        self.changes.append(.health(change))
    }

    /// Returns the number of notifications that may be sent.
    func free(now: MonotonicTime) -> Int {
        guard self.isOpen else { return 0 }
        let room = max(0, self.most - self.inFlight)
        return switch self.health.permission(now: now) {
        case .all: room
        case .probes(let most): min(most, room)
        case .nothing: 0
        }
    }

    mutating func sent(_ count: Int, now: MonotonicTime) {
        guard count > 0 else { return }
        self.inFlight += count
        self.health.probed(now: now)
    }

    /// The time since which the credential is stopped, and the reason; nil if it is not.
    var stop: (since: MonotonicTime, reason: String)? {
        guard case .stopped(let since, let reason) = self.health.state else { return nil }
        return (since, reason)
    }

    mutating func takeChanges() -> [Change] {
        defer { self.changes.removeAll() }
        return self.changes
    }

    /// Processes the outcome of one attempt.
    ///
    /// - Parameters:
    ///   - origin: that of the notification; the order is required if it was not delivered.
    ///   - generation: that of the credential that it was sent with.
    ///   - jitter: 0 to 1; evaluated only for a retry.
    mutating func judge(
        _ outcome: PushOutcome, _ tries: inout PushAttempts, of origin: CredentialHealth.Origin = .init(),
        generation: Int, now: MonotonicTime, epochMilliseconds: Int64, jitter: @autoclosure () -> Double
    ) -> Ruling {
        self.inFlight -= 1
        if tries.isSuspect {
            tries.isSuspect = false
            self.suspectsInFlight -= 1
        }
        let verdict = verdict(of: outcome, sentEpochMilliseconds: tries.sentEpochMilliseconds)
        var blame = FailureAttribution.nobody
        if generation == self.generation {
            let ruling = self.health.receive(verdict, of: tries.serial, origin: origin, sent: tries.sent, now: now)
            if let change = ruling.change { self.changes.append(.health(change)) }
            blame = ruling.blame
        }
        if verdict == .delivered {
            if generation == self.generation {
                self.known.insert(origin.device)
                if let state = self.breaker.delivered(now: now) { self.changes.append(.breaker(state)) }
            }
            return .delivered
        }
        tries.history.append(outcome, epochMilliseconds: epochMilliseconds)
        switch verdict {
        case .delivered: return .delivered
        case .retire(let moment): return .retire(before: moment)
        // The new credential may have a permission that the older one lacked.
        case .drop where generation != self.generation, .unknownToken where generation != self.generation:
            return .again(after: Self.rest)
        case .unknownToken: return self.unknown(tries, now: now)
        case .drop(let reason): return .drop(reason: reason)
        case .retry(let retry): return self.again(retry, &tries, blame, now: now, jitter: jitter())
        case .stopCredential(let reason):
            // Others are delivered meanwhile, so the refusal came from one host or one connection.
            if blame != .nobody {
                return self.again(.contradicted(reason), &tries, blame, now: now, jitter: jitter())
            }
            return .again(after: Self.rest)
        }
    }

    /// Decides on the next attempt for a push token that APNs reported as gone and that was registered again since:
    /// APNs' answer is outdated, or will be repeated.
    ///
    /// The time that Redis and Kafka took does not count against the device.
    func renewed(
        _ tries: inout PushAttempts, now: MonotonicTime, jitter: Double
    ) -> (step: RetrySchedule.Step, reason: String) {
        let answer = tries.history.newest?.text ?? "410"
        let retry = PushRetry(
            reason: "\(answer) although it was registered again", scope: .device, cause: .answer(status: 410))
        tries.sent = now
        return (self.step(retry, &tries, .notification, now: now, jitter: jitter), retry.reason)
    }

    private mutating func unknown(_ tries: PushAttempts, now: MonotonicTime) -> Ruling {
        let text = tries.history.newest?.text ?? "400 \(PushReason.badDeviceToken.rawValue)"
        let ruling = self.breaker.refused(now: now)
        if let change = ruling.change { self.changes.append(.breaker(change)) }
        return switch ruling.decision {
        // APNs' answer cannot concern a registration made while the notification was in flight.
        case .retire: .retire(before: tries.sentEpochMilliseconds)
        case .keep(.unproven): .keep(reason: "\(text), and nothing was delivered yet")
        case .keep(.open): .keep(reason: "\(text), as too many")
        }
    }

    private func again(
        _ retry: PushRetry, _ tries: inout PushAttempts, _ blame: FailureAttribution, now: MonotonicTime,
        jitter: Double
    ) -> Ruling {
        switch self.step(retry, &tries, blame, now: now, jitter: jitter) {
        case .again(let pause): .again(after: pause)
        case .giveUp: .giveUp(reason: retry.reason)
        }
    }

    private func step(
        _ retry: PushRetry, _ tries: inout PushAttempts, _ blame: FailureAttribution, now: MonotonicTime,
        jitter: Double
    ) -> RetrySchedule.Step {
        tries.schedule.failed(retry, blame: blame, took: now - tries.sent, limits: self.schedule) { range in
            range.lowerBound + (range.upperBound - range.lowerBound) * jitter
        }
    }
}

/// The attempts of one notification so far.
struct PushAttempts: Sendable {
    /// The same for all attempts of one notification, different for the next.
    let serial: UInt64
    /// True if it was never sent: only its first attempt counts against the hourly limit.
    var isFirst = true
    /// True if it is in flight as a suspect: see `CredentialQueue.suspects`.
    var isSuspect = false
    /// The time when it was last given to the client.
    var sent: MonotonicTime
    /// The same, milliseconds since 1970.
    var sentEpochMilliseconds: Int64 = .max
    var schedule = RetrySchedule()
    var history = PushHistory()

    /// - Parameter now: used until it is sent.
    init(serial: UInt64, now: MonotonicTime) {
        self.serial = serial
        self.sent = now
    }
}

/// The events of one credential since the counts were last taken, for the metrics and the log.
package struct PushCounts: Sendable {
    /// Notifications that APNs accepted.
    package var delivered = 0
    /// Attempts that are repeated.
    package var retried = 0
    /// Changes that were merged into another notification.
    package var coalesced = 0
    /// Notifications that waited because of the hourly limit.
    var limited = 0
    /// Notifications whose token APNs does not know, and whose registration is kept.
    var unknown = 0
    /// Notifications that were dropped, by reason.
    package var dropped: [String: Int] = [:]
    /// The last notification that was dropped for each reason.
    var lastDropped: [String: Dropped] = [:]
    /// Time from the publication of a change to APNs' answer: for each delivered notification its oldest change.
    var agesInMilliseconds: [Int64] = []

    /// The most distinct reasons: some contain text from APNs.
    private static let reasonLimit = 32

    /// A dropped notification, by which its order is found.
    struct Dropped: Sendable {
        let order: OrderKey
        let trace: TraceContext?
    }

    mutating func drop(_ reason: String, count: Int = 1, of last: Dropped? = nil) {
        let isKnown = self.dropped[reason] != nil || self.dropped.count < Self.reasonLimit
        let name = isKnown ? reason : "others"
        self.dropped[name, default: 0] += count
        if let last { self.lastDropped[name] = last }
    }
}
