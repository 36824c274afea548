/// Tells an upstream that is away from a key that cannot be done: in an outage several keys wait and none gets done.
struct OutageWatch {
    /// What readiness is told.
    enum Change: Hashable {
        case away
        case back
    }

    /// How long nothing may get done before it is an outage.
    static let patience = Duration.seconds(2)
    /// How often the log is told that keys wait, however many do.
    static let logPause = Duration.seconds(10)

    private var failingSince: ContinuousClock.Instant?
    private var isAway = false
    private var loggedAt: ContinuousClock.Instant?

    /// Takes in what came of a batch.
    ///
    /// - Parameters:
    ///   - done: how many keys got done.
    ///   - delayed: how many have to be tried again, of all that are in hand.
    mutating func note(done: Int, delayed: Int, now: ContinuousClock.Instant) -> Change? {
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

    /// Whether a line in the log is due.
    mutating func isLogged(now: ContinuousClock.Instant) -> Bool {
        if let loggedAt = self.loggedAt, now - loggedAt < Self.logPause { return false }
        self.loggedAt = now
        return true
    }
}
