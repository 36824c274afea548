import APNS

/// Whether notifications of one credential have a chance, judged by what became of the last ones.
///
/// `healthy` -> `ill` when nothing is answered any more -> `healthy` with the first judgement; from both -> `stopped`
/// when APNs refuses the credential -> `healthy` with the first notification that APNs accepts.
///
/// A changed certificate or key starts with a fresh value, and what was sent with the old one is told to the old value.
/// A value of constant size without a clock.
struct CredentialHealth: Sendable {
    enum State: Hashable, Sendable {
        /// Everything may be sent.
        case healthy
        /// APNs is away or answers nothing but 5xx: it is asked with one notification at a time.
        case ill(since: ContinuousClock.Instant, reason: String)
        /// APNs refuses whatever this credential sends.
        case stopped(since: ContinuousClock.Instant, reason: String)

        /// For a gauge: 0 healthy, 1 ill, 2 stopped.
        var gauge: Int {
            switch self {
            case .healthy: 0
            case .ill: 1
            case .stopped: 2
            }
        }
    }

    /// What is worth a line in the log, an alarm for the first two. Once per change, never per notification.
    enum Change: Hashable, Sendable {
        case ill(reason: String)
        case stopped(reason: String)
        /// With how long it was otherwise.
        case healthy(after: Duration)
    }

    /// What may be sent now.
    enum Permission: Hashable, Sendable {
        case all
        /// One notification as a probe, each time another one, so that a poisoned one does not keep all others waiting.
        /// Then `probed`.
        case one
        case nothing(until: ContinuousClock.Instant)
    }

    /// What an outcome means beyond its own notification.
    struct Ruling: Hashable, Sendable {
        /// Says something of attempts that are repeated: `.retry`, and `.stopCredential`, which with `.notification` is
        /// contradicted by others (repeat it, `PushRetry.contradicted`), with `.nobody` is the credential's fault (let
        /// it wait until the credential is healthy, or the hold limit is over).
        let blame: Blame
        let change: Change?
    }

    /// Failures in a row after which APNs is taken to be away: with fewer in flight, `patience` decides.
    static let failuresToIll = 20
    /// How long nothing but failures may come before APNs is taken to be away: longer than one cut connection and its
    /// replacement take.
    static let patience = Duration.seconds(5)
    /// Probes while ill: at once, then after a second, doubling. A quarter of a minute is soon enough for all who
    /// wait and no load for anybody.
    static let firstProbe = Duration.seconds(1)
    static let lastProbe = Duration.seconds(15)
    /// A Retry-After of APNs as a whole is honoured up to this, as one probe in five minutes harms nobody.
    static let mostRetryAfter = Duration.seconds(300)
    /// Probes while stopped: each is one error more on a connection that APNs cuts for too many errors.
    static let stoppedProbe = Duration.seconds(60)
    /// How long an accepted notification speaks for its credential against a single refusal.
    static let proof = Duration.seconds(60)
    /// Refusals in a row, all sent after the last accepted one, that outweigh it: more than one odd host gives before
    /// the client has left it.
    static let refusalsToStop = 10
    /// Notifications in a row that APNs refuses one by one (our bugs, tokens of another app or environment): this
    /// many within `floodWindow` are no devices' faults any more. One odd device is told less often than that.
    static let floodToStop = 20
    static let floodWindow = Duration.seconds(60)
    /// How long 403s may go on that a new connection or provider token should have mended.
    static let mendingLimit = Duration.seconds(60)

    private(set) var state = State.healthy
    private var nextProbe: ContinuousClock.Instant?
    private var probePause = Self.firstProbe
    private var lastJudged: ContinuousClock.Instant?
    private var lastAccepted: ContinuousClock.Instant?
    /// Failures since APNs last judged anything.
    private var failures = 0
    private var failingSince: ContinuousClock.Instant?
    /// The one notification that all of `failures` are of, as long as they are.
    private var lone: UInt64?
    private var refusals = 0
    private var flood = 0
    private var floodSince: ContinuousClock.Instant?
    private var mendingSince: ContinuousClock.Instant?

    func permission(now: ContinuousClock.Instant) -> Permission {
        guard self.state != .healthy, let nextProbe = self.nextProbe else { return .all }
        return nextProbe <= now ? .one : .nothing(until: nextProbe)
    }

    /// The one that `permission` allowed was given to the client.
    mutating func probed(now: ContinuousClock.Instant) {
        switch self.state {
        case .healthy: break
        case .ill:
            self.nextProbe = now + self.probePause
            self.probePause = min(self.probePause * 2, Self.lastProbe)
        case .stopped:
            self.nextProbe = now + Self.stoppedProbe
        }
    }

    /// Takes the verdict on one attempt.
    ///
    /// - Parameters:
    ///   - notification: the same for all attempts of a notification.
    ///   - sent: when the attempt was given to the client.
    mutating func take(
        _ verdict: PushVerdict, of notification: UInt64, sent: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) -> Ruling {
        switch verdict {
        case .delivered, .retire:
            // 410 speaks of the token: credential and topic were taken.
            return Ruling(blame: .nobody, change: self.accepted(now: now))
        case .unknownToken, .drop:
            let change = self.judged(now: now)
            return Ruling(blame: .notification, change: self.refusedOne(verdict.text, now: now) ?? change)
        case .retry(let retry):
            return self.failed(retry, of: notification, sent: sent, now: now)
        case .stopCredential(let reason):
            return self.refused(reason, sent: sent, now: now)
        }
    }

