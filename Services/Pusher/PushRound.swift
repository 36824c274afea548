import APNS

/// Some notifications on their way to their verdicts: which are open, and what became of the others.
struct PushRound {
    /// What is to be done about one notification now.
    enum Step: Hashable {
        case delivered
        case retire(registeredBefore: Int64)
        case dropped
        case again
        /// Unanswered to the last.
        case away
    }

    /// Those without a verdict.
    private(set) var open: [FanOut.Target]
    private(set) var attempts = 0
    /// How many were given up in the last attempt, by reason.
    private(set) var dropped: [String: Int] = [:]
    /// Why nothing more is to be sent with this credential.
    private(set) var stopReason: String?
    /// Why APNs counts as being away: the open ones are not lost, and not done.
    private(set) var awayReason: String?
    private var deliveredCount = 0
    private var answeredCount = 0

    init(_ targets: [FanOut.Target]) { self.open = targets }

    /// Takes the outcomes of one attempt, one for each of `open`.
    ///
    /// - Parameter isLast: whether this was the last attempt.
    mutating func take(_ outcomes: [PushOutcome], isLast: Bool) -> [(target: FanOut.Target, step: Step)] {
        self.attempts += 1
        self.dropped = [:]
        self.answeredCount += outcomes.count { if case .answered = $0 { true } else { false } }
        var refusal: String?
        var again: [FanOut.Target] = []
        let steps = zip(self.open, outcomes).map { target, outcome -> (target: FanOut.Target, step: Step) in
            let step: Step
            switch verdict(of: outcome) {
            case .delivered: step = .delivered
            case .retire(let registeredBefore): step = .retire(registeredBefore: registeredBefore)
            // APNs does not know the token, but does not say that it is gone: it may be us who ask the wrong APNs, and
            // then every device would be wiped.
            case .unknownToken: step = self.drop("the push token is not known to APNs")
            case .retry(let retry):
                if !isLast {
                    step = .again
                } else if self.isAway(outcome) {
                    step = .away
                    self.awayReason = retry.reason
                } else {
                    step = self.drop(retry.reason)
                }
            case .stopCredential(let reason):
                refusal = reason
                step = self.drop(reason)
            case .drop(let reason): step = self.drop(reason)
            }
            if step == .delivered { self.deliveredCount += 1 }
            if step == .again { again.append(target) }
            return (target, step)
        }
        self.open = again
        // An answer that other answers contradict stops nobody.
        if self.deliveredCount == 0 { self.stopReason = refusal }
        return steps
    }

    private mutating func drop(_ reason: String) -> Step {
        self.dropped[reason, default: 0] += 1
        return .dropped
    }

    /// Whether an outcome says that APNs is away, rather than that it has a problem with this notification.
    ///
    /// Silence on a few requests while most are answered is those requests' problem: it must not stop everything for
    /// ever. Where most stay unanswered, APNs is slow or away.
    private func isAway(_ outcome: PushOutcome) -> Bool {
        guard case .unanswered(let error) = outcome else { return false }
        switch error.code {
        case .timeout, .silent, .protocolViolation: return self.answeredCount < self.open.count
        case .notStarted, .connecting, .connectionLost, .tls, .queueFull, .closed: return true
        case .configuration, .credential: return false
        }
    }
}
