/// Distinguishes an outage of an upstream from a single key that cannot be done: in an outage several keys wait and
/// none gets done.
struct OutageDetector {
    /// The report to readiness.
    enum Change: Hashable {
        case away
        case back
    }

    /// The time without a finished key after which it is an outage.
    static let patience = Duration.seconds(2)
    /// The time between two log lines about waiting keys, regardless of their number.
    static let logPause = Duration.seconds(10)

    private var failingSince: ContinuousClock.Instant?
    private var isAway = false
    private var loggedAt: ContinuousClock.Instant?

    /// Processes the result of a batch.
    ///
    /// - Parameters:
    ///   - done: the number of keys that got done.
    ///   - delayed: the number of keys that must be retried, of all that are in hand.
    mutating func record(done: Int, delayed: Int, now: ContinuousClock.Instant) -> Change? {
        if done > 0 || delayed == 0 {
            self.failingSince = nil
            defer { self.isAway = false }
            return self.isAway ? .back : nil
        }
        let since = self.failingSince ?? now
        self.failingSince = since
        guard !self.isAway, delayed > 1, now - since >= Self.patience else { return nil }
        self.isAway = true
        return .away
    }

    /// Returns true if a log line is due.
    mutating func isLogged(now: ContinuousClock.Instant) -> Bool {
        if let loggedAt = self.loggedAt, now - loggedAt < Self.logPause { return false }
        self.loggedAt = now
        return true
    }
}