    // MARK: Internals

    private mutating func accepted(now: ContinuousClock.Instant) -> Change? {
        self.lastAccepted = now
        self.refusals = 0
        self.flood = 0
        self.floodSince = nil
        let change = self.judged(now: now)
        guard case .stopped(let since, _) = self.state else { return change }
        return self.heal(since, now: now)
    }

    /// APNs is there and tells one notification from another.
    private mutating func judged(now: ContinuousClock.Instant) -> Change? {
        self.lastJudged = now
        self.failures = 0
        self.failingSince = nil
        self.lone = nil
        self.mendingSince = nil
        guard case .ill(let since, _) = self.state else { return nil }
        return self.heal(since, now: now)
    }

    private mutating func heal(_ since: ContinuousClock.Instant, now: ContinuousClock.Instant) -> Change {
        self.state = .healthy
        self.nextProbe = nil
        self.probePause = Self.firstProbe
        return .healthy(after: now - since)
    }

    private mutating func failed(
        _ retry: PushRetry, of notification: UInt64, sent: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) -> Ruling {
        if retry.scope == .device {
            return Ruling(blame: .notification, change: self.judged(now: now))
        }
        let isJudgedMeanwhile = self.lastJudged.map { $0 >= sent } ?? false
        switch retry.cause {
        // Our own doing, which says nothing of anybody.
        case .error(.queueFull), .error(.closed): return Ruling(blame: .nobody, change: nil)
        // It was never sent, so it is not to blame; if nobody was judged, APNs is.
        case .error(.notStarted), .error(.connecting), .error(.tls):
            let change = isJudgedMeanwhile ? nil : self.isAway(retry, of: notification, now: now)
            return Ruling(blame: .nobody, change: change)
        default: break
        }
        if retry.cause == .answer(status: 403), let change = self.isNotMended(retry, now: now) {
            return Ruling(blame: .nobody, change: change)
        }
        if isJudgedMeanwhile { return Ruling(blame: .notification, change: nil) }
        let change = self.isAway(retry, of: notification, now: now)
        return Ruling(blame: self.lone == notification && retry.isOfAPNs ? .time : .nobody, change: change)
    }

    /// Nobody was judged since a failed attempt began.
    private mutating func isAway(
        _ retry: PushRetry, of notification: UInt64, now: ContinuousClock.Instant
    ) -> Change? {
        if self.failures == 0 { self.lone = notification }
        if self.lone != notification { self.lone = nil }
        self.failures += 1
        let since = self.failingSince ?? now
        self.failingSince = since
        if let seconds = retry.afterSeconds, case .ill = self.state {
            self.nextProbe = max(self.nextProbe ?? now, now + Self.bounded(seconds))
        }
        if self.lone == notification, retry.isOfAPNs {
            // Others must be tried before one that may be poisoned is taken for all; it has its own backoff.
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

    /// A connection or provider token was replaced, and is refused all the same.
    private mutating func isNotMended(_ retry: PushRetry, now: ContinuousClock.Instant) -> Change? {
        let since = self.mendingSince ?? now
        self.mendingSince = since
        guard now - since >= Self.mendingLimit else { return nil }
        return self.stop(retry.reason, now: now)
    }

    /// One notification was refused that can never succeed.
    private mutating func refusedOne(_ reason: String, now: ContinuousClock.Instant) -> Change? {
        if let since = self.floodSince, now - since <= Self.floodWindow {
            self.flood += 1
        } else {
            self.flood = 1
            self.floodSince = now
        }
        guard self.flood >= Self.floodToStop else { return nil }
        return self.stop(reason, now: now)
    }

    private mutating func refused(
        _ reason: String, sent: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) -> Ruling {
        if self.state == .healthy, let accepted = self.lastAccepted, now - accepted < Self.proof {
            // Accepted after this one was sent: then it is not the credential.
            if accepted >= sent { return Ruling(blame: .notification, change: nil) }
            self.refusals += 1
            if self.refusals < Self.refusalsToStop { return Ruling(blame: .notification, change: nil) }
        }
        return Ruling(blame: .nobody, change: self.stop(reason, now: now))
    }

    private var isStopped: Bool { if case .stopped = self.state { true } else { false } }

    private mutating func stop(_ reason: String, now: ContinuousClock.Instant) -> Change? {
        guard !self.isStopped else { return nil }
        self.state = .stopped(since: now, reason: reason)
        self.nextProbe = now + Self.stoppedProbe
        return .stopped(reason: reason)
    }
}

extension PushRetry {
    /// Whether APNs itself was there for this one, however little came of it; else the way there may be cut.
    fileprivate var isOfAPNs: Bool {
        switch self.cause {
        case .answer, .error(.timeout), .error(.protocolViolation): true
        case .error: false
        }
    }
}

extension PushVerdict {
    /// Status and reason of a notification that was refused for itself.
    fileprivate var text: String {
        switch self {
        case .unknownToken: "400 \(PushReason.badDeviceToken.rawValue)"
        case .drop(let reason), .stopCredential(let reason): reason
        case .retry(let retry): retry.reason
        case .delivered, .retire: ""
        }
    }
}
