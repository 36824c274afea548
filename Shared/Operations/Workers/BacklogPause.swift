/// Lets a backlog be read before it is worked on, so that many changes of one key become one piece of work.
///
/// Only when there are more records in hand than ever come at once otherwise, only as long as more of them come, and
/// once for each backlog: what is lost is a moment in which reading has the processors to itself.
struct BacklogPause {
    /// So many records in hand are a backlog. More than a second's changes of a busy shop.
    static let backlog = 1024
    /// How long reading may take before the work begins.
    static let longest = Duration.seconds(1)
    /// So long without a record means that all is read.
    static let quiet = Duration.milliseconds(20)

    /// Since when there is a backlog.
    private var began: ContinuousClock.Instant?

    /// Whether the work is to wait.
    ///
    /// - Parameters:
    ///   - inHand: records that are not done, with those that came.
    ///   - came: how many came just now.
    mutating func isDue(inHand: Int, came: Int, now: ContinuousClock.Instant) -> Bool {
        guard inHand >= Self.backlog else {
            self.began = nil
            return false
        }
        let began = self.began ?? now
        self.began = began
        return came > 0 && now - began < Self.longest
    }
}
